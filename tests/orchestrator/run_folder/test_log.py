"""The run folder: torn lines, resume, the index, and the hand-written JSON against json_format."""

from __future__ import annotations

import base64
import errno
import shutil
import threading
from pathlib import Path

import numpy as np
import orjson
import pytest
from google.protobuf import json_format
from helpers.clips import abouts
from hypothesis import given, settings, strategies as st

from lyncean.model.v1 import model_pb2 as model
from lyncean.scorer.v1 import scorer_pb2 as scorer
from lyncean.vocabulary.outcomes import Outcome
from orchestrator.engine.wire import request_of
from orchestrator.run_folder import appender, records
from orchestrator.run_folder.errors import RunBusyError, RunLogError, RunWriteError
from orchestrator.run_folder.key_table import KeyTable, digest, shard_of
from orchestrator.run_folder.lines import Head, VerdictLine, decode, sealed
from orchestrator.run_folder.log import RunLog, State
from orchestrator.run_folder.parts import Medium
from orchestrator.run_folder.scanning import scan
from orchestrator.samples import Call, Clip, Image, Message, Part, ToolCall, ToolResult

KEYS = ["toy/0", "toy/1", 'toy/"quoted"\\', "toy/ünïcode", "toy/4#1:turn"]


def line(key: str, outcome: str | None = None) -> bytes:
    content: dict[str, object] = {"key": key}
    if outcome:
        content["outcome"] = outcome
    return orjson.dumps(content | {"sample": key, "text": 'words, "outcome": "failed", {}\n more'})


def full(path: Path) -> bytes:
    log = RunLog(path)
    for key in KEYS:
        log.add_response(key, None, line(key))
        log.add_verdict(key, Outcome.SCORED, line(key, "scored"))
    log.close()
    return (path / "responses.jsonl").read_bytes()


def test_torn_at_every_byte(tmp_path: Path) -> None:
    whole = full(tmp_path / "whole")
    ends = [i for i, byte in enumerate(whole) if byte == ord("\n")]
    for cut in range(len(whole) + 1):
        run = tmp_path / "torn"
        run.mkdir()
        (run / "responses.jsonl").write_bytes(whole[:cut])
        log = RunLog(run)
        # A line that lacks nothing but its newline is whole.
        kept = sum(end <= cut for end in ends)
        assert [log.entry(key).state for key in KEYS] == [State.ANSWERED] * kept + [State.NONE] * (len(KEYS) - kept)
        for key in KEYS[kept:]:
            log.add_response(key, None, line(key))
        log.close()
        assert (run / "responses.jsonl").read_bytes() == whole
        shutil.rmtree(run)


@pytest.mark.parametrize("ends", ["before", "while it closes"])
def test_no_verdict_outlives_an_answer_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    log = RunLog(tmp_path)
    log.add_response("toy/0", None, line("toy/0"))
    log.add_verdict("toy/0", Outcome.SCORED, line("toy/0", "scored"))
    write = appender.os.write

    def torn(fd: int, data: memoryview) -> int:
        if b"words" in bytes(data) and b"scored" not in bytes(data):
            raise OSError(errno.EIO, "not now")
        return write(fd, data)

    monkeypatch.setattr(appender.os, "write", torn)
    if ends == "before":
        with pytest.raises(RunWriteError):
            log.flush()
        log.close()
    else:
        with pytest.raises(RunWriteError):
            log.close()
    assert [(tmp_path / name).read_bytes() for name in ("responses.jsonl", "verdicts.jsonl")] == [b"", b""]


def test_a_disk_that_never_takes_a_write_does_not_keep_a_run_from_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = RunLog(tmp_path)
    log.add_response("toy/0", None, line("toy/0"))
    log.add_verdict("toy/0", Outcome.SCORED, line("toy/0", "scored"))
    verdicts, write = log.begin_sync(), appender.os.write
    log.sync_answers()
    begun, answers = threading.Event(), threading.Event()

    def hangs(fd: int, data: memoryview) -> int:
        begun.set()
        answers.wait()
        return write(fd, data)

    monkeypatch.setattr(appender.os, "write", hangs)
    writing = threading.Thread(target=log.write_verdicts, args=(verdicts,), daemon=True)
    writing.start()
    begun.wait()
    log.give_up("the disk did not answer")
    closing = threading.Thread(target=log.close, daemon=True)
    closing.start()
    closing.join(60)
    ended = not closing.is_alive()
    answers.set()
    writing.join()
    assert ended
    assert (tmp_path / "verdicts.jsonl").read_bytes().count(b"\n") == 1, "the file that it writes was not another's"


