"""Requests from a file, verdicts to stdout."""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections.abc import AsyncIterator, Iterator
from typing import BinaryIO

import click
import orjson
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError
from google.protobuf.message import Message

from lyncean.errors import UserError
from lyncean.rpc import StatusError
from lyncean.scorer.v1 import scorer_pb2 as pb
from lyncean.vocabulary.outcomes import Outcome
from scorer.cli.options import in_flight
from scorer.cli.waiting import periodic_line
from scorer.errors import RequestError
from scorer.judges.current import summarized
from scorer.judges.options import Judging, Opened
from scorer.metrics import metrics as all_metrics
from scorer.metrics.summarizer import Summarizer
from scorer.registry import Registry
from scorer.rule import AnyRule
from scorer.scoring import Scorer


async def score(file: BinaryIO, metric_specs: BinaryIO | None, registry: Registry[AnyRule], judging: Judging) -> None:
    """Prints the verdict of each request of a file, then the summary if metrics are wanted.

    Raises:
        UserError: If the file, the specs or a request is invalid; names the line.
    """
    specs = _specs(metric_specs) if metric_specs else None
    try:
        summarizer = Summarizer(specs, all_metrics()) if specs is not None else None
    except RequestError as error:
        raise UserError(str(error)) from error
    judges = judging.open()
    try:
        scorer = Scorer(registry, judges.judge if judges else None, judging.reads, in_flight(judging))
        await _print(file, scorer, judges, summarizer)
    finally:
        if judges is not None:
            await judges.close()


async def _print(file: BinaryIO, scorer: Scorer, judges: Opened | None, summarizer: Summarizer | None) -> None:
    out = sys.stdout.buffer
    unjudged, why = 0, ""
    async for number, request, verdict in _verdicts(file, scorer, judges):
        if verdict.outcome == Outcome.UNJUDGED:
            unjudged, why = unjudged + 1, verdict.detail
        if summarizer:
            try:
                summarizer.add(request, verdict)
            except RequestError as error:
                raise UserError(f"{file.name}, line {number}: item {request.key!r}: {error}") from error
        if request.WhichOneof("answer") != "verdict":
            out.write(orjson.dumps(_fields(verdict)) + b"\n")
    if summarizer:
        try:
            summary = await summarized(summarizer.finish, scorer.judge)
        except RequestError as error:
            raise UserError(str(error)) from error
        out.write(orjson.dumps({"summary": _fields(summary)}) + b"\n")
    out.flush()
    if unjudged:
        click.echo(f"unjudged: {unjudged:,} items, the last because {why}", err=True)


async def _verdicts(
    file: BinaryIO, scorer: Scorer, judges: Opened | None
) -> AsyncIterator[tuple[int, pb.ScoreRequest, pb.Verdict]]:
    lines = _requests(file)
    failure: UserError | None = None
    while failure is None:
        begun: list[tuple[int, pb.ScoreRequest, pb.Verdict | asyncio.Future[pb.Verdict]]] = []
        try:
            for number, request in itertools.islice(lines, scorer.in_flight):
                start = scorer.begin(request)
                begun.append(
                    (number, request, start if isinstance(start, pb.Verdict) else asyncio.ensure_future(start()))
                )
        except UserError as error:
            failure = error
        except (RequestError, StatusError) as error:
            failure = UserError(f"{file.name}, line {number}: {error}")
        await _judged([pending for _, _, pending in begun if not isinstance(pending, pb.Verdict)], judges)
        for number, request, waited in begun:
            try:
                verdict = waited if isinstance(waited, pb.Verdict) else await waited
            except (RequestError, StatusError) as error:
                raise UserError(f"{file.name}, line {number}: {error}") from error
            yield number, request, verdict
        if not begun:
            break
    if failure:
        raise failure


async def _judged(pending: list[asyncio.Future[pb.Verdict]], judges: Opened | None) -> None:
    """Waits for pending verdicts; reports their number every few seconds."""
    if not pending or judges is None:
        return

    def line() -> str:
        left, why = sum(not verdict.done() for verdict in pending), judges.judge.waits_for
        return f"{left:,} items wait for {judges.spec}" + (f": {why}" if why else "")

    async with periodic_line(line):
        await asyncio.wait(pending)


def _requests(file: BinaryIO) -> Iterator[tuple[int, pb.ScoreRequest]]:
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        try:
            yield number, ParseDict(_object(line), pb.ScoreRequest())
        except (ValueError, ParseError) as error:
            raise UserError(
                f"{file.name}, line {number}: no ScoreRequest in proto3 JSON: {_one_line(error)}"
            ) from error


def _object(line: bytes) -> dict[str, object]:
    value = orjson.loads(line)
    if not isinstance(value, dict):
        raise ValueError("not an object")
    return value


def _fields(message: Message) -> dict[str, object]:
    fields: dict[str, object] = MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    return fields


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _specs(file: BinaryIO) -> list[pb.MetricSpec]:
    try:
        entries = orjson.loads(file.read())
        if not isinstance(entries, list):
            raise ValueError("not a list")
        if not all(isinstance(entry, dict) for entry in entries):
            raise ValueError("an entry is not an object")
        return [ParseDict(entry, pb.MetricSpec()) for entry in entries]
    except (ValueError, ParseError) as error:
        raise UserError(f"{file.name}: no list of MetricSpec in proto3 JSON: {_one_line(error)}") from error
