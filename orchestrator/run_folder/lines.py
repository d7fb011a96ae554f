"""The lines of a run folder's logs, each kind declared once (docs/run-folder.md).

A reader names the fields that it needs; msgspec checks the whole line and builds no other field. Measured against
regular expressions and dicts in docs/decisions.md, 25.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar
from zlib import crc32

import msgspec
import orjson
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from lyncean.arrays import NDArray, np
from lyncean.vocabulary.outcomes import Outcome
from orchestrator.errors import ConfigError
from orchestrator.run_folder.cut import CUT_REASONING, Finished


class Head(Struct, frozen=True):
    """The beginning of every line.

    Attributes:
        key: The item's key.
        outcome: Of `responses.jsonl`, the outcome of a request without an answer; of `verdicts.jsonl`, the verdict's.
    """

    key: str
    outcome: Outcome | None = None


class Failure(Struct, frozen=True):
    """The reason that a request has no answer that can be scored.

    Attributes:
        code: The gRPC status, "" if nothing was sent.
        reason: A stable word.
        message: One line for people.
    """

    code: str
    reason: str
    message: str


class Origin(Struct, frozen=True, omit_defaults=True):
    """The part of an endpoint that answered, as it says itself.

    Attributes:
        model: The model.
        fingerprint: The configuration.
    """

    model: str = ""
    fingerprint: str = ""


class ResponseLine(Struct, kw_only=True, omit_defaults=True):
    """A line of `responses.jsonl`: one request and its response, or the reason that it has none.

    Attributes:
        key: The item's key.
        outcome: Set if no answer is to be scored.
        sample: Key of the sample that the request is a turn of.
        turn: Name of the turn, "" for a single one.
        task: The task's name.
        method: "generate" or "likelihood"; "" if nothing was sent.
        request: The request as proto3 JSON, images as references; null if nothing was sent.
        response: The response, likewise.
        error: Reason for the missing answer.
        replica: Address of the server that answered.
        boot_id: The start of that server that answered, if it says so.
        endpoint: The origin of an answer that the server passed on, if it knows.
        attempts: Times that the request was sent.
        seconds: Duration of the last attempt.
        started: When it began, RFC 3339 in UTC.
        after_cut: Whether the answer follows an output of an unscored turn that the output limit ended.
        finished: How far a cut answer was finished, whose line this one replaces.
        tool: The call of a tool and what came of it, on a line of its own without a request.
        facts: Numbers of the calls of an item with tools; each call has a line before the item's own, which has the
            first request and the answer that is judged, and no usage.
        scoring: How the answer is scored; null for a turn that only prepares another.
    """

    key: str
    outcome: Outcome | UnsetType = UNSET
    sample: str
    turn: str
    task: str
    method: str = ""
    request: Raw
    response: Raw | UnsetType = UNSET
    error: Failure | UnsetType = UNSET
    replica: str | UnsetType = UNSET
    boot_id: str | UnsetType = UNSET
    endpoint: Origin | UnsetType = UNSET
    attempts: int
    seconds: float | UnsetType = UNSET
    started: str | UnsetType = UNSET
    after_cut: bool = False
    finished: Finished | UnsetType = UNSET
    tool: Raw | UnsetType = UNSET
    facts: dict[str, float] = {}
    scoring: Raw


class VerdictLine(Struct, kw_only=True, omit_defaults=True):
    """A line of `verdicts.jsonl`: the outcome of one item, with the fields that metrics need.

    Attributes:
        key: The item's key.
        outcome: One of the six.
        extracted: The text that was read from the answer.
        score: The score; absent if the outcome has none. A float that JSON has no number for is a string.
        scores: Named parts of the score.
        judge: The judge's words and the hash of its prompt.
        panel: The same of each of several judges.
        span: Position of `extracted` in the answer's text, in characters.
        reason: Why the outcome is what it is; a stable word.
        detail: The same for people.
        details: The rule's record for a metric of its own.
        task: The task's name.
        rule: The rule that scored it.
        labels: What the item can be sliced by.
        group: Name of the group, "" where it has none.
        targets: The correct answers.
        options: The options of a choice.
        choices: Number of options of a choice that names none, since an image shows them; 0 elsewhere.
        params: The rule's parameters, of an item without an answer: no rule could take from them what metrics need.
        cut: Whether the output limit ended the answer, or the reasoning that it follows.
        facts: Numbers known of the item beside its score.
        answer: Checksum of the line of `responses.jsonl` that the verdict is of; "" in older runs.
    """

    key: str
    outcome: Outcome
    extracted: str = ""
    score: float | str | UnsetType = UNSET
    scores: dict[str, float | str] = {}
    judge: dict[str, Any] | UnsetType = UNSET
    panel: list[dict[str, Any]] = []
    span: dict[str, int] = {}
    reason: str = ""
    detail: str = ""
    details: str = ""
    task: str
    rule: str
    labels: Mapping[str, str]
    group: str
    targets: list[str]
    options: list[str]
    choices: int = 0
    params: Mapping[str, Any] = {}
    cut: bool = False
    facts: dict[str, float] = {}
    answer: str = ""

    @property
    def is_cut(self) -> bool:
        """The same; an older line says it by its reason alone."""
        return self.cut or self.reason == CUT_REASONING


class LabelLine(Struct, kw_only=True, omit_defaults=True):
    """A line of `labels.jsonl`: a person's label of one item's answer.

    Attributes:
        key: The item's key.
        by: The person.
        mark: The kind of label: "scored", undecidable, or the withdrawal of an earlier label.
        score: The score if any, 0 for wrong to 1 for right.
        kind: The kind of error of a wrong answer, "" if none was chosen.
        seed: Of the order in which items are shown.
        given: Time of the label, RFC 3339 in UTC.
    """

    key: str
    by: str
    mark: Literal["scored", "unclear", "undone"]
    score: Annotated[float, Meta(ge=0, le=1)] | UnsetType = UNSET
    kind: str = ""
    seed: int
    given: str


class _Usage(Struct, frozen=True):
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0


class _Response(Struct, frozen=True):
    usage: _Usage = _Usage()
    finish_reason: str = ""


class _Tool(Struct, frozen=True):
    is_error: bool = False
    facts: dict[str, float] = {}


class UsageLine(Struct):
    """Of a line of `responses.jsonl`, the usage of the request; unknown without a response."""

    key: str
    task: str = ""
    seconds: float = 0.0
    response: _Response | None = None
    finished: Finished | None = None
    endpoint: Origin = Origin()
    tool: _Tool | None = None
    facts: dict[str, float] = {}


class OriginLine(Struct):
    """Of a line of `responses.jsonl`, the origin of an answer that a server passed on."""

    endpoint: Origin = Origin()


class SampleLine(Struct):
    """Of a line of `responses.jsonl`, the sample that it belongs to."""

    key: str
    sample: str


class EndedLine(Struct):
    """Of a line of `responses.jsonl`, the reason for a missing answer."""

    key: str
    task: str
    sample: str = ""
    outcome: str = ""
    error: Failure = Failure("", "", "")


class CountedLine(Struct):
    """Of a line of `verdicts.jsonl`, the fields of the live view and of a list of problems."""

    key: str
    outcome: str = ""
    score: Any = None
    reason: str = ""
    detail: str = ""

    @property
    def by_judge(self) -> bool:
        """True if a judge left the item unjudged; code of a task or a plugin can do so as well."""
        return self.outcome == "unjudged" and self.reason.startswith("judge_")


class JudgedLine(Struct):
    """Of a line of `verdicts.jsonl`, the judges' part."""

    judge: Raw | UnsetType = UNSET

    @property
    def judged(self) -> bool:
        """True if a judge was asked for the verdict."""
        return self.judge is not UNSET