def test_for_expected_keys_there_is_room_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KeyTable, "_grow", lambda _: pytest.fail("the table was there twice"))
    for first in (0, 3000):  # begun, and gone on with
        log = RunLog(tmp_path, 6000)
        for number in range(first, first + 3000):
            log.add_response(f"toy/{number}", None, line(f"toy/{number}"))
        log.close()
    monkeypatch.undo()
    log = RunLog(tmp_path, 10**15)  # only an estimate, which may be far off
    assert log.resumed == 6000
    log.close()


def test_the_last_line_of_a_key_counts(tmp_path: Path) -> None:
    log = RunLog(tmp_path)
    log.add_response("toy/0", Outcome.FAILED, line("toy/0", "failed"))
    log.add_verdict("toy/0", Outcome.FAILED, line("toy/0", "failed"))
    assert log.entry("toy/0")[:3] == (State.FAILED, 0, Outcome.FAILED)
    offset = log.add_response("toy/0", None, line("toy/0"))
    log.close()
    log = RunLog(tmp_path)
    # A verdict on an earlier line is as good as none.
    assert log.entry("toy/0")[:3] == (State.ANSWERED, offset, None)
    assert log.responses.read(offset)["key"] == "toy/0"
    log.forget_verdicts()
    assert log.entry("toy/0").verdict is None
    log.close()


def test_calls_on_the_way_to_an_answer_take_no_room_in_the_index(tmp_path: Path) -> None:
    log = RunLog(tmp_path)
    first = log.add_call(b'{"key":"t/1:call1","sample":"t/1"}')
    assert log.add_response("t/1", None, b'{"key":"t/1","sample":"t/1"}') > first
    assert (len(log._table), log.entry("t/1:call1").state) == (1, State.NONE)
    log.close()
    resumed = RunLog(tmp_path)
    assert resumed.entry("t/1:call1")[:2] == (State.ANSWERED, first)  # an unfinished turn goes on from its calls
    resumed.close()


def test_one_writer(tmp_path: Path) -> None:
    log = RunLog(tmp_path)
    with pytest.raises(RunBusyError, match="pid"):
        RunLog(tmp_path)
    log.close()
    RunLog(tmp_path).close()


def test_damage_before_the_end_is_named(tmp_path: Path) -> None:
    full(tmp_path)
    path = tmp_path / "responses.jsonl"
    path.write_bytes(b"oops\n" + path.read_bytes())
    with pytest.raises(RunLogError, match="line 1"):
        RunLog(tmp_path)


@given(st.lists(st.tuples(st.text(max_size=8), st.sampled_from([None, *Outcome])), max_size=30))
def test_scan_reads_what_was_written(entries: list[tuple[str, Outcome | None]]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log"
        path.write_bytes(b"".join(sealed(line(key, outcome)) + b"\n" for key, outcome in entries))
        heads = list(scan(path, Head))
        data = path.read_bytes()
    assert [(head.key, head.outcome) for _, head in heads] == entries
    assert all(orjson.loads(data[offset:].split(b"\n")[0])["key"] == head.key for offset, head in heads)


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 2**60), st.integers(0, 127)), max_size=400))
def test_key_table_is_a_dict(entries: list[tuple[int, int, int]]) -> None:
    table, expected = KeyTable(), {}
    for key, number, flags in entries:
        table.put(str(key), number=number, flags=flags)
        expected[str(key)] = (number, flags)
    assert len(table) == len(expected)
    assert {key: table.get(key) for key in expected} == expected
    assert table.get("another") is None


def test_key_table_grows() -> None:
    table = KeyTable()
    for number in range(20_000):
        table.put(f"toy/{number}", number=number, flags=1)
    assert all(table.get(f"toy/{number}") == (number, 1) for number in range(20_000))
    assert len(table) == 20_000


def test_shards_partition() -> None:
    counts = [0] * 8
    for number in range(8000):
        counts[shard_of(f"toy/{number}", 8)] += 1
    assert min(counts) > 850


