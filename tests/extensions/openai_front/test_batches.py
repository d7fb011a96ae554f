"""The Batch API of the front: the official client and our scorer, over real HTTP, before a real gRPC server."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import Denied, InternalFailure, Overloaded, ServerConfig
from model_server.backend import Backend, Call, describe

uvicorn = pytest.importorskip("uvicorn")
openai = pytest.importorskip("openai")
pytest.importorskip("python_multipart")

from helpers.http_front import front  # noqa: E402

from lyncean_openai_front import batches, files  # noqa: E402

CHAT = "/v1/chat/completions"


class Judge(Backend):
    """Says that all is correct; refuses, is full or fails once, or holds a question back, as its text asks."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.open = asyncio.Event()
        self.open.set()
        self.inside: list[str] = []
        self.most = 0

    def info(self) -> model.GetModelInfoResponse:
        names = [model.CAPABILITY_GENERATE, model.CAPABILITY_SEED, model.CAPABILITY_ANSWER_JSON_SCHEMA]
        names += [model.CAPABILITY_RAW_PROMPT]
        return describe(dict.fromkeys(names, True), model_name="m", max_concurrency=4)

    async def generate(self, request: model.GenerateRequest, call: Call) -> model.GenerateResponse:
        text = request.raw_prompt.text or request.messages[-1].parts[0].text
        self.seen.append(text)
        if text == "refused":
            raise Denied("content_policy", "no")
        if text == "full once" and self.seen.count(text) == 1:
            raise Overloaded("queue_full", "later", retry_after=0.01)
        if text == "fails once" and self.seen.count(text) == 1:
            raise InternalFailure("internal_error", "a defect")
        self.inside.append(text)
        self.most = max(self.most, sum(not other.startswith("live") for other in self.inside))
        try:
            if not text.startswith("live"):
                await self.open.wait()
        finally:
            self.inside.remove(text)
        response = model.GenerateResponse(effective_config=request.config)
        response.finish_reason = model.FINISH_REASON_END_OF_SEQUENCE
        response.parts.add(text=json.dumps({"explanation": text[-9:], "correct": True}))
        response.usage.MergeFrom(model.Usage(input_tokens=7, output_tokens=3))
        return response


def client(port: int, key: str = "x") -> Any:
    return openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key=key, max_retries=0)


