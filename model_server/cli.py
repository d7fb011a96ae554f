"""The command `model-server`."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from lyncean.cli import Command, root
from lyncean.cli.options import POSITIVE_SECONDS, FiniteRange, server_options
from lyncean.rpc import BindError, SecurityError, ServerConfig
from model_server.backend import Backend, LoadError
from model_server.demo import CHECKPOINT, NAME
from model_server.metrics import Metrics
from model_server.serve import serve

Make = Callable[[Metrics], Backend]
_FAREWELL = 2.0
"""Seconds that what still runs after the drain is given."""

metrics_option = click.option(
    "--metrics-port", type=click.IntRange(0, 65535), help="Port for Prometheus metrics; none without it."
)
"""The option of every server that counts."""


def run(make: Make, config: ServerConfig, metrics_port: int | None) -> None:
    """Serves until a signal; a mistake of the caller's ends in one line and exit code 2."""
    logging.basicConfig(level=logging.INFO, format="model-server: %(message)s", stream=sys.stderr)
    metrics = Metrics()
    try:
        if metrics_port is not None:
            _listen(metrics, config.host, metrics_port)
        asyncio.run(serve(make(metrics), config, metrics=metrics))
        _leave_soon()
    except (LoadError, BindError, SecurityError) as error:
        _fail(str(error))


def _leave_soon() -> None:
    """Ends the process although a model's own code goes on for a call that was given up: threads are waited for."""
    timer = threading.Timer(_FAREWELL, os._exit, (0,))
    timer.daemon = True
    timer.start()


def _listen(metrics: Metrics, host: str, port: int) -> None:
    try:
        metrics.listen(host, port)
    except OSError as error:
        raise BindError(f"cannot listen on metrics port {host}:{port}: {error.strerror}") from error


def _fail(message: str) -> None:
    click.echo(f"Error: {' '.join(message.split())}", err=True)
    sys.exit(2)


@root({"serve": ("model_server.cli:serve_command", "Serve one model until SIGTERM, then drain.")})
def main() -> None:
    """Serve a model behind lyncean.model.v1."""


@click.command("serve", cls=Command)
@click.option(
    "--backend",
    type=click.Choice(["transformers", "openai", "demo"]),
    default="demo",
    show_default=True,
    help="What runs the model.",
)
@click.option(
    "--model",
    "model_id",
    default="",
    help="Folder, hub id or demo, the small model that comes along (transformers), model name (openai), hash or "
    "constant:TEXT (demo).",
)
@click.option("--name", default="", help="Name to file results under; default the model's own.")
@click.option("--device", default="auto", show_default=True, help="cpu, cuda, cuda:1, or auto (all GPUs, else CPU).")
@click.option(
    "--dtype", default="auto", show_default=True, help="float32, bfloat16, float16, or auto (the checkpoint's)."
)
@click.option(
    "--attention",
    default="auto",
    show_default=True,
    help="Attention implementation of the library; auto is sdpa where the model has it, else eager.",
)
@click.option("--revision", help="Commit, branch or tag of a hub id.")
@click.option("--chat-template", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Template to use.")
@click.option("--trust-remote-code", is_flag=True, help="Run code that comes with the checkpoint.")
@click.option("--max-batch", default=8, show_default=True, type=click.IntRange(1), help="Most requests run together.")
@click.option(
    "--batch-wait-ms",
    type=FiniteRange(0, 60_000),
    default=5.0,
    show_default=True,
    help="How long a request waits for company.",
)
@click.option("--max-queue", default=256, show_default=True, type=click.IntRange(1), help="Most requests waiting.")
@click.option("--deterministic", is_flag=True, help="One request at a time: the same numbers in any dtype.")
@click.option(
    "--default-max-tokens", default=512, show_default=True, type=click.IntRange(1), help="Where none is asked."
)
@click.option("--image-cache-mb", default=512, show_default=True, type=click.IntRange(0), help="Vision features kept.")
@click.option(
    "--max-image-pixels",
    default=100_000_000,
    show_default=True,
    type=click.IntRange(1, 178_956_970),  # pillow reads no larger ones
    help="Larger is refused.",
)
@click.option("--base-url", help="Endpoint (openai), for example http://host:8000/v1; else $OPENAI_BASE_URL.")
@click.option(
    "--api-key-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File with the endpoint's key; else $OPENAI_API_KEY.",
)
@click.option(
    "--max-concurrency", default=32, show_default=True, type=click.IntRange(1), help="Calls at a time (openai)."
)
@click.option(
    "--timeout",
    type=POSITIVE_SECONDS,
    default=300.0,
    show_default=True,
    help="Seconds for one request to the endpoint (openai).",
)
@metrics_option
@server_options(50051)
def serve_command(
    backend: str,
    model_id: str,
    name: str,
    device: str,
    dtype: str,
    attention: str,
    revision: str | None,
    chat_template: Path | None,
    trust_remote_code: bool,
    max_batch: int,
    batch_wait_ms: float,
    max_queue: int,
    deterministic: bool,
    default_max_tokens: int,
    image_cache_mb: int,
    max_image_pixels: int,
    base_url: str | None,
    api_key_file: Path | None,
    max_concurrency: int,
    timeout: float,
    metrics_port: int | None,
    config: ServerConfig,
) -> None:
    """Serve one model. The port is bound at once; health turns SERVING once the model is loaded."""

    def make(metrics: Metrics) -> Backend:
        if backend == "demo":
            from model_server.demo.hash_model import Unseeing
            from model_server.kit.backend import KitBackend

            unseeing = Unseeing(model_id)
            unseeing.name = name or unseeing.name
            return KitBackend(unseeing, metrics)
        if not model_id:
            raise click.UsageError(f"--backend {backend} needs --model")
        if backend == "openai":
            return _openai(
                metrics,
                model=model_id,
                name=name,
                base_url=base_url,
                key_file=api_key_file,
                timeout=timeout,
                max_concurrency=max_concurrency,
                max_queue=max_queue,
            )
        from model_server.hf.settings import Settings

        shipped = model_id == "demo"
        settings = Settings(
            model=str(CHECKPOINT) if shipped else model_id,
            name=name or (NAME if shipped else ""),
            device=device,
            dtype=dtype,
            attention=attention,
            revision=revision,
            chat_template=chat_template,
            trust_remote_code=trust_remote_code,
            max_batch=1 if deterministic else max_batch,
            batch_wait=batch_wait_ms / 1000,
            max_queue=max_queue,
            default_max_tokens=default_max_tokens,
            image_cache_bytes=image_cache_mb * 1_000_000,
            max_image_pixels=max_image_pixels,
        )
        settings.check()
        try:
            from model_server.hf.backend import HfBackend
        except ModuleNotFoundError as error:
            without = "; --model demo:hash does without" if shipped else ""
            raise LoadError(f"{error.name} is not installed: pip install 'lyncean[transformers]'{without}") from error
        return HfBackend(settings, metrics)

    run(make, config, metrics_port)


def _openai(metrics: Metrics, **fields: Any) -> Backend:
    try:
        from model_server.openai_api.backend import OpenAIBackend
        from model_server.openai_api.client import Settings
    except ModuleNotFoundError as error:
        raise LoadError(f"{error.name} is not installed: pip install 'lyncean[openai]'") from error
    return OpenAIBackend(Settings(**fields), metrics)
