"""The Batch API: answers the lines of a file like live requests, after these."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any, Literal

import grpc
import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from lyncean.rpc import CallError, Patience, patiently
from lyncean_openai_front.body import read
from lyncean_openai_front.errors import failure_response, refuse
from lyncean_openai_front.files import KEPT, MAX_STORED, Files, StoredFile
from lyncean_openai_front.share import IN_BATCH

log = logging.getLogger(__name__)
MAX_LINES = 50_000
"""Requests of one batch, as at OpenAI."""
PATIENCE = 600.0
"""Seconds that a line is repeated while the model server is full or away."""
_WINDOW = 86400
_TOGETHER = 8
"""Batches that run at once; others wait as `validating`."""
_MOST_ERRORS = 100
_MOST_WORKERS = 64


class _Create(msgspec.Struct, forbid_unknown_fields=True):
    input_file_id: str
    endpoint: Literal["/v1/chat/completions", "/v1/completions"]
    completion_window: Literal["24h"]
    metadata: dict[str, str] | None = None


class _Line(msgspec.Struct):
    custom_id: str
    method: str
    url: str
    body: msgspec.Raw


@dataclass(slots=True)
class _Batch:
    """One batch; `status` and the times are the API's."""

    form: _Create
    id: str = field(default_factory=lambda: f"batch_{uuid.uuid4().hex}")
    status: str = "validating"
    times: dict[str, int] = field(default_factory=lambda: {"created_at": int(time.time())})
    errors: list[dict[str, Any]] = field(default_factory=list)
    left: dict[str, int] = field(default_factory=dict)  # where the line of a custom_id begins
    results: dict[str, StoredFile] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=lambda: {"total": 0, "completed": 0, "failed": 0})
    task: asyncio.Task[None] | None = None

    @property
    def ended(self) -> bool:
        return self.status in ("completed", "failed", "expired", "cancelled")

    def uses(self, name: str) -> bool:
        return name == self.form.input_file_id or any(name == file.path.name for file in self.results.values())

    def becomes(self, status: str) -> None:
        self.status = status
        self.times[f"{status}_at"] = int(time.time())

    def as_json(self) -> dict[str, Any]:
        """Returns the API's batch object."""
        files = {f"{kind}_file_id": file.path.name for kind, file in self.results.items() if file.size and self.ended}
        return {
            **msgspec.structs.asdict(self.form),
            "id": self.id,
            "object": "batch",
            "status": self.status,
            "errors": {"object": "list", "data": self.errors} if self.errors else None,
            "request_counts": self.counts,
            "expires_at": self.times["created_at"] + _WINDOW,
            **self.times,
            **files,
        }


