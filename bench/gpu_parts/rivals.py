"""Throughput beside `transformers serve` and vLLM, where they are installed: the same questions, greedy, together."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

import httpx

from gpu_parts.part import Machine, Row, loaded
from lyncean.model.v1 import model_pb2 as model

_SERVE = "import lyncean.transformers_import\nfrom transformers.cli.transformers import main\nmain()"
_STARTS_WITHIN = 600.0
_ENDS_WITHIN = 60.0
"""Seconds that a server has after SIGTERM; then it and what it started are killed."""


def measure(machine: Machine) -> list[Row]:
    """Times all servers in turn; one that is not installed has a sentence in place of its rate."""
    sent, folder = machine.questions(128, 64), machine.folder / "llava"
    with loaded(folder, max_batch=32, dtype=machine.dtype) as server:
        server.answers(sent[:2])
        start = time.perf_counter()
        replies = server.answers(sent)
        rows = [_rate("model-server", sum(reply.usage.output_tokens for reply in replies), time.perf_counter() - start)]
    serving = all(map(find_spec, ("typer", "fastapi", "uvicorn")))
    if serving and not machine.toy:
        command = [
            sys.executable,
            "-c",
            _SERVE,
            "serve",
            str(folder),
            "--continuous-batching",
            "--dtype",
            machine.dtype,
        ]
        rows.append(_of_endpoint("transformers serve", command, folder, sent))
    else:
        why = "toy size leaves it out" if serving else "pip install 'transformers[serving]'"
        rows.append(Row("transformers serve", f"not measured: {why}"))
    if shutil.which("vllm") and not machine.toy:
        command = ["vllm", "serve", str(folder), "--generation-config", "vllm", "--dtype", machine.dtype]
        rows.append(_of_endpoint("vLLM", command, folder, sent))
    else:
        why = "toy size leaves it out" if shutil.which("vllm") else "the command vllm is not installed"
        rows.append(Row("vLLM", f"not measured: {why}"))
    return rows


def _rate(name: str, tokens: int, seconds: float) -> Row:
    return Row(name, f"{tokens / seconds:,.0f} tokens/s, {tokens} in {seconds:.1f} s")


def _of_endpoint(name: str, command: list[str], folder: Path, sent: Sequence[model.GenerateRequest]) -> Row:
    try:
        with _served(command) as url:
            asyncio.run(_asked(url, str(folder), sent[:2]))
            start = time.perf_counter()
            tokens = asyncio.run(_asked(url, str(folder), sent))
            return _rate(name, tokens, time.perf_counter() - start)
    except (httpx.HTTPError, OSError, TimeoutError) as error:
        return Row(name, f"not measured: {' '.join(str(error).split())[:200]}")


@contextlib.contextmanager
def _served(command: list[str]) -> Iterator[str]:
    """Starts an OpenAI-compatible server and waits until it answers.

    Raises:
        TimeoutError: It ended, or does not answer in time.
    """
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--port", str(port)],
            env=os.environ | {"HF_HUB_OFFLINE": "1"},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            until = time.monotonic() + _STARTS_WITHIN
            while not _answers(url):
                if process.poll() is not None or time.monotonic() > until:
                    log.seek(0)
                    raise TimeoutError(f"it does not answer: {(log.read().strip().splitlines() or ['no log'])[-1]}")
                time.sleep(0.5)
            yield url
        finally:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_ENDS_WITHIN)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _answers(url: str) -> bool:
    with contextlib.suppress(httpx.HTTPError):
        return httpx.get(f"{url}/health", timeout=2).is_success
    return False


async def _asked(url: str, name: str, sent: Sequence[model.GenerateRequest]) -> int:
    """Sends requests together; returns the tokens of the answers."""
    async with httpx.AsyncClient(base_url=url, timeout=600) as client:

        async def one(request: model.GenerateRequest) -> int:
            image, text = request.messages[0].parts
            data = "data:image/jpeg;base64," + base64.b64encode(image.image.data).decode()
            content = [{"type": "image_url", "image_url": {"url": data}}, {"type": "text", "text": text.text}]
            body = {
                "model": name,
                "messages": [{"role": "user", "content": content}],
                "max_tokens": request.config.max_output_tokens,
                "temperature": 0,
            }
            reply = await client.post("/v1/chat/completions", json=body)
            reply.raise_for_status()
            return int(reply.json()["usage"]["completion_tokens"])

        return sum(await asyncio.gather(*map(one, sent)))
