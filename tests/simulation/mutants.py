"""Repairs taken out, one at a time: a world must miss each of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, NamedTuple

import grpc
import numpy as np
import pytest

from lyncean.rpc import errors as errors_module
from lyncean.rpc.waits import Wait
from orchestrator.engine import (
    batch as batch_module,
    check as check_module,
    dispatch as dispatch_module,
    episode as episode_module,
    ledger as ledger_module,
    pool as pool_module,
    replica as replica_module,
)
from orchestrator.engine.check import checked
from orchestrator.engine.ledger import Ledger
from orchestrator.engine.replica import Replica
from orchestrator.engine.run import Engine
from orchestrator.engine.sent import SentFiles
from orchestrator.engine.wire import Request
from orchestrator.run_folder import lines as lines_module, log as log_module
from orchestrator.run_folder.appender import Appender
from orchestrator.run_folder.lock import Lock
from orchestrator.run_folder.log import RunLog
from orchestrator.run_folder.remote import mirror as mirror_module
from orchestrator.run_folder.remote.mirror import Mirror
from scorer.judges import asking as asking_module
from scorer.judges.keeping import KeptReplies
from simulation.world import Disk


def _nothing(*_: Any) -> None:
    return None


async def _soon(*_: Any) -> None:
    return None


def _no_identity(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Replica, "_identify", _nothing)


def _no_last_look(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Replica, "_wait_for_look", _soon)


def _verdicts_are_believed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(check_module, "_verdict", lambda *_: "")


def _summaries_are_believed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(check_module, "_counts", lambda *_: "")
    patch.setattr(check_module, "_metrics", lambda *_: "")


def _capabilities_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(pool_module, "_ASKED_FOR", set())


def _every_status_is_the_models(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(errors_module, "_MODELS_OWN", frozenset())


def _responses_are_believed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(check_module, "_generate", lambda *_: "")
    patch.setattr(check_module, "_likelihood", lambda *_: "")


def _images_are_believed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(episode_module, "check_image", _nothing)


def _lines_are_believed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(lines_module, "verify", _nothing)


def _misses_are_final(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(replica_module, "not_held", lambda error: False)


def _bytes_are_never_sent_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SentFiles, "refused", _nothing)
    patch.setattr(SentFiles, "sending", lambda files, request: {sha256 for sha256, _ in request.files})
    real = Replica._pieces
    patch.setattr(Replica, "_pieces", lambda replica, request, sent, in_full=False: real(replica, request, sent))


def _hashes_are_of_other_files(patch: pytest.MonkeyPatch) -> None:
    real, last = episode_module.request_of, [b""]

    def request_of(call: Any, digests: Sequence[bytes]) -> Request:
        shifted = [last[0] or digest for digest in digests]
        last[:] = digests or last
        return real(call, shifted)

    patch.setattr(episode_module, "request_of", request_of)


def _any_repeats_go_together(patch: pytest.MonkeyPatch) -> None:
    for module in (episode_module, dispatch_module):
        patch.setattr(module, "is_repeat", lambda *_: True)


def _samples_are_counted_by_nobody(patch: pytest.MonkeyPatch) -> None:
    def outputs_of(response: Any, requests: Sequence[Request]) -> list[Any]:
        pairs = zip(response.samples, requests, strict=False)
        return [batch_module._output(result, response, request, checked) for result, request in pairs]

    patch.setattr(replica_module, "outputs_of", outputs_of)


def _folders_stay(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Appender, "check_there", _nothing)
    patch.setattr(Lock, "check", _nothing)


def _silence_is_borne(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Wait, "left", property(lambda _: 1.0))


def _stops_are_as_long_as_calls(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Engine, "stop_soon", Engine.drain)


def _verdicts_wait_for_no_answer(patch: pytest.MonkeyPatch) -> None:
    def flush(log: RunLog) -> None:
        log.responses.flush()
        log.verdicts.flush()

    patch.setattr(RunLog, "flush", flush)


def _verdicts_are_of_any_answer(patch: pytest.MonkeyPatch) -> None:
    real = log_module.answers_of
    patch.setattr(log_module, "answers_of", lambda lines: (np.zeros(len(lines), bool), real(lines)[1]))


def _nothing_is_synced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Disk, "fsync", _nothing)


def _retried(patch: pytest.MonkeyPatch, *codes: grpc.StatusCode) -> None:
    table = dict(errors_module.CONSEQUENCES)
    for code in codes:
        table[code] = replace(table[code], retries=(table[code].retries or 0) + 1)
    patch.setattr(errors_module, "CONSEQUENCES", table)


def _final_is_asked_once_more(patch: pytest.MonkeyPatch) -> None:
    _retried(patch, grpc.StatusCode.OUT_OF_RANGE, grpc.StatusCode.PERMISSION_DENIED)


def _broken_is_asked_once_more(patch: pytest.MonkeyPatch) -> None:
    _retried(patch, grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN)


def _answers_are_asked_twice(patch: pytest.MonkeyPatch) -> None:
    """The first answer of a call is thrown away as if it were a full queue."""
    real = Replica.trusted
    once: set[int] = set()

    async def trusted(replica: Replica, ending: Any, sent: Any) -> Any:
        found = await real(replica, ending, sent)
        if not isinstance(found, errors_module.CallError) and replica._looks not in once:
            once.add(replica._looks)
            return errors_module.CallError(grpc.StatusCode.UNAVAILABLE, "identity_unknown", "once more")
        return found

    patch.setattr(Replica, "trusted", trusted)


def _questions_end_with_who_asked(patch: pytest.MonkeyPatch) -> None:
    """No shield around a question to the judge that is being paid for."""

    async def shield(task: Any) -> Any:
        return await task

    patch.setattr(asking_module, "asyncio", SimpleNamespace(**{**vars(asyncio), "shield": shield}))


def _replies_go_with_the_cache(patch: pytest.MonkeyPatch) -> None:
    """A reply that the cache cannot store is not kept here either."""
    real = KeptReplies.get

    async def get(kept: KeptReplies, judge: str, prompt: Any) -> Any:
        kept._unkept.clear()
        return await real(kept, judge, prompt)

    patch.setattr(KeptReplies, "get", get)


def _the_cache_is_not_asked(patch: pytest.MonkeyPatch) -> None:
    async def get(*_: Any) -> None:
        return None

    patch.setattr(KeptReplies, "get", get)


def _verdicts_are_closed_first(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RunLog, "close", lambda log: log._opened.close())


def _uploads_are_not_looked_at(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Mirror, "look", _nothing)


def _damaged_lines_are_uploaded(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(mirror_module, "verify", _nothing)


def _verdicts_are_uploaded_first(patch: pytest.MonkeyPatch) -> None:
    real = Mirror.upload

    def upload(mirror: Mirror) -> None:
        mirror._ends = dict(sorted(mirror._ends.items(), reverse=True))
        real(mirror)

    patch.setattr(Mirror, "upload", upload)


def _answers_wait_for_their_batch(patch: pytest.MonkeyPatch) -> None:
    async def as_they_end(calls: Mapping[int, Any]) -> AsyncIterator[list[Any]]:
        if calls:
            yield list(zip(calls, await asyncio.gather(*calls.values()), strict=True))

    patch.setattr(replica_module, "as_they_end", as_they_end)


def _logs_are_read_without_end(patch: pytest.MonkeyPatch) -> None:
    async def reading(_: Ledger, work: Callable[[], Any]) -> Any:
        return await ledger_module.in_thread(work, "disk")

    patch.setattr(Ledger, "reading", reading)


def _results_go_to_any_folder(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RunLog, "check_there", _nothing)


class Mutant(NamedTuple):
    """A repair that is taken out.

    Attributes:
        patch: Takes it out.
        first: The seed from which it is searched, shortly before the world that missed it last.
        often: Whether the suite does; others are searched weekly.
    """

    patch: Callable[[pytest.MonkeyPatch], None]
    first: int = 0
    often: bool = True


MUTANTS = {
    mutant.patch.__name__.strip("_"): mutant
    for mutant in (
        Mutant(_no_identity, 18),
        Mutant(_no_last_look, 280),
        Mutant(_verdicts_are_believed, 0),
        Mutant(_summaries_are_believed, 0),
        Mutant(_capabilities_once, 65),
        Mutant(_every_status_is_the_models, 0),
        Mutant(_responses_are_believed, 0),
        Mutant(_images_are_believed, 0),
        Mutant(_lines_are_believed, 0),
        Mutant(_folders_stay, 88),
        Mutant(_misses_are_final, 0),
        Mutant(_bytes_are_never_sent_again, 40),
        Mutant(_hashes_are_of_other_files, 0),
        Mutant(_any_repeats_go_together, 60, often=False),
        Mutant(_samples_are_counted_by_nobody, 0),
        Mutant(_silence_is_borne, 40),
        Mutant(_stops_are_as_long_as_calls, 200),
        Mutant(_verdicts_wait_for_no_answer, 575),
        Mutant(_verdicts_are_of_any_answer, 305),
        Mutant(_nothing_is_synced),
        Mutant(_final_is_asked_once_more),
        Mutant(_broken_is_asked_once_more, 25),
        Mutant(_answers_are_asked_twice, 35),
        Mutant(_questions_end_with_who_asked, 9),
        Mutant(_replies_go_with_the_cache, 9),
        Mutant(_the_cache_is_not_asked, 9),
        Mutant(_verdicts_are_closed_first, 225),
        Mutant(_uploads_are_not_looked_at, 8),
        Mutant(_damaged_lines_are_uploaded, 15),
        Mutant(_verdicts_are_uploaded_first, 62),
        Mutant(_answers_wait_for_their_batch, 400_400),
        Mutant(_logs_are_read_without_end, 509_620),
        Mutant(_results_go_to_any_folder, 501_830),
    )
}
