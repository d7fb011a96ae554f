"""VisualPuzzles: prompts to the last blank, both families, Visual CoT, and metrics."""

from __future__ import annotations

import itertools
import json

import pytest
from helpers.bench_scoring import prefer, score

from lyncean.model.v1 import model_pb2 as model
from orchestrator.benchmarks.base import LetterSettings
from orchestrator.benchmarks.visualpuzzles.benchmark import BENCHMARK, CATEGORIES, category_of
from orchestrator.data.rows import DataError, Row
from orchestrator.samples import Answer, NoAnswerError, Variant

PUZZLE = b"\x89PNG\r\n\x1a\npuzzle"
DRAWN = model.Image(data=b"\x89PNG\r\n\x1a\ndiagram", media_type="image/png")


def make(options=("1", " 2", "3 ", "4"), category: str = "spatial", answer: str = "B", number: int = 17) -> Row:
    fields = {
        "id": number,
        "category": category,
        "question": "  What is next? ",
        "options": options and list(options),
        "answer": answer,
    }
    return Row(fields, lambda _: PUZZLE)


def sample(row: Row, task: str = "VisualPuzzles_direct", **variant):
    (planned,) = BENCHMARK.samples(row, Variant(task, **{"settings": LetterSettings(), **variant}))
    return planned


def prompt_text(planned, turn: int = 0, answers=()) -> str:
    (message,) = planned.turns[turn].ask(list(answers)).messages
    return message.parts[-1].text


def test_the_tasks():
    assert list(BENCHMARK.tasks) == [
        "VisualPuzzles_cot",
        "VisualPuzzles_direct",
        "VisualPuzzles",
        *(f"VisualPuzzles_{category}" for category in CATEGORIES),
        "VisualPuzzles_visual_cot",
        *(f"VisualPuzzles_{category}_visual_cot" for category in CATEGORIES),
    ]
    assert category_of("VisualPuzzles_spatial_visual_cot") == "spatial"
    assert [category_of(task) for task in ("VisualPuzzles_cot", "VisualPuzzles", "VisualPuzzles_visual_cot")] == [
        ""
    ] * 3


BLOCK = "Question: What is next?\nOptions:\n(A) 1\n(B)  2\n(C) 3 \n(D) 4"


def test_prompts():
    assert prompt_text(sample(make(), "VisualPuzzles_direct")) == (
        BLOCK + "\nAnswer the question with the option's letter from the given choices directly."
    )
    assert prompt_text(sample(make(), "VisualPuzzles_spatial")) == prompt_text(sample(make(), "VisualPuzzles_direct"))
    assert prompt_text(sample(make(), "VisualPuzzles_cot")) == (
        BLOCK + "\nSolve the multiple-choice question and then answer with the option letter from the given choices. "
        "The last line of your response should be of the following format: 'Answer: $LETTER' (without quotes) "
        "where LETTER is one of options. Think step by step before answering."
    )
    assert prompt_text(sample(make(None))) == (
        "Question: What is next?\nOptions: Choose from (A) (B) (C) (D) in the image.\n"
        "Answer the question with the option's letter from the given choices directly."
    )


def test_decoding():
    for task, tokens in (("VisualPuzzles_cot", 4096), ("VisualPuzzles_deductive", 4096)):
        config = sample(make(category="deductive"), task).turns[0].ask([]).config
        assert (config.max_output_tokens, config.temperature, config.top_p, list(config.stop)) == (tokens, 0.0, 1.0, [])
        assert list(sample(make(category="deductive"), task, parity=True).turns[0].ask([]).config.stop) == ["\n\n"]


def test_visual_cot_in_two_turns():
    planned = sample(make(), "VisualPuzzles_spatial_visual_cot")
    assert [turn.name for turn in planned.turns] == ["diagram", "answer"]
    assert [planned.item_key(turn) for turn in planned.turns] == [
        "VisualPuzzles_spatial_visual_cot/17:diagram",
        "VisualPuzzles_spatial_visual_cot/17:answer",
    ]
    first = planned.turns[0].ask([])
    assert (first.modality, first.stage, planned.turns[0].scoring) == (model.MODALITY_IMAGE, "generate", None)
    assert prompt_text(planned).startswith(
        "You are given a spatial reasoning puzzle involving 3D visualization or transformations.\n\n" + BLOCK
    )
    second = planned.turns[1].ask([Answer(text="Here it is", images=(DRAWN,))])
    image, diagram, text = second.messages[0].parts
    assert (image.image.data, diagram.image.data) == (PUZZLE, DRAWN.data)
    assert second.config.max_output_tokens == 512
    assert second.modality == model.MODALITY_UNSPECIFIED
    assert text.text == (
        BLOCK + "\n\nYou are given TWO images:\n1) ORIGINAL PUZZLE: The spatial reasoning puzzle\n"
        "2) AUXILIARY DIAGRAM: A visualization showing the spatial transformation from multiple views\n\n"
        "Use the auxiliary diagram to mentally trace the transformation, then select the correct answer.\n"
        "Answer with the option letter (A, B, C, or D) directly."
    )
    with pytest.raises(NoAnswerError) as caught:
        planned.turns[1].ask([Answer(text="I cannot draw")])
    assert caught.value.reason == "no_image"
    drawing = Variant("VisualPuzzles_visual_cot", settings=LetterSettings())
    assert "IMAGE_OUTPUT" in BENCHMARK.stage_needs(drawing)["generate"]
    assert "IMAGE_OUTPUT" not in BENCHMARK.needs(drawing)
    assert not BENCHMARK.stage_needs(Variant("VisualPuzzles_cot", settings=LetterSettings()))