texts = st.text(max_size=20)
configs = st.builds(
    model.GenerationConfig,
    max_output_tokens=st.none() | st.integers(1, 2**32 - 1),
    temperature=st.none() | st.floats(0, 2, width=32),
    top_p=st.none() | st.floats(0, 1, width=32),
    seed=st.none() | st.integers(0, 2**64 - 1),
    stop=st.lists(texts, max_size=2),
)
parts = (
    st.builds(model.Part, text=texts)
    | st.builds(model.Part, image=st.builds(model.Image, data=st.binary(max_size=9), media_type=texts))
    | st.builds(model.Part, tool_call=st.builds(model.ToolCall, id=st.text(min_size=1), name=texts, arguments=texts))
)
contents = st.builds(Part, text=texts) | st.builds(
    Part, image=st.builds(Image, data=st.binary(max_size=9), media_type=texts)
)
tool_parts = st.builds(
    Part, tool_call=st.builds(ToolCall, id=st.text(min_size=1), name=texts, arguments=texts)
) | st.builds(
    Part,
    tool_result=st.builds(
        ToolResult,
        tool_call_id=st.text(min_size=1),
        content=st.lists(contents, max_size=2).map(tuple),
        is_error=st.booleans(),
    ),
)
tools = st.builds(model.Tool, name=texts, description=texts, input_schema=texts)
calls = st.builds(
    Call,
    messages=st.lists(
        st.builds(
            Message,
            role=st.sampled_from([1, 2, 3, 4]),
            reasoning=texts,
            opaque=st.binary(max_size=9),
            parts=st.lists(
                contents | tool_parts | st.builds(Part, clip=st.builds(Clip, data=st.binary(max_size=9), about=abouts)),
                max_size=3,
            ).map(tuple),
        ),
        max_size=3,
    ).map(tuple),
    config=configs,
    continuations=st.lists(texts, max_size=2).map(tuple),
    modality=st.sampled_from([0, 2]),
    tools=st.lists(tools, max_size=2).map(tuple),
)
durations = st.builds(
    lambda seconds, nanos: {"seconds": seconds, "nanos": nanos},
    st.integers(0, 10**6),
    st.sampled_from([0, 1, 1000, 5_000_000, 120_000, 999_999_999]) | st.integers(0, 999_999_999),
)
usages = st.builds(
    model.Usage,
    input_tokens=st.integers(0, 2**32 - 1),
    output_tokens=st.integers(0, 9),
    queue_time=st.none() | durations,
    model_time=st.none() | durations,
    media=st.lists(st.builds(model.MediaUsage, duration=st.none() | durations, frames=st.integers(0, 9)), max_size=2),
    images=st.lists(st.builds(model.ImageUsage, width=st.integers(0, 9), height=st.integers(0, 9)), max_size=2),
)
tokens = st.builds(model.TokenLogprob, token=st.binary(max_size=4), logprob=st.floats(max_value=0, allow_nan=False))
responses = st.builds(
    model.GenerateResponse,
    parts=st.lists(parts, max_size=3),
    finish_reason=st.sampled_from([1, 2, 3, 4, 5]),
    opaque=st.binary(max_size=9),
    usage=st.none() | usages,
    effective_config=st.none() | configs,
    logprobs=st.lists(tokens, max_size=2),
)
likelihoods = st.builds(
    model.LikelihoodResponse,
    scores=st.lists(
        st.builds(
            model.ContinuationScore,
            logprob=st.floats(max_value=0, allow_nan=False),
            token_count=st.integers(1, 99),
            is_greedy=st.booleans(),
            tokens=st.lists(tokens, max_size=2),
        ),
        min_size=1,
        max_size=3,
    ),
    usage=st.none() | usages,
)


class Store:
    """Image references that carry the image, so that they can be turned back."""

    def put(self, medium: Medium) -> str:
        return base64.b64encode(medium.data).decode()


def restored(content: object) -> object:
    if isinstance(content, dict):
        if "sha256" in content:
            assert content["bytes_length"] == len(base64.b64decode(content["sha256"]))
            kept = {name: value for name, value in content.items() if name not in ("sha256", "bytes_length")}
            return {**kept, "data": content["sha256"]}
        return {name: restored(value) for name, value in content.items()}
    return [restored(value) for value in content] if isinstance(content, list) else content


def through_json(content: object) -> object:
    return restored(orjson.loads(orjson.dumps(content)))


