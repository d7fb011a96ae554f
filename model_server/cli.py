"""The command `model-server`."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from lyncean.cli import Command, root
from lyncean.cli.options import FILE, PORT, POSITIVE_SECONDS, FiniteRange, bundled, metrics_option, server_options
from lyncean.rpc import Credentials, ServerConfig, Tls
from lyncean.rpc.security import read_token
from model_server.demo import CHECKPOINT, NAME
from model_server.fronts import DEFAULT, front_named

if TYPE_CHECKING:
    from model_server.backend import Backend
    from model_server.metrics import Metrics
    from model_server.serve import Make

Fields = TypeVar("Fields")
_front_option = click.option(
    "--front", default=DEFAULT, show_default=True, help="Protocol before the model server, of an installed package."
)
_http_option = bundled(
    "front_at",
    lambda http_port, front: None if http_port is None else (front, http_port),
    click.option("--http-port", type=PORT, help="Serve an OpenAI-compatible HTTP API on this port too; default: none."),
    _front_option,
)


def server_command(make: Make) -> click.Command:
    """Returns the command line of a server for one backend: the options that every server has."""

    @click.command(cls=Command, context_settings={"help_option_names": ["-h", "--help"]})
    @server_options(50051)
    @metrics_option
    @_http_option
    def serve_model(config: ServerConfig, metrics_port: int | None, front_at: tuple[str, int] | None) -> None:
        """Serves the model over gRPC."""
        from model_server.serve import run

        run(make, config, metrics_port, front_at)

    return serve_model


@root(
    {
        "serve": ("model_server.cli:serve_command", "Serve one model until SIGTERM, then drain."),
        "http": ("model_server.cli:http_command", "Serve an OpenAI-compatible HTTP API before a model server."),
    },
    one_thread=False,
)
def main() -> None:
    """Serve a model over lyncean.model.v1."""


@click.command("serve", cls=Command)
@click.option(
    "--backend",
    type=click.Choice(["transformers", "openai", "litellm", "demo"]),
    default="demo",
    show_default=True,
    help="What runs the model.",
)
@click.option(
    "--model",
    default="",
    help="Folder, hub id or demo, the bundled small model (transformers), model name (openai), PROVIDER/NAME "
    "(litellm), hash or constant:TEXT (demo).",
)
@click.option("--name", default="", help="Model name in results; default: the model's own.")
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
@click.option("--adapter", default="", help="Folder or hub id of a PEFT adapter (LoRA) that was trained on the model.")
@click.option("--chat-template", type=FILE, help="Chat template (Jinja) to use instead of the model's.")
@click.option("--trust-remote-code", is_flag=True, help="Run the checkpoint's own code.")
@click.option(
    "--processor",
    metavar="NAME=VALUE,...",
    default="",
    callback=lambda context, parameter, value: _named_values(value),
    help="Settings of the image processor instead of the checkpoint's, for example max_pixels=1003520.",
)
@click.option(
    "--quantize",
    type=click.Choice(["bitsandbytes-8bit", "bitsandbytes-4bit", "fp8"]),
    help="Quantize the weights while they load; AWQ, GPTQ and other quantized checkpoints need no option.",
)
@click.option("--max-batch", default=8, show_default=True, type=click.IntRange(1), help="Maximum batch size.")
@click.option(
    "--batch-wait-ms",
    type=FiniteRange(0, 60_000),
    default=5.0,
    show_default=True,
    help="Longest wait of a request for others to share its batch.",
)
@click.option(
    "--max-queue", default=256, show_default=True, type=click.IntRange(1), help="Maximum number of queued requests."
)
@click.option("--deterministic", is_flag=True, help="Run one request at a time, for identical results in any dtype.")
@click.option(
    "--default-max-tokens",
    default=512,
    show_default=True,
    type=click.IntRange(1),
    help="Output limit of a request without one.",
)
@click.option(
    "--image-cache-mb", default=512, show_default=True, type=click.IntRange(0), help="Cache of vision features in MiB."
)
@click.option(
    "--held-media-mb",
    type=click.IntRange(0),
    help="MB of images and clips held for requests that send their hashes alone; 0 for none; default: 256 MiB, less "
    "where memory is small.",
)
@click.option(
    "--max-image-pixels",
    default=100_000_000,
    show_default=True,
    type=click.IntRange(1, 178_956_970),  # pillow reads no larger ones
    help="Reject larger images.",
)
@click.option("--base-url", help="Endpoint (openai), for example http://host:8000/v1; else $OPENAI_BASE_URL.")
@click.option(
    "--image-output",
    type=click.Choice(["images", "chat", "responses"]),
    help="API by which the endpoint draws images (openai): its images API, images in chat replies, or the tool of its "
    "responses API.",
)
@click.option(
    "--api",
    type=click.Choice(["chat", "responses"]),
    default="chat",
    show_default=True,
    help="API by which the endpoint answers (openai).",
)
@click.option(
    "--leave-out",
    metavar="NAME,...",
    default="",
    callback=lambda context, parameter, value: _settings_of(value),
    help="Settings that the endpoint's model does not take: temperature, top_p, seed, stop (openai, litellm).",
)
@click.option("--audio-input", is_flag=True, help="The endpoint's model takes audio, as WAV or MP3 (openai).")
@click.option("--video-input", is_flag=True, help="It takes videos, as vLLM and SGLang do (openai).")
@click.option("--api-key-file", "key_file", type=FILE, help="File with the endpoint's key; else $OPENAI_API_KEY.")
@click.option(
    "--max-concurrency",
    default=32,
    show_default=True,
    type=click.IntRange(1),
    help="Maximum concurrent requests (openai).",
)
@click.option(
    "--timeout",
    type=POSITIVE_SECONDS,
    default=300.0,
    show_default=True,
    help="Seconds for one request to the endpoint (openai).",
)
@metrics_option
@_http_option
@server_options(50051)
def serve_command(
    backend: str,
    metrics_port: int | None,
    front_at: tuple[str, int] | None,
    config: ServerConfig,
    **options: Any,
) -> None:
    """Serve one model. The port is bound at once; health reports SERVING once the model is loaded."""
    from model_server.serve import run

    if backend != "demo" and not options["model"]:
        raise click.UsageError(f"--backend {backend} needs --model")
    build = {"demo": _demo, "openai": _openai, "litellm": _litellm, "transformers": _transformers}[backend]
    held = options.pop("held_media_mb")

    def make(metrics: Metrics) -> Backend:
        backend_ = build(metrics, options)
        if held is not None:
            backend_.max_held_bytes = held * 1_000_000
        return backend_

    run(make, config, metrics_port, front_at)


@click.command("http", cls=Command)
@click.option("--endpoint", required=True, help="HOST:PORT of the model server (gRPC).")
@click.option("--endpoint-tls-ca", type=FILE, help="Connect to it over TLS; CA certificates to trust (PEM).")
@click.option("--endpoint-token-file", type=FILE, help="Bearer token to send to it (else $LYNCEAN_TOKEN).")
@click.option(
    "--timeout", type=POSITIVE_SECONDS, default=600.0, show_default=True, help="Seconds for one call of the server."
)
@_front_option
@server_options(8000, grpc=False)
def http_command(
    endpoint: str,
    front: str,
    endpoint_tls_ca: Path | None,
    endpoint_token_file: Path | None,
    timeout: float,
    config: ServerConfig,
) -> None:
    """Serve /v1/chat/completions and /v1/models before any ModelService."""
    credentials = Credentials(Tls(ca=endpoint_tls_ca) if endpoint_tls_ca else None, read_token(endpoint_token_file))
    front_named(front).run(endpoint, config, credentials, timeout)


def _demo(metrics: Metrics, options: dict[str, Any]) -> Backend:
    from model_server.demo.hash_model import HashModel
    from model_server.kit.backend import KitBackend

    model = HashModel(options["model"])
    model.name = options["name"] or model.name
    return KitBackend(model, metrics)


def _openai(metrics: Metrics, options: dict[str, Any]) -> Backend:
    from model_server.backend import LoadError

    try:
        from model_server.openai_api.backend import OpenAIBackend
        from model_server.openai_api.client import Settings
    except ModuleNotFoundError as error:
        raise LoadError(f"{error.name} is not installed: pip install 'lyncean[openai]'") from error
    return OpenAIBackend(_settings(Settings, options), metrics)


def _litellm(metrics: Metrics, options: dict[str, Any]) -> Backend:
    from model_server.backend import LoadError

    try:
        from model_server.openai_api.client import Settings
        from model_server.openai_api.other_vendors import LiteLLMBackend

        return LiteLLMBackend(_settings(Settings, options), metrics)
    except ModuleNotFoundError as error:
        raise LoadError(f"{error.name} is not installed: pip install 'lyncean[litellm]'") from error


def _transformers(metrics: Metrics, options: dict[str, Any]) -> Backend:
    from model_server.backend import LoadError
    from model_server.hf.settings import Settings

    bundled = options["model"] == "demo"
    if bundled:
        options |= {"model": str(CHECKPOINT), "name": options["name"] or NAME}
    if options["deterministic"]:
        options["max_batch"] = 1
    options["batch_wait"] = options["batch_wait_ms"] / 1000
    options["image_cache_bytes"] = options["image_cache_mb"] * 1_000_000
    settings = _settings(Settings, options)
    settings.check()
    try:
        from model_server.hf.backend import HfBackend
    except ModuleNotFoundError as error:
        without = "; --model demo:hash does without" if bundled else ""
        raise LoadError(f"{error.name} is not installed: pip install 'lyncean[transformers]'{without}") from error
    return HfBackend(settings, metrics)


_LEFT_OUT = ("temperature", "top_p", "seed", "stop")


def _settings_of(text: str) -> tuple[str, ...]:
    """Reads NAME,... of settings that requests may be without."""
    names = tuple(filter(None, map(str.strip, text.split(","))))
    if unknown := [name for name in names if name not in _LEFT_OUT]:
        raise click.BadParameter(f"{unknown[0]!r} is none of {', '.join(_LEFT_OUT)}")
    return names


def _named_values(text: str) -> dict[str, Any]:
    """Reads NAME=VALUE,...; a value is JSON where it can be, else a word."""
    values: dict[str, Any] = {}
    for item in filter(None, text.split(",")):
        name, separator, value = item.partition("=")
        if not (name and separator and value):
            raise click.BadParameter(f"{item!r} is not NAME=VALUE")
        try:
            values[name] = json.loads(value)
        except ValueError:
            values[name] = value
    return values


def _settings(kind: type[Fields], options: dict[str, Any]) -> Fields:
    """Builds a dataclass of settings from the options that are named like its fields."""
    names = {field.name for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: value for name, value in options.items() if name in names})