T = TypeVar("T")
DamagedLine = msgspec.DecodeError
"""Raised by `decode`: the line is not JSON, lacks a field, or a field has another type."""

_SEAL = len(b',"crc32":"00000000"}')
_ANSWER = b',"answer":"'
_DIGIT_COUNT = 8
_HEAD = re.compile(rb'\{"key":"([^"\\\x80-\xff]*)",(?:"sample":"|"outcome":"(%b)")' % "|".join(Outcome).encode()).match
_OUTCOMES = {None: None} | {outcome.encode(): outcome for outcome in Outcome}
_encoder = msgspec.json.Encoder()


class _Heads:
    """Takes heads off their lines: as the writer begins them by their first bytes, others by all of theirs.

    A line whose checksum was looked at is what was written, so that the rest of it need not be parsed.
    """

    def __init__(self) -> None:
        self._whole = msgspec.json.Decoder(Head)

    def decode(self, data: bytes) -> Head:
        begun = _HEAD(data)
        if begun is None:
            return self._whole.decode(data)
        return Head(begun[1].decode(), _OUTCOMES[begun[2]])


_heads = _Heads()
_decoders: dict[Any, Any] = {Head: _heads}


def encode(line: ResponseLine | VerdictLine | LabelLine) -> bytes:
    """Returns a line without its newline and its checksum."""
    return _encoder.encode(line)


