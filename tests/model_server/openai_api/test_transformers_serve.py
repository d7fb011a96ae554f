"""`transformers serve`, an endpoint that nobody here wrote: behind the proxy it answers as the checkpoint itself."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openai")
pytest.importorskip("transformers", reason="transformers[serving] is not installed")
pytest.importorskip("typer", reason="transformers[serving] is not installed")
pytest.importorskip("fastapi", reason="transformers[serving] is not installed")
pytest.importorskip("uvicorn", reason="transformers[serving] is not installed")

from lyncean.model.v1 import model_pb2 as model
from model_server.demo import CHECKPOINT
from model_server.metrics import Metrics
from model_server.openai_api.backend import OpenAIBackend
from model_server.openai_api.client import Settings

_RUN = "import lyncean.transformers_import\nfrom transformers.cli.transformers import main\nmain()"


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """The address of a server of the bundled checkpoint; it lists what its cache holds, which is another model."""
    other = tmp_path / "hub/models--owner--other"
    for file, text in (("refs/main", "abc"), ("snapshots/abc/config.json", '{"architectures": ["LlamaForCausalLM"]}')):
        (other / file).parent.mkdir(parents=True)
        (other / file).write_text(text)
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    command = [sys.executable, "-c", _RUN, "serve", str(CHECKPOINT), "--host", "127.0.0.1", "--port", str(port)]
    log = (tmp_path / "log").open("w")
    process = subprocess.Popen(
        [*command, "--device", "cpu"], env=os.environ | {"HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"}, stderr=log
    )
    try:
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        process.wait(30)


async def test_its_answers_are_those_of_the_checkpoint(
    url: str, served: Any, hf: Any, ask: Any, caplog: pytest.LogCaptureFixture
) -> None:
    # Of text alone: with images it needs a torchvision that decodes them, which the wheel beside a CPU torch does not.
    questions = [
        model.GenerateRequest(messages=[ask(text)], config=model.GenerationConfig(max_output_tokens=12))
        for text in ("What color is the object?", "Which option is correct? (A) red (B) blue", "Why?")
    ]
    proxied = OpenAIBackend(Settings(model=str(CHECKPOINT), base_url=url, patience=100.0), Metrics())
    async with served(proxied) as proxy, served(hf("", model=str(CHECKPOINT))) as direct:
        assert "only owner/other; it is used by that name" in caplog.text
        for question in questions:
            wanted, got = [await server.send(question) for server in (direct, proxy)]
            assert got.parts == wanted.parts
            assert got.parts[0].text
            assert got.usage.input_tokens == wanted.usage.input_tokens