@pytest.mark.parametrize("category", CATEGORIES)
def test_questions_with_braces_pass_through(category):
    row = Row(dict(make(category=category).fields) | {"question": "{x} {question} {category}?"}, lambda _: PUZZLE)
    planned = sample(row, "VisualPuzzles_visual_cot")
    for text in (prompt_text(planned), prompt_text(planned, 1, [Answer(images=(DRAWN,))])):
        assert "Question: {x} {question} {category}?\n" in text
        assert text.count("{") == 3


def test_rules_of_both_readings():
    assert sample(make()).turns[0].scoring.rule == "choice"
    assert sample(make(None)).turns[0].scoring.params == {"count": 4}
    for task, family in (("VisualPuzzles_cot", "main"), ("VisualPuzzles_spatial", "unig2u")):
        scoring = sample(make(), task, parity=True).turns[0].scoring
        assert (scoring.rule, scoring.params, scoring.options) == (
            "lmms_visualpuzzles",
            {"variant": family},
            ("1", " 2", "3 ", "4"),
        )


def test_likelihood():
    texts = sample(make(), method="likelihood").turns[0]
    assert texts.ask([]).continuations == ("1", " 2", "3 ", "4")
    assert texts.scoring.targets == (" 2",)
    letters = sample(make(None), method="likelihood").turns[0]
    assert letters.ask([]).continuations == letters.scoring.options == ("A", "B", "C", "D")
    visual = sample(make(), "VisualPuzzles_spatial_visual_cot", method="likelihood")
    assert visual.turns[0].ask([]).continuations == ()
    assert visual.turns[1].ask([Answer(images=(DRAWN,))]).continuations == ("A", "B", "C", "D")


def test_options_that_are_letters_themselves():
    """Options "B", "A", ... are read by place by every method."""
    row = make(("B", "A", "D", "C"), answer="A")
    first_turn = sample(row, method="likelihood").turns[0]
    outcome = score(
        BENCHMARK,
        [row],
        Variant("VisualPuzzles_direct", method="likelihood", settings=LetterSettings()),
        lambda _, turn: prefer(turn.scoring.options, "B"),
    )
    assert first_turn.scoring.targets == ("B",)
    assert outcome.percent("accuracy") == 100


def test_bad_rows_are_named():
    with pytest.raises(DataError, match="puzzle 17: answer 'E'"):
        sample(make(answer="E"))
    with pytest.raises(DataError, match="category 'cooking' is not known"):
        sample(make(category="cooking"))


def write(path, rows) -> None:
    path.write_text("\n".join(json.dumps(dict(row.fields) | {"image": ""}) for row in rows))


def test_rows_by_category(tmp_path):
    write(tmp_path / "all.jsonl", [make(category=c.capitalize(), number=i) for i, c in enumerate(CATEGORIES * 2)])
    source = BENCHMARK.rows("VisualPuzzles_deductive", str(tmp_path / "all.jsonl"))
    assert [row["id"] for row in source] == [2, 7]
    assert source.count == 2
    everything = BENCHMARK.rows("VisualPuzzles", str(tmp_path / "all.jsonl"))
    assert everything.count == 10
    assert sample(next(iter(everything)), "VisualPuzzles").key == "VisualPuzzles/algorithmic/0"


def test_a_folder_with_a_file_for_each_category(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    for category in CATEGORIES:
        rows = [{k: v for k, v in make(number=i).fields.items() if k != "category"} for i in range(3)]
        table = pa.Table.from_pylist([row | {"image": {"bytes": PUZZLE, "path": None}} for row in rows])
        pq.write_table(table, tmp_path / f"{category}.parquet")
    rows = list(BENCHMARK.rows("VisualPuzzles_inductive", str(tmp_path)))
    planned = sample(rows[2], "VisualPuzzles_inductive")
    labels = {"category": "inductive", "option_kind": "text"}
    assert (planned.key, planned.turns[0].scoring.labels) == ("VisualPuzzles_inductive/2", labels)
    assert rows[2].image() == PUZZLE
    with pytest.raises(DataError, match="has no column category"):
        BENCHMARK.rows("VisualPuzzles", str(tmp_path))


def test_drawn_puzzles():
    rows = list(itertools.islice(BENCHMARK.synthetic("VisualPuzzles", 4), 60))
    variant = Variant("VisualPuzzles_direct", settings=LetterSettings())
    outcome = score(BENCHMARK, rows, variant, lambda _, turn: turn.scoring.targets[0])
    assert outcome.percent("accuracy") == 100
    assert {dict(f.labels).get("category") for f in outcome.summary.metrics if f.name == "accuracy"} == {
        None,
        *CATEGORIES,
    }
    assert {row["answer"] for row in rows} == set("ABCD")
    for row in rows:
        assert row["options"] is None or len(set(row["options"])) == 4
    spatial = list(itertools.islice(BENCHMARK.synthetic("VisualPuzzles_spatial", 4), 3))
    assert {row["category"] for row in spatial} == {"spatial"}
    assert spatial[0].image() == next(BENCHMARK.synthetic("VisualPuzzles_spatial", 4)).image()
