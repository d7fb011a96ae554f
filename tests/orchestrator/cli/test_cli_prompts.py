"""`orchestrator prompts`: requests as eval would send them."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from helpers.bench_scoring import shared_data
from helpers.page_commands import ROOT, commands

from orchestrator.cli import main


def invoke(*options: str) -> Result:
    return CliRunner().invoke(main, ["prompts", *options])


def lines(*options: str) -> list[dict]:
    result = invoke(*options)
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_five_requests_for_a_puzzle():
    data = shared_data("marvel", "marvel.parquet")
    prompts = lines("--task", "marvel", "--data", str(data), "--limit", "2")
    assert [line["key"] for line in prompts][:6] == [
        *(f"marvel/1:{name}" for name in ("avr", "fine", "context", "choices", "whole")),
        "marvel/2:avr",
    ]
    assert len(prompts) == 10
    first = prompts[0]
    assert (first["rule"], first["target"], first["options"], first["group"]) == (
        "choice_number",
        "3",
        ["1", "2", "3", "4"],
        "1",
    )
    assert first["labels"]["pattern"] == "Temporal Movement"
    (message,) = first["request"]["messages"]
    original = (data.parent / "github" / "Marvel" / "1.png").read_bytes()
    assert message["parts"][0] == {
        "image": {
            "media_type": "image/png",
            "sha256": hashlib.sha256(original).hexdigest(),
            "bytes_length": len(original),
        }
    }
    assert first["request"]["config"] == {"max_output_tokens": 512, "temperature": 0.0}


def test_later_turns_are_shown_with_stand_ins(tmp_path):
    prompts = lines(
        "--task", "VisualPuzzles_spatial_visual_cot", "--synthetic", "--limit", "1", "--images", str(tmp_path)
    )
    assert [(line["step"], line["rule"], line["stage"]) for line in prompts] == [
        ("diagram", None, "generate"),
        ("answer", "choice", ""),
    ]
    assert prompts[0]["request"]["modality"] == "MODALITY_IMAGE"
    images = [part["image"]["sha256"] for part in prompts[1]["request"]["messages"][0]["parts"] if "image" in part]
    assert len(images) == 2
    for name in images:
        assert hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() == name


def test_likelihood_shuffles_and_repeats():
    prompts = lines(
        "--task",
        "vstar_bench_direct_attributes",
        "--synthetic",
        "--limit",
        "1",
        "--method",
        "likelihood",
        "--shuffle-options",
        "--repeats",
        "3",
    )
    assert [line["key"] for line in prompts] == [f"vstar_bench_direct_attributes/0{end}" for end in ("", "#1", "#2")]
    assert len({tuple(line["request"]["continuations"]) for line in prompts}) > 1
    assert len({line["target"] for line in prompts}) == 1


def test_rows_that_cannot_be_asked_say_why():
    data = shared_data("marvel", "github")
    prompts = lines("--task", "marvel", "--data", str(data), "--limit", "4")
    assert prompts[-1]["request"] is None
    assert prompts[-1]["error"]["reason"] == "unreadable_image"


def test_what_a_row_says_is_no_control_sequence(tmp_path):
    question = "".join(map(chr, (*range(0x20), 0x22, 0x5C, *range(0x7F, 0xA0), *range(0x202A, 0x202F))))
    question += "".join(map(chr, range(0x2066, 0x206A))) + " é \u05d0 \U0001f600?"
    row = {"id": 1, "question": question, "answer": "a"}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row) + "\n")
    (tmp_path / "told.yaml").write_text('data: rows.jsonl\nprompt: "{question}"\nanswer: answer\n')
    result = invoke("--task", str(tmp_path / "told.yaml"))
    assert result.exit_code == 0, result.output
    (line,) = result.stdout_bytes.decode().split("\n")[:-1]
    assert line.isprintable()
    assert "é \u05d0 \U0001f600?" in line
    assert json.loads(line)["request"]["messages"][0]["parts"][-1]["text"] == question


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--task", "marvle", "--synthetic"), "did you mean marvel"),
        (("--task", "marvel", "--data", "/nowhere/at/all"), "no data at /nowhere/at/all"),
        (("--task", "vstar_bench", "--synthetic", "--parity", "--shuffle-options"), "never shuffles"),
        (("--task", "vstar_bench", "--synthetic", "--parity", "--method", "likelihood"), "only generates"),
        (("--task", "marvel", "--synthetic", "--parity"), "no published reference implementation"),
        (("--task", "marvel", "--synthetic", "--set", "letters=perhaps"), "a valid boolean"),
    ],
)
def test_mistakes_are_one_line(options, message):
    result = invoke(*options)
    assert result.exit_code == 2
    assert message in result.output
    assert "Traceback" not in result.output


def test_rendered_prompts_are_those_of_the_server(demo):
    options = ("--task", "VisualPuzzles_spatial_visual_cot", "--synthetic", "--limit", "1", "--rendered")
    diagram, answer = lines(*options, "--endpoint", demo.address)
    # It draws no images, and says so; the second turn shows an image in the place of the first one's.
    assert diagram["error"]["reason"] == "no_image_output"
    assert answer["request"]["messages"][0]["parts"][-1]["text"] in answer["rendered"]["text"]
    assert len(answer["rendered"]["token_ids"]) == answer["rendered"]["input_tokens"]
    assert answer["rendered"]["image_tokens"] == 2 * 64
    scored = lines(
        *("--task", "vstar_bench_direct_attributes", "--synthetic", "--limit", "1", "--method", "likelihood"),
        *("--rendered", "--endpoint", demo.address),
    )
    assert scored[0]["request"]["messages"][0]["parts"][-1]["text"] in scored[0]["rendered"]["text"]


def test_the_commands_of_the_audit_page_work(demo, tmp_path):
    """docs/audit.md."""
    script = " && ".join(commands(ROOT / "docs" / "audit.md")).replace("127.0.0.1:50051", demo.address)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(["bash", "-ec", script], cwd=tmp_path, env={**os.environ, "PATH": path}, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    first, *_, text = done.stdout.decode().splitlines()
    assert json.loads(first)["rendered"]["token_ids"]
    shown = json.loads((tmp_path / "rendered.jsonl").read_text().splitlines()[0])["rendered"]["text"]
    assert shown.endswith(text)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--rendered",), "give --endpoint"),
        (("--endpoint", "127.0.0.1:1"), "give --rendered"),
        (("--tls",), "--endpoint with --rendered"),
        (("--rendered", "--endpoint", "nowhere"), "not host:port"),
    ],
)
def test_mistakes_about_rendered_prompts(options, message):
    result = invoke("--task", "marvel", "--synthetic", "--limit", "1", *options)
    assert result.exit_code == 2
    assert message in result.output