def sealed(data: bytes) -> bytes:
    """Returns a line with its checksum as the last field: the CRC-32 of all bytes before that field."""
    return with_checksum(data)[0]


def with_checksum(data: bytes) -> tuple[bytes, int]:
    """Returns a line with its checksum as the last field, and the checksum."""
    start = data[:-1]
    check = crc32(start)
    return b'%b,"crc32":"%08x"}' % (start, check), check


def checksums(lines: Sequence[bytes]) -> NDArray[np.uint32]:
    """Returns the checksums of sealed lines without their newlines: shape [lines]."""
    return _numbers([line[-_DIGIT_COUNT - 2 : -2] for line in lines])


def of_answer(line: bytes, answer: int) -> bytes:
    """Returns a verdict's line, not sealed yet, with the checksum of the line of its answer as its last field."""
    return b'%b%b%08x"}' % (line[:-1], _ANSWER, answer)


def answers_of(lines: Sequence[bytes]) -> tuple[NDArray[np.bool_], NDArray[np.uint32]]:
    """Returns whether sealed lines of verdicts name the line of their answer, and its checksum: shapes [lines].

    Raises:
        DamagedLine: If a checksum is not a number.
    """
    end = _SEAL + 1 + _DIGIT_COUNT
    named = [line[-end - len(_ANSWER) : -end] == _ANSWER for line in lines]
    digits = [
        line[-end : -_SEAL - 1] if there else b"0" * _DIGIT_COUNT for line, there in zip(lines, named, strict=True)
    ]
    return np.array(named, bool), _numbers(digits)


def _numbers(digits: Sequence[bytes]) -> NDArray[np.uint32]:
    try:
        return np.frombuffer(bytes.fromhex(b"".join(digits).decode()), ">u4").astype(np.uint32)
    except ValueError as error:
        raise DamagedLine(f"a checksum is not a number ({error})") from None


def verify(data: bytes) -> None:
    """Compares a line with its checksum.

    Raises:
        DamagedLine: If they differ.
    """
    end = len(data) - data.endswith(b"\n")
    start = max(0, end - _SEAL)
    if data[start:end] != _seal(data[:start]):
        raise DamagedLine("its checksum does not match")


def heads_of(lines: Sequence[bytes]) -> tuple[list[bytes], list[Outcome | None]]:
    """Returns the keys, in UTF-8, and the outcomes of whole lines without their newlines.

    Takes less time than `decode` line by line, which tells which line is damaged.

    Raises:
        DamagedLine: If one of them is damaged.
    """
    if b"".join([line[-_SEAL:] for line in lines]) != b"".join([_seal(line[:-_SEAL]) for line in lines]):
        raise DamagedLine("a checksum does not match")
    keys, outcomes = [], []
    for line, begun in zip(lines, map(_HEAD, lines), strict=True):
        if begun is None:
            head = _heads.decode(line)
            keys.append(head.key.encode())
            outcomes.append(head.outcome)
        else:
            key, outcome = begun.groups()
            keys.append(key)
            outcomes.append(_OUTCOMES[outcome])
    return keys, outcomes


def _seal(start: bytes | memoryview) -> bytes:
    return b',"crc32":"%08x"}' % crc32(start)


def identity_hash(identity: Mapping[str, Any]) -> str:
    """Returns the sha256 of a manifest's identity; the order of its fields does not count."""
    return hashlib.sha256(orjson.dumps(identity, option=orjson.OPT_SORT_KEYS)).hexdigest()


def verify_identity(path: Path, manifest: Mapping[str, Any]) -> None:
    """Compares a manifest's identity with its hash.

    Raises:
        ConfigError: If they differ.
    """
    if identity_hash(manifest["identity"]) != manifest["identity_sha256"]:
        raise ConfigError(f"{path} was changed: its identity has another hash than it says; restore it from a copy")


def loads(data: bytes) -> dict[str, Any]:
    """Returns a whole line.

    Raises:
        DamagedLine: If it is not one.
    """
    verify(data)
    try:
        line: dict[str, Any] = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise DamagedLine(str(error)) from None
    return line


def raw(content: Any) -> Raw:
    """Returns serialized content, to be put into a line unchanged; it may hold orjson's fragments."""
    return Raw(orjson.dumps(content))


def decode(data: bytes, kind: type[T]) -> T:
    """Returns a line as a type, the fields that the type does not name passed over.

    Raises:
        DamagedLine: If it is not such a line.
    """
    verify(data)
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.json.Decoder(kind)
    line: T = decoder.decode(data)
    return line