def body(text: str, **more: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": text}], **more}


def line(custom_id: str, request: dict[str, Any], url: str = CHAT) -> str:
    return json.dumps({"custom_id": custom_id, "method": "POST", "url": url, "body": request}) + "\n"


async def begun(caller: Any, text: str, endpoint: str = CHAT) -> Any:
    file = await caller.files.create(file=("questions.jsonl", text.encode()), purpose="batch")
    return await caller.batches.create(
        input_file_id=file.id, endpoint=endpoint, completion_window="24h", metadata={"by": "test"}
    )


async def until(caller: Any, batch: Any) -> Any:
    while batch.status in ("validating", "in_progress", "finalizing", "cancelling"):
        await asyncio.sleep(0.01)
        batch = await caller.batches.retrieve(batch.id)
    return batch


async def results(caller: Any, name: str | None) -> dict[str, Any]:
    text = (await caller.files.content(name)).text if name else ""
    entries = [json.loads(entry_line) for entry_line in text.splitlines()]
    assert len({entry["custom_id"] for entry in entries}) == len(entries)
    return {entry["custom_id"]: entry for entry in entries}


async def test_lines_are_answered_as_live_requests_are(served: Any) -> None:
    async with served(Judge()) as server, front(server.channel) as port, client(port) as caller:
        bodies = {
            "one": body("one"),
            "full": body("full once"),
            "fails": body("fails once"),
            "three": body("three", n=3),
        }
        wrong = {
            "refused": body("refused"),
            "other": body("?", model="other"),
            "tools": body("?", tools=[1]),
            "stream": body("?", stream=True),
        }
        lines = [line(name, request) for name, request in (bodies | wrong).items()]
        batch = await until(caller, await begun(caller, "\n".join(lines)))  # empty lines are none
        assert (batch.status, batch.metadata, batch.errors) == ("completed", {"by": "test"}, None)
        counts = batch.request_counts
        assert (counts.total, counts.completed, counts.failed) == (8, 4, 4)
        answers = await results(caller, batch.output_file_id)
        assert answers.keys() == bodies.keys()
        for name, request in bodies.items():
            live = (await caller.chat.completions.create(**request)).model_dump(mode="json", exclude_unset=True)
            response = answers[name]["response"]
            assert (response["status_code"], answers[name]["error"]) == (200, None)
            assert response["body"] | {"id": 0, "created": 0} == live | {"id": 0, "created": 0}
        errors = await results(caller, batch.error_file_id)
        codes = {
            name: (error["response"]["status_code"], error["response"]["body"]["error"]["code"])
            for name, error in errors.items()
        }
        assert codes == {
            "refused": (400, "content_policy"),
            "other": (404, "model_not_found"),
            "tools": (400, "bad_field"),
            "stream": (400, "bad_field"),
        }

        raw = line("raw", {"model": "m", "prompt": "one"}, "/v1/completions")
        second = await until(caller, await begun(caller, raw, "/v1/completions"))
        reply = (await results(caller, second.output_file_id))["raw"]["response"]["body"]
        assert (reply["object"], json.loads(reply["choices"][0]["text"])["correct"]) == ("text_completion", True)
        assert second.error_file_id is None
        assert [listed.id async for listed in caller.batches.list(limit=1)] == [second.id, batch.id]  # two pages
        file = await caller.files.retrieve(second.input_file_id)
        assert (file.filename, file.purpose, file.bytes) == ("questions.jsonl", "batch", len(raw))
        assert (await caller.files.delete(file.id)).deleted
        for gone in (caller.files.retrieve(file.id), caller.files.content(file.id), caller.batches.retrieve("batch_0")):
            with pytest.raises(openai.NotFoundError):
                await gone


async def test_a_file_that_is_wrong_fails_with_its_lines(served: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "MAX_LINES", 6)
    backend = Judge()
    good = [line(str(number), body("?")) for number in range(7)]
    bad = [good[0], good[1][:30] + "\n", good[0], line("c", body("?"), "/v1/completions"), "[]\n", line("", body("?"))]
    async with served(backend) as server, front(server.channel) as port, client(port) as caller:
        for text, expected in (
            (
                "".join(bad),
                [
                    ("invalid_json_line", 2),
                    ("duplicate_custom_id", 3),
                    ("mismatched_endpoint", 4),
                    ("invalid_request", 5),
                    ("invalid_custom_id", 6),
                ],
            ),
            ("\n", [("empty_file", None)]),
            ("\n" * 6 + "".join(good), [("too_many_requests", 13)]),
        ):
            batch = await until(caller, await begun(caller, text))
            assert batch.status == "failed"
            assert [(error.code, error.line) for error in batch.errors.data] == expected
    assert not backend.seen


async def test_live_requests_pass_a_batch_which_can_be_cancelled_or_expire(
    served: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = Judge()
    async with served(backend) as server, front(server.channel) as port, client(port) as caller:
        backend.open.clear()
        batch = await begun(caller, "".join(line(str(number), body(f"slow {number}")) for number in range(9)))
        while len(backend.inside) < 2:
            await asyncio.sleep(0.01)
        backend.open.set()
        batch = await until(caller, batch)
        assert (batch.status, batch.request_counts.completed, backend.most) == ("completed", 9, 2)  # of four

        backend.open.clear()
        batch = await begun(caller, "".join(line(str(number), body(f"held {number}")) for number in range(9)))
        while len(backend.inside) < 2:
            await asyncio.sleep(0.01)
        live = await asyncio.gather(*(caller.chat.completions.create(**body(f"live {number}")) for number in range(12)))
        assert len(live) == 12
        assert sorted(backend.inside) == ["held 0", "held 1"]
        with pytest.raises(openai.BadRequestError, match="has not ended"):
            await caller.files.delete(batch.input_file_id)
        assert (await caller.batches.cancel(batch.id)).status == "cancelling"
        batch = await until(caller, batch)
        assert (batch.status, batch.output_file_id) == ("cancelled", None)
        errors = await results(caller, batch.error_file_id)
        assert [error["error"]["code"] for error in errors.values()] == ["batch_cancelled"] * 9
        with pytest.raises(openai.BadRequestError, match="cancelled already"):
            await caller.batches.cancel(batch.id)
        monkeypatch.setattr(batches, "_WINDOW", 0)
        batch = await until(caller, await begun(caller, line("late", body("late"))))
        assert (batch.status, batch.output_file_id) == ("expired", None)
        while backend.inside:  # its calls are cancelled at the model server
            await asyncio.sleep(0.01)


async def test_what_is_asked_in_vain(served: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    config = ServerConfig(grace=1, token="sesame")
    async with served(Judge()) as server, front(server.channel, config) as port:
        async with client(port, "wrong") as caller:
            for call in (
                caller.files.create(file=("a", b"{}"), purpose="batch"),
                caller.files.content("file-0"),
                caller.batches.list(),
            ):
                with pytest.raises(openai.AuthenticationError):
                    await call
        keys = {"authorization": "Bearer sesame"}
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}/v1", headers=keys) as http:

            async def post(path: str, **more: Any) -> int:
                reply = await http.post(path, **more)
                assert "error" in reply.json() or reply.status_code == 200
                return reply.status_code

            form: dict[str, Any] = {"data": {"purpose": "batch"}, "files": {"file": ("../../a", b"{}")}}
            uploaded = (await http.post("/files", **form)).json()
            assert (await http.get(f"/files/{uploaded['id']}/content")).content == b"{}"
            assert (await http.get("/files/..%2F..%2Fetc%2Fpasswd/content")).status_code == 404
            assert await post("/files", data={"purpose": "fine-tune"}, files=form["files"]) == 400
            assert await post("/files", data={"purpose": "batch"}) == 400
            assert await post("/files", content=b"x", headers={"content-type": "multipart/form-data"}) == 400
            assert await post("/files", data=form["data"] | {"expires_after[seconds]": "9"}, files=form["files"]) == 422
            fields = {"input_file_id": uploaded["id"], "endpoint": CHAT, "completion_window": "24h"}
            for change in ({"endpoint": "/v1/embeddings"}, {"completion_window": "1h"}, {"more": 1}):
                assert await post("/batches", json=fields | change) == 400, change
            assert await post("/batches", json=fields | {"input_file_id": "file-0"}) == 404
            assert (await http.get("/batches", params={"limit": "0"})).status_code == 400
            monkeypatch.setattr(files, "MAX_STORED_BYTES", 3)
            assert await post("/files", **form) == 429
            monkeypatch.setattr(files, "SPARED", -1)  # as if it were long ago: the oldest makes room
            assert await post("/files", **form) == 200
            assert (await http.get(f"/files/{uploaded['id']}")).status_code == 404
            monkeypatch.setattr(files, "MAX_FILE_BYTES", -10_000)
            assert await post("/files", **form) == 413


@pytest.mark.full
async def test_our_scorer_judges_by_batches_killed_and_after_a_restart_of_the_front(
    served: Any, tmp_path: Path
) -> None:
    lines = [{"key": str(n), "rule": "judge_answer", "text": f"blue {n}", "targets": ["blue"]} for n in range(6)]
    (tmp_path / "items.jsonl").write_text("".join(json.dumps(item) + "\n" for item in lines))
    cache = tmp_path / "judge.sqlite"

    async def start(port: int) -> asyncio.subprocess.Process:
        judge = f"batch:m@http://127.0.0.1:{port}/v1"
        args = ("score", str(tmp_path / "items.jsonl"), "--judge", judge, "--judge-cache", str(cache))
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "scorer", *args, "--judge-poll", "0.05"), stdout=asyncio.subprocess.PIPE
        )

    async def killed(port: int, when: Callable[[], bool]) -> None:
        process = await start(port)
        while not when():
            assert process.returncode is None
            await asyncio.sleep(0.02)
        process.kill()
        await process.wait()

    async def outcomes(port: int) -> list[tuple[str, str]]:
        written, _ = await (await start(port)).communicate()
        verdicts = [json.loads(line) for line in written.splitlines()]
        return [(verdict["outcome"], verdict.get("reason", "")) for verdict in verdicts]

    def under_way() -> bool:
        if not cache.exists():
            return False
        with closing(sqlite3.connect(cache)) as database:
            known = database.execute("SELECT 1 FROM sqlite_master WHERE name = 'batches'").fetchone()
            return bool(known and database.execute("SELECT count(*) FROM batches").fetchone()[0] == 6)

    backend = Judge()
    async with served(backend) as server:
        backend.open.clear()
        async with front(server.channel) as port:
            await killed(port, under_way)
        # This front is another one: it knows the batch no more.
        async with front(server.channel, port=port) as port:
            assert await outcomes(port) == [("unjudged", "judge_batch_failed")] * 6
            await killed(port, under_way)
            backend.open.set()
            assert [outcome for outcome, _ in await outcomes(port)] == ["scored"] * 6
            async with client(port) as caller:
                (only,) = [batch async for batch in caller.batches.list()]  # found again, not sent again
            assert only.request_counts.completed == 6