class Batches:
    """The batches, and the routes to them and to their files.

    Args:
        answer: Answers a body sent to an endpoint, and raises CallError.
        width: Returns how many calls the model server takes at once.
    """

    def __init__(
        self, answer: Callable[[str, bytes], Awaitable[dict[str, Any]]], width: Callable[[], Awaitable[int]]
    ) -> None:
        self._answer = answer
        self._width = width
        self._found: dict[str, _Batch] = {}
        self._running = asyncio.Semaphore(_TOGETHER)
        self.files = Files(lambda name: any(batch.uses(name) for batch in self._found.values() if not batch.ended))

    def routes(self, guarded: Callable[[Callable[[Request], Awaitable[Response]]], Any]) -> list[Route]:
        """Returns the routes, each guarded by the token."""
        files = self.files
        return [
            Route("/v1/files", guarded(files.upload), methods=["POST"]),
            Route("/v1/files/{id}", guarded(files.retrieve), methods=["GET"]),
            Route("/v1/files/{id}", guarded(files.delete), methods=["DELETE"]),
            Route("/v1/files/{id}/content", guarded(files.content), methods=["GET"]),
            Route("/v1/batches", guarded(self._create), methods=["POST"]),
            Route("/v1/batches", guarded(self._list), methods=["GET"]),
            Route("/v1/batches/{id}", guarded(self._retrieve), methods=["GET"]),
            Route("/v1/batches/{id}/cancel", guarded(self._cancel), methods=["POST"]),
        ]

    async def _create(self, request: Request) -> Response:
        try:
            form = msgspec.json.decode(await read(request, 100_000), type=_Create)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise refuse("bad_field", str(error)) from None
        file = self.files.get(form.input_file_id)
        for old in [one for one in self._found.values() if one.ended]:
            if len(self._found) >= MAX_STORED or time.time() - old.times["created_at"] > KEPT:
                del self._found[old.id]
        if len(self._found) >= MAX_STORED:
            raise refuse("too_many_batches", f"{MAX_STORED} are under way", grpc.StatusCode.RESOURCE_EXHAUSTED)
        batch = _Batch(form)
        self._found[batch.id] = batch
        batch.task = asyncio.create_task(self._life(batch, file.path))
        return JSONResponse(batch.as_json())

    async def _list(self, request: Request) -> Response:
        limit, after = request.query_params.get("limit", "20"), request.query_params.get("after")
        if not (limit.isdecimal() and 1 <= int(limit[:9]) <= 100):
            raise refuse("bad_field", "limit: 1 to 100")
        newest = list(reversed(self._found))
        start = newest.index(self._get(after).id) + 1 if after else 0
        page = newest[start : start + int(limit)]
        more = start + len(page) < len(newest)
        data = [self._found[name].as_json() for name in page]
        ends = {"first_id": page[0] if page else None, "last_id": page[-1] if page else None}
        return JSONResponse({"object": "list", "data": data, **ends, "has_more": more})

    async def _retrieve(self, request: Request) -> Response:
        return JSONResponse(self._get(request.path_params["id"]).as_json())

    async def _cancel(self, request: Request) -> Response:
        batch = self._get(request.path_params["id"])
        if batch.ended:
            raise refuse("batch_ended", f"the batch is {batch.status} already")
        if batch.status != "cancelling" and batch.task:
            batch.becomes("cancelling")
            batch.task.cancel()
        return JSONResponse(batch.as_json())

    def _get(self, name: str) -> _Batch:
        if name not in self._found:
            raise refuse("batch_not_found", "no such batch; a restart forgets them", grpc.StatusCode.NOT_FOUND)
        return self._found[name]

    async def _life(self, batch: _Batch, path: Path) -> None:
        IN_BATCH.set(True)
        status = "failed"
        try:
            async with asyncio.timeout(_WINDOW), self._running:
                batch.left, batch.errors = await asyncio.to_thread(_lines, path, batch.form.endpoint)
                if not batch.errors:
                    batch.counts["total"] = len(batch.left)
                    batch.becomes("in_progress")
                    with path.open("rb") as source:
                        await self._work(batch, source)
                    status = "completed"
        except TimeoutError:
            status = "expired"
        except asyncio.CancelledError:
            if batch.status != "cancelling":  # the process ends
                raise
            status = "cancelled"
        except Exception as error:
            cause = error.exceptions[0] if isinstance(error, ExceptionGroup) else error
            failure = msgspec.json.decode(failure_response(cause if isinstance(cause, Exception) else error).body)[
                "error"
            ]
            batch.errors = [_error(failure["code"], failure["message"], None)]
        if status in ("expired", "cancelled"):
            self._abandon(batch, f"batch_{status}")
        batch.left = {}
        batch.becomes(status)

    async def _work(self, batch: _Batch, source: IO[bytes]) -> None:
        """Answers all lines."""
        for kind in ("output", "error"):
            batch.results[kind] = self.files.create(f"{batch.id}_{kind}.jsonl", "batch_output")
        workers = min(_MOST_WORKERS, max(1, await patiently(self._width, Patience(PATIENCE))))
        todo = iter(list(batch.left.items()))
        async with asyncio.TaskGroup() as group:
            for _ in range(workers):
                group.create_task(self._worker(batch, source, todo))

    async def _worker(self, batch: _Batch, source: IO[bytes], todo: Iterator[tuple[str, int]]) -> None:
        for custom_id, offset in todo:
            source.seek(offset)
            line = msgspec.json.decode(source.readline(), type=_Line)
            status, body = 200, b""
            try:
                answer = partial(self._answer, line.url, bytes(line.body))
                body = msgspec.json.encode(await patiently(answer, Patience(PATIENCE)))
            except Exception as error:
                failure = failure_response(error)
                status, body = failure.status_code, bytes(failure.body)
            response = {"status_code": status, "request_id": uuid.uuid4().hex, "body": msgspec.Raw(body)}
            self._write(batch, "output" if status == 200 else "error", {custom_id: response})

    def _write(self, batch: _Batch, kind: str, responses: dict[str, Any], error: Any = None) -> None:
        lines = []
        for custom_id, response in responses.items():
            name = f"batch_req_{uuid.uuid4().hex}"
            result = {"id": name, "custom_id": custom_id, "response": response, "error": error}
            lines.append(msgspec.json.encode(result) + b"\n")
        data = b"".join(lines)
        self.files.make_room(len(data))
        file = batch.results[kind]
        with file.path.open("ab") as target:
            target.write(data)
        file.size += len(data)
        for custom_id in responses:
            del batch.left[custom_id]
        batch.counts["completed" if kind == "output" else "failed"] += len(responses)

    def _abandon(self, batch: _Batch, reason: str) -> None:
        """Says of each line without an answer why it has none."""
        error = {"code": reason, "message": "the batch ended before this request was answered"}
        try:
            if "error" in batch.results:
                self._write(batch, "error", dict.fromkeys(batch.left), error)
        except (CallError, OSError) as failure:
            log.warning("the error file of %s is not whole: %s", batch.id, failure)


def _lines(path: Path, endpoint: str) -> tuple[dict[str, int], list[dict[str, Any]]]:
    """Returns where the line of each custom_id begins, and what is wrong with the file."""
    offsets: dict[str, int] = {}
    errors: list[dict[str, Any]] = []
    offset = 0
    with path.open("rb") as source:
        for number, text in enumerate(source, 1):
            if text.strip() and (problem := _problem(text, endpoint, offsets, offset)):
                errors.append(_error(*problem, number))
                if len(errors) == _MOST_ERRORS or len(offsets) == MAX_LINES:
                    break
            offset += len(text)
    if not offsets and not errors:
        errors.append(_error("empty_file", "the input file has no requests", None))
    return offsets, errors


def _problem(text: bytes, endpoint: str, offsets: dict[str, int], offset: int) -> tuple[str, str] | None:
    """Returns what is wrong with a line, or notes where it begins."""
    if len(offsets) == MAX_LINES:
        return "too_many_requests", f"a batch has at most {MAX_LINES:,} requests"
    try:
        line = msgspec.json.decode(text, type=_Line)
    except (msgspec.ValidationError, RecursionError) as error:
        return "invalid_request", f"this line is not a valid batch request: {error}"
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return "invalid_json_line", f"this line is not JSON: {error}"
    if line.custom_id in offsets:
        return "duplicate_custom_id", "the custom_id of this line is another line's too"
    if line.method != "POST" or line.url != endpoint:
        return "mismatched_endpoint", f"this line is not for POST {endpoint}, which the batch names"
    if not line.custom_id or len(line.custom_id) > 512:
        return "invalid_custom_id", "a custom_id has 1 to 512 characters"
    offsets[line.custom_id] = offset
    return None


def _error(code: str, message: str, line: int | None) -> dict[str, Any]:
    return {"code": code, "line": line, "message": message, "param": None}
