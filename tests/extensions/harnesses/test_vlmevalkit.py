"""VLMEvalKit's tables: as tasks, as data of a task file, and damaged."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from helpers.engine_cluster import Cluster, Server
from hypothesis import given, strategies as st
from PIL import Image

from lyncean_harnesses.vlmevalkit.saved_images import saved
from orchestrator.cli import main
from orchestrator.data.rows import DataError
from orchestrator.data.table import Table
from orchestrator.data.vlmevalkit import open_vlmevalkit
from orchestrator.samples import BadRowError

OPTIONS = {"A": "red", "B": "green", "C": "", "D": ""}


def picture(shade: int) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (9, 9), (shade, 40, 40)).save(buffer, "PNG")
    return buffer.getvalue()


def coded(*shades: int) -> str:
    cells = [base64.b64encode(picture(shade)).decode() for shade in shades]
    return cells[0] if len(cells) == 1 else str(cells)


def table(file: Path, *rows: dict[str, Any]) -> Path:
    names = list(dict.fromkeys(name for row in rows for name in row))
    with file.open("w", encoding="utf-8", newline="") as out:
        writer = csv.DictWriter(out, names, delimiter="\t", restval="")
        writer.writeheader()
        writer.writerows(rows)
    return file


def row(index: int, image: str, answer: str = "A", **more: str) -> dict[str, Any]:
    return {"index": index, "image": image, "question": f"row {index}: which?", "answer": answer, **OPTIONS, **more}


def parts_of(task: str, file: Path) -> list[list[str]]:
    """Returns of each request the texts and the hashes of the images, in order."""
    done = CliRunner().invoke(main, ["prompts", "--task", task, "--data", str(file), "--limit", "20"])
    assert done.exit_code == 0, done.output
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    parts = [line["request"]["messages"][0]["parts"] for line in lines]
    return [[part.get("text") or part["image"]["sha256"] for part in message] for message in parts]


def shown(*shades: int) -> list[str]:
    return [hashlib.sha256(picture(shade)).hexdigest() for shade in shades]


def test_prompts_and_images_of_every_form(tmp_path: Path) -> None:
    (tmp_path / "seen, once.png").write_bytes(picture(9))
    file = table(
        tmp_path / "T.tsv",
        row(1, coded(1), hint='two\nlines\tand "marks"'),
        row(2, "1"),
        row(3, coded(3, 4), A="", B="", answer="Yes"),
        row(4, "", image_path="['seen, once.png']", A="", B="", answer="seven"),
        row(5, ""),
    )
    select = "Options:\nA. red\nB. green\nPlease select the correct answer from the options above. \n"
    assert parts_of("vlmevalkit:T", file) == [
        [*shown(1), f'Hint: two\nlines\tand "marks"\nQuestion: row 1: which?\n{select}'],
        [*shown(1), f"Question: row 2: which?\n{select}"],
        [*shown(3, 4), "row 3: which?"],
        [*shown(9), "row 4: which?\nAnswer the question using a single word or phrase."],
    ]
    text = "is <image 2> above <image 1>?"
    placed = table(tmp_path / "M.tsv", {**row(1, coded(3, 4), A="", B="", answer="No"), "question": text})
    first, second = shown(3, 4)
    assert parts_of("vlmevalkit:MMMU_DEV_VAL", placed) == [["is ", second, " above ", first, "?"]]
    assert parts_of("vlmevalkit:BLINK", placed) == [[first, second, text]]


def test_a_run_counts_a_question_with_its_copies(cluster: Cluster, shared_scorer: Server, tmp_path: Path) -> None:
    # The model answers row 1 with B, 2 with C, 1000001 with B, ...
    rows = [row(n, coded(n % 200), answer, C="blue", D="grey", category="xy"[n % 2])
            for n, answer in ((1, "B"), (1_000_001, "A"), (2, "C"), (5, "B"))]  # fmt: skip
    table(tmp_path / "MMBench_DEV.tsv", *rows)
    options = ("--task", "vlmevalkit:MMBench_DEV", "--data", "MMBench_DEV.tsv")
    cluster.eval("run", [cluster.model()], shared_scorer, *options)
    first = cluster.results("run")
    metrics = json.loads(first)["tasks"]["vlmevalkit:MMBench_DEV"]["metrics"]
    overall = {metric["name"]: metric["value"] for metric in metrics if not metric["labels"]}
    verdicts = {line["key"]: line["score"] for line in cluster.lines("run", "verdicts.jsonl")}
    assert verdicts == {f"vlmevalkit:MMBench_DEV/{n}": s for n, s in ((1, 1.0), (1_000_001, 0.0), (2, 1.0), (5, 1.0))}
    assert overall == {"accuracy": 75.0, "circular accuracy": pytest.approx(200 / 3)}
    assert {"category": "y"} in [metric["labels"] for metric in metrics]
    cluster.eval("run", [cluster.model()], shared_scorer, *options)
    assert cluster.results("run") == first


def test_a_task_file_takes_the_table(tmp_path: Path) -> None:
    file = table(tmp_path / "T.tsv", row(1, coded(1)), row(2, "1"))
    task = tmp_path / "colours.yaml"
    task.write_text("data: T.tsv\nid: index\nimage: image\nquestion: question\noptions: [A, B]\nanswer: answer\n")
    assert [parts[0] for parts in parts_of(str(task), file)] == shown(1, 1)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"index": 1, "question": "q", "answer": "A"}], "has no column image or image_path"),
        ([{"index": 1, "image": coded(1), "answer": "A"}], "has no column question: it has index, image, answer"),
        ([row(1, coded(1)), row(1, coded(1))], "index 1 stands twice"),
        ([row(1, coded(1), "C")], "index 1: the answer 'C' is none of its options"),
        ([row(1, coded(1), "")], "index 1: it has no answer"),
        ([row(1, coded(1), D="grey")], "two or more are needed, with no gap"),
        ("index\timage\tquestion\tanswer\n1\tx\n", "has 2 cells, the header has 4"),
        ("index\timage\timage\tquestion\tanswer\n", "column image stands twice"),
        ("index\timage\tquestion\tanswer\n", "has no rows"),
        ("", "has no rows"),
        ("index\timage\tquestion\tanswer\n1\t\"x\" y\tz\tA\n", "is not tab-separated text"),
        ("index\timage\tquestion\tanswer\n1\t\udcff\tz\tA\n", "is not UTF-8"),
    ],
)  # fmt: skip
def test_a_table_that_cannot_be_used_is_one_line(tmp_path: Path, rows: Any, message: str) -> None:
    file = tmp_path / "T.tsv"
    if isinstance(rows, str):
        file.write_bytes(rows.encode("utf-8", "surrogateescape"))
    else:
        table(file, *rows)
    done = CliRunner().invoke(main, ["prompts", "--task", "vlmevalkit:T", "--data", str(file)])
    assert done.exit_code == 2, done.output
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert "T.tsv" in done.stderr or "vlmevalkit:T" in done.stderr


@pytest.mark.parametrize(
    ("task", "message"), [("vlmevalkit:", "give vlmevalkit:NAME"), ("vlmevalkit:T", "give --data")]
)
def test_a_task_without_name_or_table_is_one_line(task: str, message: str) -> None:
    done = CliRunner().invoke(main, ["prompts", "--task", task])
    assert (done.exit_code, message in done.stderr, len(done.stderr.strip().splitlines())) == (2, True, 1)


def test_an_image_that_cannot_be_read_rejects_its_row_alone(
    cluster: Cluster, shared_scorer: Server, tmp_path: Path
) -> None:
    cells = {1: coded(1)[:-9] + "?", 2: "nowhere", 3: "3", 4: "[1, {}]", 5: coded(5), 6: str([coded(5), "x" * 60])}
    table(tmp_path / "T.tsv", *(row(index, cell, "B") for index, cell in cells.items()))
    task = ("--task", "vlmevalkit:T", "--data", "T.tsv")
    cluster.eval("run", [cluster.model()], shared_scorer, *task, "--max-rejected", "90%")
    lines = {line["key"].rpartition("/")[2]: line for line in cluster.lines("run", "verdicts.jsonl")}
    assert {index for index, line in lines.items() if line["outcome"] == "scored"} == {"5"}
    assert "index 1: image 1 is not base64" in lines["1"]["detail"]
    for index in "234":
        assert f"T.tsv, index {index}: its image cell" in lines[index]["detail"]
        assert "neither an image nor the index of a row with one" in lines[index]["detail"]
    assert (lines["6"]["outcome"], lines["6"]["reason"]) == ("rejected", "bad_image")


@given(st.lists(st.tuples(st.text(max_size=20), st.integers(0, 3)), min_size=1, max_size=8))
def test_any_text_and_reference_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, cells: list[tuple[str, int]]
) -> None:
    """Byte offsets hold with all content of the cells: line breaks, marks, letters of several bytes."""
    cells = [(text.replace("\0", "").replace("\r", ""), shade) for text, shade in cells]
    rows = [
        {"index": n, "question": text, "image": coded(shade) if n < 2 else str(n % 2), "answer": "x"}
        for n, (text, shade) in enumerate(cells)
    ]
    file = table(tmp_path_factory.getbasetemp() / "any.tsv", *rows[1:], rows[0])
    try:
        source = open_vlmevalkit(file, Table(hub="x", split="", columns={"question": str}, images=()))
    except DataError as error:
        pytest.fail(str(error))
    read = {one["index"]: (one["question"], one.load("image:0") if len(rows) > 1 else one.image()) for one in source}
    assert read == {
        str(n): (text, picture(shade if n < 2 else cells[n % 2][1])) for n, (text, shade) in enumerate(cells)
    }


def noise(mode: str) -> Image.Image:
    return Image.effect_noise((24, 16), 90).convert("L").convert(mode)


def test_images_are_shown_as_vlmevalkit_saves_them_where_that_is_asked_for(tmp_path: Path) -> None:
    def cell(image: Image.Image) -> tuple[str, bytes]:
        buffer = io.BytesIO()
        image.save(buffer, "PNG")
        return base64.b64encode(buffer.getvalue()).decode(), buffer.getvalue()

    (grey, _), (clear, _), (other, _) = (cell(noise(mode)) for mode in ("L", "RGBA", "RGB"))
    files = {"grey/1.jpg": grey, "2.jpeg": clear, "3.png": other, "4.jpg": other}
    for name, text in files.items():
        image = Image.open(io.BytesIO(base64.b64decode(text)))
        path = tmp_path / "saved" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        (image.convert("RGB") if image.mode == "RGBA" else image).save(path)
    rows = (
        row(1, grey, image_path="grey/1.jpg"),
        row(2, clear, image_path="2.jpeg"),
        row(3, str([other, other]), image_path="['3.png', '4.jpg']"),
    )
    done = CliRunner().invoke(
        main,
        ["prompts", "--task", "vlmevalkit:T", "--data", str(table(tmp_path / "T.tsv", *rows)), "--set", "images=saved"],
    )
    assert done.exit_code == 0, done.output
    lines = [json.loads(line)["request"]["messages"][0]["parts"] for line in done.stdout.splitlines()]
    hashes = [part["image"]["sha256"] for line in lines for part in line if "image" in part]
    assert hashes == [hashlib.sha256((tmp_path / "saved" / name).read_bytes()).hexdigest() for name in files]


def test_a_name_of_no_format_is_a_rejected_row() -> None:
    with pytest.raises(BadRowError, match=r"its image_path ends in \.exe"):
        saved([picture(1)], "a.exe")
    with pytest.raises(BadRowError, match="cannot be saved again"):
        saved([b"no image"], "a.jpg")