@given(calls)
def test_request(call: Call) -> None:
    written = through_json(records.request_json(call, Store().put))
    kind = model.LikelihoodRequest if call.continuations else model.GenerateRequest
    assert json_format.ParseDict(written, kind()) == kind.FromString(request_of(call).data)
    line = orjson.loads(orjson.dumps(records.request_json(call, Store().put)))
    assert request_of(records.call_of(line, base64.b64decode)).data == request_of(call).data


@given(responses)
def test_generate_response(response: model.GenerateResponse) -> None:
    written = through_json(records.response_json(response, Store().put))
    assert json_format.ParseDict(written, model.GenerateResponse()) == response
    line = {"response": orjson.loads(orjson.dumps(records.response_json(response, Store().put)))}
    answer = records.answer_of_line(line, base64.b64decode)
    assert answer == records.answer_of(response)


@given(likelihoods)
def test_likelihood_response(response: model.LikelihoodResponse) -> None:
    written = through_json(records.response_json(response, Store().put))
    assert json_format.ParseDict(written, model.LikelihoodResponse()) == response
    line = {"response": orjson.loads(orjson.dumps(records.response_json(response, Store().put)))}
    assert records.answer_of_line(line, base64.b64decode) == records.answer_of(response)


verdicts = st.builds(
    scorer.Verdict,
    key=texts,
    outcome=st.sampled_from([outcome.value for outcome in Outcome]),
    extracted=texts,
    score=st.none() | st.floats(allow_nan=False),
    scores=st.dictionaries(texts, st.floats(allow_nan=False), max_size=2),
    span=st.none() | st.builds(scorer.Span, start=st.integers(0, 9), end=st.integers(0, 9)),
    judge=st.none() | st.builds(scorer.Judgement, model=texts, words=texts, cached=st.booleans()),
    reason=texts,
    detail=texts,
    details=texts,
    panel=st.lists(st.builds(scorer.Judgement, model=texts, words=st.just("{}")), max_size=2),
)
SCORING = {"rule": "choice", "targets": ["A"], "options": ["x", "y"], "params": {}, "labels": {"a": "b"}, "group": "g"}


@given(verdicts)
def test_verdict(verdict: scorer.Verdict) -> None:
    written = orjson.loads(records.verdict_line(verdict, "toy", SCORING))
    context = {name: written.pop(name) for name in ("task", "rule", "labels", "group", "targets", "options")}
    assert context == {"task": "toy"} | {name: value for name, value in SCORING.items() if name != "params"}
    assert json_format.ParseDict(written, scorer.Verdict()) == verdict
    carried = records.pass_through(decode(sealed(records.verdict_line(verdict, "toy", SCORING)), VerdictLine))
    assert (carried.key, carried.rule, carried.group) == (verdict.key, "choice", "g")
    assert carried.verdict.HasField("score") == verdict.HasField("score")
    assert carried.verdict.score == verdict.score
    assert carried.verdict.panel == verdict.panel
    assert carried.verdict.details == verdict.details


def test_lines_lost_to_a_full_disk_are_not_there_on_resume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = RunLog(tmp_path / "run")
    log.add_response(KEYS[0], None, line(KEYS[0]))

    def full_disk(_fd: int, _data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(appender.os, "write", full_disk)
        with pytest.raises(RunWriteError, match="make room"):
            log.flush()
    log.close()
    log = RunLog(tmp_path / "run")
    assert log.resumed == 0
    log.close()


@settings(max_examples=50)
@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 2**60), st.integers(0, 127)), max_size=900), max_size=4
    ),
    st.integers(0, 127),
    st.booleans(),
)
def test_many_keys_at_once_are_one_by_one(parts: list[list[tuple[int, int, int]]], mask: int, numbered: bool) -> None:
    one, all_at_once = KeyTable(), KeyTable()
    for part in parts:
        for key, number, flags in part:
            one.put(str(key), number=number if numbered else None, flags=flags & mask, mask=mask)
        hashes = np.array([digest(str(key)) for key, _, _ in part], np.uint64).reshape(-1, 2)
        numbers = np.array([number for _, number, _ in part], np.uint64) if numbered else None
        flags = np.array([flags & mask for _, _, flags in part], np.uint8)
        all_at_once.put_all(hashes[:, 0], hashes[:, 1], numbers=numbers, flags=flags, mask=mask)
    assert len(one) == len(all_at_once)
    for key in range(3001):
        assert one.get(str(key)) == all_at_once.get(str(key))
