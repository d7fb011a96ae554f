"""V*-Bench: prompts to the last blank, options, sub-tasks and metrics."""

from __future__ import annotations

import itertools
import json

import pytest
from helpers.bench_scoring import prefer, score
from hypothesis import given, strategies as st

from lyncean.errors import UserError
from orchestrator.benchmarks.vstar.benchmark import BENCHMARK, VstarSettings
from orchestrator.benchmarks.vstar.prompt import INSTRUCTION, reference_prompt, split_text
from orchestrator.data.rows import DataError, Row
from orchestrator.samples import Variant

GLOVE = (
    "What is the material of the glove?\n(A) rubber\n(B) cotton\n(C) kevlar\n(D) leather\n"
    "Answer with the option's letter from the given choices directly."
)
DOG = f"Is the dog left or right of the car?\n(A) left\n(B) right\n{INSTRUCTION}"


def make(text: str = GLOVE, label: str = "A", category: str = "direct_attributes", number: int = 0) -> Row:
    fields = {"text": text, "label": label, "category": category, "question_id": number}
    return Row(fields, lambda _: b"\xff\xd8\xff jpeg")


def sample(row: Row, **variant):
    (planned,) = BENCHMARK.samples(row, Variant("vstar_bench", **{"settings": VstarSettings(), **variant}))
    return planned


def prompt(row: Row, **variant) -> str:
    (message,) = sample(row, **variant).turns[0].ask([]).messages
    image, text = message.parts
    assert image.image.data == b"\xff\xd8\xff jpeg"
    assert image.image.media_type == "image/jpeg"
    return text.text


def test_prompt_with_the_instruction_once():
    assert prompt(make()) == (
        "What is the material of the glove?\nA. rubber\nB. cotton\nC. kevlar\nD. leather\n"
        "Answer with the option's letter from the given choices directly."
    )


def test_parity_prompt_has_the_instruction_twice():
    assert prompt(make(), parity=True) == (
        "What is the material of the glove?\nA. rubber\nB. cotton\nC. kevlar\nD. leather\n"
        "Answer with the option's letter from the given choices directly.\n"
        "Answer with the option's letter from the given choices directly."
    )


def test_options_with_parentheses():
    text = f"Which?\n(A) red (dark) (B) blue (C) green (D) tan\n{INSTRUCTION}"
    assert prompt(make(text)) == f"Which?\nA. red (dark)\nB. blue\nC. green\nD. tan\n{INSTRUCTION}"
    assert prompt(make(text), parity=True) == (f"Which?\nA. blue\nB. green\nC. tan\n{INSTRUCTION}\n{INSTRUCTION}")


def test_two_options():
    row = make(DOG, "B", "relative_position")
    assert prompt(row) == f"Is the dog left or right of the car?\nA. left\nB. right\n{INSTRUCTION}"
    assert sample(row).turns[0].scoring.options == ("left", "right")


def test_text_without_options():
    assert prompt(make("Which letter is on the sign?")) == f"Which letter is on the sign?\n{INSTRUCTION}"
    assert prompt(make(f"Which?\n{INSTRUCTION}")) == f"Which?\n{INSTRUCTION}"
    assert reference_prompt(f"Which?\n{INSTRUCTION}") == f"Which?\n{INSTRUCTION}\n{INSTRUCTION}"
    assert sample(make("Which?")).turns[0].scoring.params == {"count": 4}


def test_decoding():
    config = sample(make()).turns[0].ask([]).config
    assert (config.max_output_tokens, config.temperature, config.top_p, list(config.stop)) == (16, 0.0, 1.0, [])
    assert list(sample(make(), parity=True).turns[0].ask([]).config.stop) == ["\n\n"]


def test_likelihood_scores_texts_or_letters():
    planned = sample(make(label="C"), method="likelihood")
    call, scoring = planned.turns[0].ask([]), planned.turns[0].scoring
    assert call.continuations == scoring.options == ("rubber", "cotton", "kevlar", "leather")
    assert scoring.targets == ("kevlar",)
    assert INSTRUCTION not in call.messages[0].parts[1].text
    letters = sample(make(label="C"), method="likelihood", settings=VstarSettings(letters=True))
    assert letters.turns[0].ask([]).continuations == ("A", "B", "C", "D")
    assert letters.turns[0].scoring.targets == ("C",)
    assert letters.turns[0].ask([]).messages[0].parts[1].text.endswith(INSTRUCTION)


