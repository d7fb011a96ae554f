"""Task files: what they make, what they refuse, what is guessed from data."""

from __future__ import annotations

import io
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from click.testing import CliRunner, Result
from hypothesis import given, strategies as st
from PIL import Image

from orchestrator.benchmarks.base import NoSettings
from orchestrator.benchmarks.taskfile import TaskFileError, load
from orchestrator.benchmarks.taskfile.guessing import guess
from orchestrator.benchmarks.taskfile.reading import SCHEMA
from orchestrator.benchmarks.taskfile.template import fill, parse
from orchestrator.cli import main
from orchestrator.data.rows import DataError
from orchestrator.samples import Variant

PAGE = Path(__file__).parents[4] / "docs" / "add-a-benchmark.md"
CSV = """id,question,A,B,C,D,answer,topic
q1,Which animal barks?,cat,dog,cow,hen,B,sound
q2,Which animal lays eggs?,hen,dog,cow,cat,A,food
q3,Which animal gives milk?,hen,dog,cow,ant,C,food
"""
TASK = """data: animals.csv
id: id
question: question
options: [A, B, C, D]
answer: answer
labels: topic
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "animals.csv").write_text(CSV)
    (tmp_path / "animals.yaml").write_text(TASK)
    return tmp_path


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(word) for word in arguments])


def prompts(file: Path, *options: str) -> list[dict[str, Any]]:
    done = run("prompts", "--task", file, *options)
    assert done.exit_code == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def picture(colour: str) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8), colour).save(buffer, "PNG")
    return buffer.getvalue()


def parts(line: dict[str, Any]) -> list[Any]:
    return [part.get("text") or "image" for part in line["request"]["messages"][-1]["parts"]]


def test_six_lines_are_a_benchmark(folder: Path) -> None:
    first, second, _ = prompts(folder / "animals.yaml")
    assert first["key"] == "animals/q1"
    assert first["rule"] == "choice"
    assert (first["target"], second["target"]) == ("B", "A")
    assert first["options"] == ["cat", "dog", "cow", "hen"]
    assert first["labels"] == {"topic": "sound"}
    assert parts(first) == [
        "Which animal barks?\nA. cat\nB. dog\nC. cow\nD. hen\n"
        "Answer with the option's letter from the given choices directly."
    ]


def test_likelihood_scores_the_options(folder: Path) -> None:
    line = prompts(folder / "animals.yaml", "--method", "likelihood", "--limit", "1")[0]
    assert line["request"]["continuations"] == ["cat", "dog", "cow", "hen"]
    assert line["target"] == "dog"
    assert parts(line) == ["Which animal barks?"]
    (folder / "letters.yaml").write_text(TASK + "likelihood: {score: letter}\n")
    line = prompts(folder / "letters.yaml", "--method", "likelihood", "--limit", "1")[0]
    assert line["request"]["continuations"] == ["A", "B", "C", "D"]
    assert line["target"] == "B"
    assert parts(line)[0].endswith("D. hen\nAnswer:")


def test_shuffled_options_keep_the_right_one(folder: Path) -> None:
    for line in prompts(folder / "animals.yaml", "--shuffle-options", "--repeats", "4"):
        right = line["options"]["ABCD".index(line["target"])]
        assert right == {"q1": "dog", "q2": "hen", "q3": "cow"}[line["key"].split("/")[1].split("#")[0]]


def test_images_stand_where_the_template_says(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.png").write_bytes(picture("red"))
    row = {"left": "one.png", "right": "two.png", "ask": "Same?", "reply": ["yes", "y"]}
    (tmp_path / "pairs.jsonl").write_text(json.dumps(row) + "\n")
    text = "data: pairs.jsonl\nimage: [left, right]\nquestion: ask\nanswer: reply\nsystem: Be brief.\n"
    (tmp_path / "pairs.yaml").write_text(text)
    line = prompts(tmp_path / "pairs.yaml")[0]
    assert parts(line) == ["image", "image", "Same?"]
    assert line["request"]["messages"][0]["role"] == "ROLE_SYSTEM"
    assert line["key"] == "pairs/1"
    assert line["rule"] == "contains_word"
    (tmp_path / "pairs.yaml").write_text(text + 'prompt: "First {left} then {right}: {question} {{ok}}"\n')
    assert parts(prompts(tmp_path / "pairs.yaml")[0]) == ["First ", "image", " then ", "image", ": Same? {ok}"]
    benchmark = load(tmp_path / "pairs.yaml")
    assert list(benchmark.needs(Variant("pairs", settings=NoSettings()))) == ["IMAGE_INPUT", "MULTI_IMAGE"]
    assert list(benchmark.methods) == ["generate"]
    row = next(iter(benchmark.rows("pairs", None)))
    sample = next(iter(benchmark.samples(row, Variant("pairs", settings=NoSettings()))))
    scoring = sample.turns[0].scoring
    assert scoring is not None
    assert scoring.targets == ("yes", "y")


@pytest.mark.parametrize(("value", "kind"), [(None, "null"), (["a", "b"], "a list"), ({"a": 1}, "an object")])
def test_what_is_no_text_is_never_shown_to_a_model(tmp_path: Path, value: object, kind: str) -> None:
    rows = [{"ask": "Well?", "hint": "x", "reply": "yes"}, {"ask": "Well?", "hint": value, "reply": "yes"}]
    (tmp_path / "set.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "set.yaml").write_text("data: set.jsonl\nquestion: ask\nprompt: '{question} {hint}'\nanswer: reply\n")
    done = run("prompts", "--task", tmp_path / "set.yaml")
    assert done.exit_code == 2
    assert f"row 2: column 'hint' is {kind}, and it is shown to the model" in done.output


def test_a_deep_file_is_refused_as_soon_as_it_is_deep(tmp_path: Path) -> None:
    (tmp_path / "deep.yaml").write_text("data: set.jsonl\nquestion: " + "[" * 20_000)
    done = run("prompts", "--task", tmp_path / "deep.yaml")
    assert done.exit_code == 2
    assert "line 2: lists or mappings are nested more than 20 deep" in done.output


def test_parquet_with_lists_and_indices(tmp_path: Path) -> None:
    table = {
        "image": [{"bytes": picture("red"), "path": None}] * 4,
        "question": ["What?"] * 4,
        "choices": [["red", "blue"], ["a", "b"], ["c", "d"], ["e", "f"]],
        "answer": [0, 1, 1, 0],
        "category": ["x", "y", "x", "y"],
    }
    pq.write_table(pa.table(table), tmp_path / "set.parquet")
    done = run("new-task", tmp_path / "set.parquet", "--output", tmp_path / "set.yaml")
    assert done.exit_code == 0, done.output
    assert yaml.safe_load((tmp_path / "set.yaml").read_text()) == {
        "data": "set.parquet",
        "image": "image",
        "question": "question",
        "options": "choices",
        "answer": "answer",
        "answer_is": "index",
        "labels": "category",
    }
    lines = prompts(tmp_path / "set.yaml")
    assert [line["target"] for line in lines] == ["A", "B", "B", "A"]
    assert parts(lines[0])[0] == "image"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("answer: answer", "anwser: answer"), "line 5: unknown key 'anwser': did you mean answer?"),
        (("answer: answer", "answer: reply"), "line 5: answer: .* has no column 'reply'; it has id, question"),
        (("id: id", "id: topic"), "animals.csv: id food stands twice"),
        (("answer: answer\n", ""), "line 1: answer is missing"),
        (("id: id", "id: [x"), "line 3, column 9: no YAML"),
        (("id: id", "id: 7"), "line 2: id: 7 is not of type 'string'"),
        (("id: id", "data: other.csv"), "line 2: data stands on line 1 already"),
        (("id: id", "split: &a x\nconfig: *a"), "uses a YAML alias"),
        (("data: animals.csv", "data: none.csv"), "line 1: no data at"),
        (("labels: topic", "answer_is: roman"), "line 6: answer_is is 'roman': give one of letter, number"),
        (("labels: topic", "prompt: '{question'"), "line 6: prompt: a lone '{'"),
        (("labels: topic", "prompt: '{qestion}'"), "line 6: prompt: .* has no column 'qestion'"),
        (("labels: topic", "prompt: '{question.__class__}'"), r"line 6: prompt: .* no column 'question\.__class__'"),
        (("labels: topic", "decoding: {temperature: -1}"), "line 6: decoding.temperature: -1 is less than"),
        (("labels: topic", "decoding: {max_output_tokens: 4294967296}"), "line 6: decoding.max_output_tokens: 4294967"),
        (("labels: topic", "params: {count: 99999999999999999999999}"), "line 6: params: Integer exceeds 64-bit range"),
        (("labels: topic", "params: {1: x}"), "line 6: params: Dict key must be str; write it in quotes"),
        (("labels: topic", "params: {x: 2020-01-01}"), "line 6: params: .* not JSON serializable; write it in quotes"),
        (
            ("labels: topic", "metrics:\n  - accuracy\n  - {metric: accuracy, by: day}"),
            "line 8: metrics: 'day' is none",
        ),
        (("options: [A, B, C, D]", "likelihood: {score: letter}"), "line 4: likelihood needs options"),
    ],
)
def test_a_mistake_is_named_with_its_line(folder: Path, change: tuple[str, str], message: str) -> None:
    (folder / "animals.yaml").write_text(TASK.replace(*change))
    done = run("eval", "--task", folder / "animals.yaml", "--run", folder / "run")
    assert done.exit_code == 2
    assert re.search(message, done.stderr), done.stderr
    assert done.stderr.count("\n") == 1
    assert not (folder / "run").exists() or message.startswith("line 8")


@pytest.mark.parametrize("empty", [None, "", " "])
def test_a_row_without_an_id_is_named(tmp_path: Path, empty: str | None) -> None:
    rows = [{"name": "a", "q": "Why?", "right": "so"}, {"name": empty, "q": "How?", "right": "so"}]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "t.yaml").write_text("{data: rows.jsonl, id: name, question: q, answer: right, rule: contains_word}")
    done = run("prompts", "--task", tmp_path / "t.yaml")
    assert done.exit_code == 2
    assert "row 2: column 'name' is empty: every row needs an id" in done.output


def test_an_answer_that_is_no_option_is_named(folder: Path) -> None:
    (folder / "animals.csv").write_text(CSV.replace("hen,B,", "hen,E,"))
    done = run("prompts", "--task", folder / "animals.yaml")
    assert done.exit_code == 2
    assert "animals/q1: the answer 'E' is not the letter of one of its 4 options" in done.stderr


def test_synthetic_and_parity_are_refused(folder: Path) -> None:
    for word in ("--synthetic", "--parity"):
        done = run("prompts", "--task", folder / "animals.yaml", word)
        assert done.exit_code == 2, word
        assert "Error" in done.stderr


def test_the_prompt_is_part_of_the_digest(folder: Path) -> None:
    before = load(folder / "animals.yaml").rows("animals", None).digest
    assert load(folder / "animals.yaml").rows("animals", None).digest == before
    (folder / "animals.yaml").write_text(TASK + "prompt: '{question}'\n")
    assert load(folder / "animals.yaml").rows("animals", None).digest != before


@pytest.mark.parametrize(
    ("rows", "form"),
    [
        ([{"q": 1, "question": "?", "option_a": "x", "option_b": "y", "answer": "a"}], "letter"),
        ([{"question": "?", "option1": "x", "option2": "y", "answer": n} for n in (1, 2)], "number"),
        ([{"question": "?", "options": ["x", "y"], "label": n} for n in (0, 1)], "index"),
        ([{"query": "?", "choices": '["x", "y"]', "target": "y"}], "text"),
    ],
)
def test_forms_of_options_and_answers_are_guessed(tmp_path: Path, rows: list[dict[str, Any]], form: str) -> None:
    file = tmp_path / "set.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    guessed = guess(str(file))
    assert guessed.values["answer_is"] == form
    (tmp_path / "t.yaml").write_text(yaml.safe_dump({**guessed.values, "data": "set.jsonl"}))
    assert len(prompts(tmp_path / "t.yaml")) == len(rows)


def test_what_cannot_be_guessed_is_said(tmp_path: Path) -> None:
    (tmp_path / "set.csv").write_text("x,y\n1,2\n")
    done = run("new-task", tmp_path / "set.csv", "--output", tmp_path / "set.yaml")
    assert done.exit_code == 2
    assert "no column looks like the answer; it has x, y" in done.stderr
    assert not (tmp_path / "set.yaml").exists()


def test_an_empty_cell_hides_neither_images_nor_the_form_of_answers(tmp_path: Path) -> None:
    file = tmp_path / "set.csv"
    file.write_text("image,question,A,B,answer\n1.png,?,x,y,A\n,?,x,y,\n")
    guessed = guess(str(file))
    assert guessed.values["image"] == "image"
    assert "CHECK THIS: image is empty in 1 of 2 rows, which will be rejected" in guessed.reasons
    assert guessed.values["answer_is"] == "letter"
    file.write_text("image,question,A,B,answer\n17,?,x,y,A\n")
    assert "CHECK THIS: column image is not used: '17' is not the path of an image" in guess(str(file)).reasons


def test_ids_that_repeat_are_named(tmp_path: Path) -> None:
    (tmp_path / "set.csv").write_text("id,question,answer\n7,?,x\n8,?,y\n7,?,z\n")
    done = run("new-task", tmp_path / "set.csv", "--output", tmp_path / "set.yaml")
    assert "CHECK THIS: id is not the id: 7 is in 2 rows, so rows are numbered" in done.stdout
    assert "id" not in yaml.safe_load((tmp_path / "set.yaml").read_text())


@pytest.mark.parametrize("answer", ["reference", "gt", "ground_truth", "target", "label", "answers"])
@pytest.mark.parametrize(("image", "question"), [("image_path", "prompt"), ("images", "query")])
def test_the_fields_column_names_are_known(tmp_path: Path, answer: str, image: str, question: str) -> None:
    """Open questions, whose answers may be several, with an image beside the table or a list of one."""
    rows = []
    for number, color in enumerate(("red", "blue")):
        (tmp_path / f"{color}.png").write_bytes(picture(color))
        cell = [f"{color}.png"] if image == "images" else f"{color}.png"
        right = [color, color.upper()] if answer == "answers" else color
        rows.append({image: cell, question: f"Which colour? {number}", answer: right})
    file = tmp_path / "set.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = run("new-task", file, "--output", tmp_path / "set.yaml")
    assert done.exit_code == 0, done.stderr
    values = {"data": "set.jsonl", "image": image, "question": question, "answer": answer, "rule": "contains_word"}
    assert yaml.safe_load((tmp_path / "set.yaml").read_text()) == values
    lines = prompts(tmp_path / "set.yaml")
    assert [line["target"] for line in lines] == [row[answer] for row in rows]
    assert {parts(line)[0] for line in lines} == {"image"}
    before = load(tmp_path / "set.yaml").rows("set", None).digest
    (tmp_path / "red.png").write_bytes(picture("green"))
    assert load(tmp_path / "set.yaml").rows("set", None).digest != before


def test_answers_of_many_words_need_a_judge_and_several_images_columns(tmp_path: Path) -> None:
    file = tmp_path / "set.jsonl"
    row = {"prompt": "What is there?", "reference": "A dog runs over the grass"}
    file.write_text(json.dumps(row))
    guessed = guess(str(file))
    assert guessed.values["rule"] == "judge_answer"
    assert "needs --judge" in guessed.reasons[-1]
    file.write_text(json.dumps({**row, "images": ["a.png", "b.png"]}))
    with pytest.raises(DataError, match="column images holds several images a row"):
        guess(str(file))


@pytest.mark.parametrize(
    ("answers", "rule"),
    [
        (["yes", "No", "TRUE"], "yes_no"),
        ([True, False], "yes_no"),
        ([3, 4.5], "number"),
        (["12.5%", "1,250 km", "Blue"], "number"),
        ([["2"] * 6 + ["3"] * 4, ["two"] * 10], "vqa"),
        (["red", "green"], "contains_word"),
        ([["red", "crimson", "RED", "scarlet"], ["green"]], "contains_word"),
    ],
)
def test_the_rule_of_an_open_question_follows_from_its_answers(
    tmp_path: Path, answers: list[object], rule: str
) -> None:
    rows = [{"question": f"What? {number}", "answer": answer} for number, answer in enumerate(answers)]
    (tmp_path / "set.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = run("new-task", tmp_path / "set.jsonl", "--output", tmp_path / "set.yaml")
    assert done.exit_code == 0, done.stderr
    assert f"({rule})" in done.stdout
    lines = prompts(tmp_path / "set.yaml")
    assert {line["rule"] for line in lines} == {rule}


def test_a_rule_in_yaml_is_given_to_the_run(tmp_path: Path) -> None:
    (tmp_path / "set.csv").write_text("question,answer\nIs it?,B\nAnd that?,C\n")
    (tmp_path / "set.yaml").write_text("data: set.csv\nquestion: question\nanswer: answer\nrule: marked\n")
    (tmp_path / "rules.yaml").write_text('rules:\n  - {name: marked, patterns: ["=> (.)"], labels: [A, B, C]}\n')
    options = ("--task", tmp_path / "set.yaml", "--model", "demo:constant:so => B", "--run", tmp_path / "run")
    done = run("eval", *options, "--rules", tmp_path / "rules.yaml")
    assert done.exit_code == 0, done.output
    (task,) = json.loads((tmp_path / "run" / "results.json").read_text())["tasks"].values()
    assert (task["counts"]["scored"], task["metrics"][0]["value"]) == (2, 50.0)


@pytest.mark.parametrize("keys", ["options: [yes, no]", "options: [True, False]", "rule: yes_no", "options: [No, Yes]"])
def test_yes_and_no_are_the_words_that_they_are(tmp_path: Path, keys: str) -> None:
    rows = [{"question": "Is it?", "answer": answer} for answer in ("yes", "FALSE")]
    (tmp_path / "set.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "set.yaml").write_text(f"data: set.jsonl\nquestion: question\nanswer: answer\n{keys}\n")
    first, second = prompts(tmp_path / "set.yaml")
    choices = "no or yes" if "No, Yes" in keys else "true or false" if "True" in keys else "yes or no"
    assert parts(first)[0].lower() == f"is it?\nanswer {choices}."
    assert first["rule"] == "yes_no"
    assert first["target"].lower() in ("yes", "true")
    assert second["target"].lower() in ("no", "false")
    one, _ = prompts(tmp_path / "set.yaml", "--method", "likelihood")
    assert sorted(word.lower() for word in one["options"]) == sorted(choices.split(" or "))
    rows[1]["answer"] = "perhaps"
    (tmp_path / "set.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert "'perhaps' is neither" in run("prompts", "--task", tmp_path / "set.yaml").output


@given(st.text(alphabet="ab{} \n", max_size=30))
def test_a_template_is_filled_or_refused(template: str) -> None:
    try:
        pieces = parse(template)
    except ValueError:
        return
    names = {piece.column for piece in pieces if piece.column}
    filled = fill(pieces, dict.fromkeys(names, "V"), [])
    assert "".join(map(str, filled)) == "".join(piece.text if not piece.column else "V" for piece in pieces)


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_bytes_are_a_task_or_an_error(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    file = tmp_path_factory.getbasetemp() / "any.yaml"
    file.write_bytes(data)
    with pytest.raises(TaskFileError):
        load(file)


@pytest.mark.full
def test_the_page_is_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = PAGE.read_text()
    blocks = re.findall(r"```(\w*)\n(.*?)```", page, re.DOTALL)
    (tmp_path / "animals.csv").write_text(next(text for kind, text in blocks if kind == "csv"))
    commands = [line for kind, text in blocks if kind == "sh" for line in text.splitlines()]
    assert len(commands) == 4
    for command in commands:
        done = run(*shlex.split(command)[1:])
        assert done.exit_code == 0, f"{command}: {done.stderr}"
    written, fancy = (text for kind, text in blocks if kind == "yaml")
    assert (tmp_path / "animals.yaml").read_text() == written
    results = json.loads((tmp_path / "runs/animals/results.json").read_text())
    assert results["tasks"]["animals"]["counts"]["planned"] == 3
    (tmp_path / "fancy.yaml").write_text(fancy)
    load(tmp_path / "fancy.yaml")
    keys = set(re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| (.*?) \|", page, re.MULTILINE))))
    assert keys == set(json.loads(SCHEMA.read_bytes())["properties"])


@pytest.mark.parametrize("taken", ["marvel", "VisualPuzzles_cot", "reform", "voila"])
def test_a_file_does_not_take_the_name_of_what_there_is(folder: Path, taken: str) -> None:
    file = (folder / "animals.yaml").rename(folder / f"{taken}.yaml")
    done = run("prompts", "--task", file)
    assert done.exit_code == 2
    assert "there is one of that name already: give the file's another name by `task: NAME`" in done.stderr
    file.write_text(TASK + "task: mine\n")
    assert [line["task"] for line in prompts(file)] == ["mine"] * 3


def test_two_files_of_one_name_are_not_one(folder: Path) -> None:
    first, second = folder / "animals.yaml", folder / "more" / "animals.yaml"
    second.parent.mkdir()
    second.write_text(TASK.replace("animals.csv", "../animals.csv"))
    done = run("prompts", "--task", first, "--task", second)
    assert done.exit_code == 2
    assert f"{first} and {second} both make a task animals: give one another name by `task: NAME`" in done.stderr
    assert len(prompts(first, "--task", first)) == 3
    second.write_text(TASK.replace("animals.csv", "../animals.csv") + "task: others\n")
    assert [line["task"] for line in prompts(first, "--task", second)] == ["animals"] * 3 + ["others"] * 3


def test_a_missing_file_is_a_data_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        load(tmp_path / "none.yaml")
