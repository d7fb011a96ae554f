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
from helpers.record_transcripts import CALL
from helpers.scripted_rows import CODES, LETTERS, ScriptedRow, added, joined, mark, rows, shown
from helpers.trajectories import play

from lyncean.model.v1 import model_pb2 as model
from lyncean.tool.v1 import tool_pb2 as pb
from orchestrator.benchmarks.vstar.benchmark import BENCHMARK
from orchestrator.benchmarks.vstar.prompt import VstarSettings
from orchestrator.data.rows import Row
from orchestrator.samples import Answer, Call, Message, Part, Variant, image_part, text_part, user
from orchestrator.tools.toolbox import toolbox
from orchestrator.tools.types import MADE, Picture, RemoteCall, ToolOutput

FIXTURES = Path(__file__).parents[2] / "fixtures"
ROLES = {model.ROLE_SYSTEM: "system", model.ROLE_USER: "user", model.ROLE_ASSISTANT: "assistant"}
SERVER = pb.ListToolsResponse(tools=[model.Tool(name="python")], revision="1", stateful=True, max_concurrency=1)
FILES = {
    "deepeyes": {"eval_vstar.py": "d646c2255be051cb8da3e968aec5be4eadef32ff4cd2a013ef11da9333f5e3e2"},
    "deepeyesv2": {
        "api/agent_utils.py": "3f457656e6c58f91833017487680e87251c208c4526f9a0b9f924f541db492ee",
        "api/prompt.py": "ca305719cf0f9410d406f985984d7bf93d9707c82dcd8dd855f09d791735b7d6",
        "api/vllm_api.py": "9789c6da1fe73aa9473b987031e2c9ea9336ff6eafc54f25254b0ac8a6c2bb14",
    },
    "thyme": {
        "thyme/model.py": "824fb11a5a33d2fd438111efc881ad64c62feeb89cb15b18d1374216246c3549",
        "thyme/utils.py": "b6442c7110a0ba8921874023168ae7601547ca92737de85d43d19ea59cb31f47",
    },
    "qwen": {
        "qwen_agent/agents/fncall_agent.py": "21de0e5ccc054ea33e63586192843d466d6e4de4f8a4adfe34f3519f61851ec6",
        "qwen_agent/tools/image_zoom_in_qwen3vl.py": "337407b266c33eef9a1eb6628737ae6d81eec22c0a2966a152ad4621ac57db82",
    },
}
"""Files of the references, at the commits that the protocols name, with their hashes."""
MARK = re.compile(r"<\d+x\d+ \w+ [0-9a-f]{16}>")
DEVIATIONS = {
    "deepeyes": (),
    "deepeyesv2": (),
    "thyme": (),
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


def content_of(message: Message) -> list[object]:
    return [ROLES[message.role], joined(map(_piece, message.parts))]


def _piece(part: Part) -> tuple[str, str]:
    return ("image", mark(part.image.data)) if part.image else ("text", part.text)


def normalized(name: str, content: str) -> str:
    for pattern, replacement in DEVIATIONS[name]:
        content = pattern.sub(replacement, content)
    return content


def run_code(call: RemoteCall, _: object) -> ToolOutput:
    """Shows what the rows say that code shows, as the sandbox tells it."""
    match = CALL.search(json.loads(call.arguments)["code"])
    assert match
    output, error, images = shown(*map(int, match.groups()))
    pieces = [text_part(output)] if output else []
    pieces += [Picture(image, source=MADE) for image in images]
    pieces += [text_part(error)] if error else []
    return ToolOutput(tuple(pieces) or (text_part("[no output]"),), bool(error))


def in_one_message(requests: list[object]) -> list[object]:
    """Returns requests with the messages after the user's as one: Thyme's results stand in the model's own."""
    whole = [message for added_ in requests for message in added_]
    pieces = [piece for _, pieces in whole[2:] for piece in pieces]
    return [*whole[:2], joined(("image" if MARK.fullmatch(piece) else "text", piece) for piece in pieces)]


def compare(name: str, numbers: range) -> int:
    """Compares trajectories with the transcript; returns the number of requests."""
    kept, count = transcript(name)["rows"], 0
    box = toolbox([], name, [SERVER]) if name in CODES else toolbox(["zoom"], name)
    for row in [row for row in rows(name, numbers.stop) if row.number in numbers]:
        reference = kept[row.number]
        assert hashlib.sha256(row.image).hexdigest().startswith(reference["image"])
        assert list(row.texts) == reference["texts"]
        answers = iter(range(1000))
        answer = lambda _, row=row, answers=answers: Answer(row.says(next(answers)))  # noqa: E731
        played = play(box, question(name, row), answer, run_code)
        requests = added([list(map(content_of, request.messages)) for request in played.requests])
        reference_requests = reference["requests"]
        if name == "thyme":
            requests, reference_requests = in_one_message(requests), in_one_message(reference_requests)
        ours = normalized(name, json.dumps(requests, ensure_ascii=False, indent=0).replace("\\n", "\n"))
        expected = normalized(name, json.dumps(reference_requests, ensure_ascii=False, indent=0).replace("\\n", "\n"))
        assert ours == expected, f"row {row.number}"
        final = "" if reference["final"].startswith("failed: ") else reference["final"]  # an empty text fails there
        assert played.final == final, f"row {row.number}"
        count += len(requests)
    return count


@pytest.mark.parametrize("name", FILES)
def test_the_transcript_is_of_the_named_files(name):
    recorded = transcript(name)
    assert len(recorded["rows"]) == 500
    assert {file: recorded["files"][file] for file in FILES[name]} == FILES[name]


@pytest.mark.parametrize("name", FILES)
def test_trajectories_are_those_of_the_reference(name):
    assert compare(name, range(40)) > 80


@pytest.mark.weekly
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
    assert [content_of(message) for message in call.messages] == transcript("deepeyes")["rows"][3]["requests"][0]