@given(st.integers(0, 1000), st.sampled_from("ABCD"), st.integers(0, 3))
def test_shuffled_options_keep_their_answer(seed, label, repeat):
    right = dict(zip("ABCD", ("rubber", "cotton", "kevlar", "leather"), strict=True))[label]
    planned = sample(make(label=label), shuffle_options=True, seed=seed, repeat=repeat)
    scoring = planned.turns[0].scoring
    assert scoring.options["ABCD".index(scoring.targets[0])] == right
    assert f"{scoring.targets[0]}. {right}\n" in planned.turns[0].ask([]).messages[0].parts[1].text


def test_shuffling_and_parity_exclude_each_other():
    with pytest.raises(UserError, match="never shuffles"):
        BENCHMARK.needs(Variant("vstar_bench", parity=True, shuffle_options=True, settings=VstarSettings()))


@given(st.text(max_size=80))
def test_any_text_makes_a_prompt(text):
    question, options = split_text(text)
    assert len(options) <= 4
    assert all(option == option.strip() for option in options)
    assert question == question.strip()
    assert reference_prompt(text).endswith(f"\n{INSTRUCTION}")


def test_label_that_names_no_option():
    with pytest.raises(DataError, match="label 'C' names none of its 2 options"):
        sample(make(DOG, "C"))


def test_sub_tasks_have_their_rows_only(tmp_path):
    rows = [
        dict(make(number=i, category=c).fields) | {"image": ""}
        for i, c in enumerate(["direct_attributes", "relative_position", "direct_attributes"])
    ]
    file = tmp_path / "vstar.jsonl"
    file.write_text("\n".join(json.dumps(row) for row in rows))
    ids = {task: [row["question_id"] for row in BENCHMARK.rows(task, str(file))] for task in BENCHMARK.tasks}
    assert ids == {
        "vstar_bench": [0, 1, 2],
        "vstar_bench_direct_attributes": [0, 2],
        "vstar_bench_relative_position": [1],
        "vstar_bench_appendix": [],
    }
    assert BENCHMARK.rows("vstar_bench_relative_position", str(file)).count == 1
    file.write_text("\n".join(json.dumps(row | {"question_id": 5}) for row in rows))
    with pytest.raises(DataError, match="id 5 stands twice"):
        BENCHMARK.rows("vstar_bench", str(file))


def test_metrics_in_percent_by_category():
    rows = [make(number=i) for i in range(6)] + [make(DOG, "B", "relative_position", i) for i in range(6, 10)]
    outcome = score(BENCHMARK, rows, Variant("vstar_bench", settings=VstarSettings()), lambda *_: "The answer is A.")
    assert outcome.metric("accuracy").unit == "percent"
    assert outcome.percent("accuracy") == 60
    assert outcome.percent("accuracy", category="direct_attributes") == 100
    assert outcome.percent("accuracy", category="relative_position") == 0
    assert outcome.metric("choice bias").details["constant"] is True


def test_two_readings_of_one_answer():
    row = make(label="D")
    careful = score(BENCHMARK, [row], Variant("vstar_bench", settings=VstarSettings()), lambda *_: "Answer: D")
    variant = Variant("vstar_bench", parity=True, settings=VstarSettings())
    parity = score(BENCHMARK, [row], variant, lambda *_: "Answer: D")
    assert [v.extracted for v in careful.verdicts.values()] == ["D"]
    assert [v.extracted for v in parity.verdicts.values()] == ["A"]


@pytest.mark.parametrize("task", list(BENCHMARK.tasks))
def test_drawn_scenes(task):
    rows = list(itertools.islice(BENCHMARK.synthetic(task, 2), 12))
    categories = {row["category"] for row in rows}
    wanted = {"vstar_bench": 2, "vstar_bench_appendix": 2}.get(task, 1)
    assert len(categories) == wanted
    outcome = score(BENCHMARK, rows, Variant(task, settings=VstarSettings()), lambda _, turn: turn.scoring.targets[0])
    assert outcome.percent("accuracy") == 100
    variant = Variant(task, method="likelihood", settings=VstarSettings())
    sure = score(BENCHMARK, rows, variant, lambda _, turn: prefer(turn.scoring.options, turn.scoring.targets[0]))
    assert sure.percent("accuracy") == 100
    assert rows[0].image()[:3] == b"\xff\xd8\xff"
