"""Trajectories are those of the references, call by call: their own code was run on the same scripted model.

`tests/helpers/record_transcripts.py` made the transcripts; each has the hashes of the files that were run.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import re
from functools import cache
from pathlib import Path

import pytest
from helpers.scripted_rows import LETTERS, ScriptedRow, added, joined, mark, rows
from helpers.trajectories import play

from lyncean.model.v1 import model_pb2 as model
from orchestrator.benchmarks.vstar.benchmark import BENCHMARK
from orchestrator.benchmarks.vstar.prompt import VstarSettings
from orchestrator.data.rows import Row
from orchestrator.samples import Answer, Call, Message, Part, Variant, image_part, text_part, user
from orchestrator.tools.toolbox import toolbox

FIXTURES = Path(__file__).parents[2] / "fixtures"
ROLES = {model.ROLE_SYSTEM: "system", model.ROLE_USER: "user", model.ROLE_ASSISTANT: "assistant"}
FILES = {
    "deepeyes": {"eval_vstar.py": "d646c2255be051cb8da3e968aec5be4eadef32ff4cd2a013ef11da9333f5e3e2"},
    "qwen": {
        "qwen_agent/agents/fncall_agent.py": "21de0e5ccc054ea33e63586192843d466d6e4de4f8a4adfe34f3519f61851ec6",
        "qwen_agent/tools/image_zoom_in_qwen3vl.py": "337407b266c33eef9a1eb6628737ae6d81eec22c0a2966a152ad4621ac57db82",
    },
}
"""Files of the references, at the commits that the protocols name, with their hashes."""
DEVIATIONS = {
    "deepeyes": (),
    "qwen": (
        (re.compile(r"Traceback:\n.*?(?=\n</tool_response>)", re.DOTALL), ""),
        (re.compile(r"Error: Invalid input image[^\n]*"), "Error: Invalid input image"),
    ),
}
"""Words that differ on purpose, as the protocols' data say: file names and tracebacks of the machine."""


@cache
def transcript(name):
    content = (FIXTURES / f"transcript_{name}.json.xz").read_bytes()
    return json.loads(lzma.decompress(content))


def question(name: str, row: ScriptedRow) -> Call:
    """Returns the request as a task makes it that follows the reference."""
    if name == "deepeyes":
        options = "".join(f"{letter}. {option}\n" for letter, option in zip(LETTERS, row.options, strict=False))
        text = f"Question: {row.question}\nOptions: \n{options}\n"
    else:
        text = row.question
    return Call((user(image_part(row.image), text_part(text)),))


def said(message: Message) -> list[object]:
    return [ROLES[message.role], joined(map(_piece, message.parts))]


def _piece(part: Part) -> tuple[str, str]:
    return ("image", mark(part.image.data)) if part.image else ("text", part.text)


def normalized(name: str, content: str) -> str:
    for pattern, words in DEVIATIONS[name]:
        content = pattern.sub(words, content)
    return content


def compare(name: str, numbers: range) -> int:
    """Compares trajectories with the transcript; returns the number of requests."""
    box, kept, count = toolbox(["zoom"], name), transcript(name)["rows"], 0
    for row in [row for row in rows(name, numbers.stop) if row.number in numbers]:
        reference = kept[row.number]
        assert hashlib.sha256(row.image).hexdigest().startswith(reference["image"])
        assert list(row.texts) == reference["texts"]
        answers = iter(range(1000))
        played = play(box, question(name, row), lambda _, row=row, answers=answers: Answer(row.says(next(answers))))
        requests = added([list(map(said, request.messages)) for request in played.requests])
        ours = normalized(name, json.dumps(requests, ensure_ascii=False, indent=0).replace("\\n", "\n"))
        theirs = normalized(name, json.dumps(reference["requests"], ensure_ascii=False, indent=0).replace("\\n", "\n"))
        assert ours == theirs, f"row {row.number}"
        assert played.final == reference["final"], f"row {row.number}"
        count += len(requests)
    return count


@pytest.mark.parametrize("name", FILES)
def test_the_transcript_is_of_the_named_files(name):
    found = transcript(name)
    assert len(found["rows"]) == 500
    assert {file: found["files"][file] for file in FILES[name]} == FILES[name]


@pytest.mark.parametrize("name", FILES)
def test_trajectories_are_those_of_the_reference(name):
    assert compare(name, range(40)) > 80


@pytest.mark.full
@pytest.mark.parametrize("name", FILES)
def test_all_trajectories_are_those_of_the_reference(name):
    assert compare(name, range(500)) > 1000


def test_vstar_asks_as_the_script_of_deepeyes():
    row = rows("deepeyes", 8)[3]
    text = row.question + "".join(f" ({letter}) {option}" for letter, option in zip(LETTERS, row.options, strict=False))
    fields = {"text": text, "label": "A", "category": "c", "question_id": 3}
    variant = Variant("vstar_bench", settings=VstarSettings(protocol="deepeyes"))
    (sample,) = BENCHMARK.samples(Row(fields, lambda _: row.image), variant)
    box = toolbox(["zoom"], "deepeyes")
    call = box.protocol.first(sample.turns[0].ask([]), box.tools)
    assert [said(message) for message in call.messages] == transcript("deepeyes")["rows"][3]["requests"][0]
