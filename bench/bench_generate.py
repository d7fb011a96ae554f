"""Measures samples per second of Generate, by batch size, on the LLaVA of `bench_likelihood`.

`python bench/bench_generate.py` sends questions about different images to the backend, as many
at a time as a batch holds, and checks that every batch size gives the same texts (float32). The batch sizes take
turns; ratios are medians over the rounds, of processor time on a CPU. `--static --mixed` compares batches that rows
join and leave with batches that end with their last row.
"""

# ruff: noqa: E402  (the path comes before the imports that need it)
from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parents[1])]

import torch
from bench_likelihood import build, picture

from lyncean.model.v1 import model_pb2 as model
from model_server.backend import Call
from model_server.hf.backend import HfBackend
from model_server.hf.rows import RowDecoder
from model_server.hf.sampling import sample
from model_server.hf.settings import Settings
from model_server.metrics import Metrics

_PATCHES = {64: 42, 256: 21, 576: 14}
"""Number of image tokens -> side of the patches."""


def requests(count: int, tokens: int) -> list[model.GenerateRequest]:
    """Returns questions of slightly different lengths, each about a different image."""
    sent = []
    for number in range(count):
        message = model.Message(role=model.ROLE_USER)
        message.parts.add(image=model.Image(data=picture(number)))
        message.parts.add(text=f"Question {number}: what is in the image{' and where' * (number % 3)}? Answer:")
        sent.append(model.GenerateRequest(messages=[message], config=model.GenerationConfig(max_output_tokens=tokens)))
    return sent


class Way:
    """A backend with its measured times.

    Args:
        name: Printed name.
        folder: The checkpoint.
        batch: Most rows of a batch.
        dtype: The number format.
        static: True runs the library's loop, whose batches end with their last row.
    """

    def __init__(self, name: str, folder: Path, batch: int, dtype: str, *, static: bool = False) -> None:
        self.name = name
        self.batch = batch
        settings = Settings(model=str(folder), max_batch=batch, dtype=dtype, batch_wait=0.05)
        self.backend = HfBackend(settings, Metrics())
        self.backend.load()
        if static:
            loaded = self.backend._loaded
            loaded.verdict = dataclasses.replace(loaded.verdict, continuous=False)
        self.seconds: list[float] = []
        self.texts: list[str] = []

    async def run(self, sent: Sequence[model.GenerateRequest]) -> None:
        """Sends the requests, twice as many at a time as a batch has rows; records time and texts."""
        gate = asyncio.Semaphore(2 * self.batch)

        async def one(request: model.GenerateRequest) -> Any:
            async with gate:
                return await self.backend.generate(request, Call())

        start = time.perf_counter() if torch.cuda.is_available() else time.process_time()
        replies = await asyncio.gather(*[one(request) for request in sent])
        now = time.perf_counter() if torch.cuda.is_available() else time.process_time()
        self.seconds.append(now - start)
        self.texts = ["".join(part.text for part in reply.parts) for reply in replies]


async def compare(ways: Sequence[Way], sent: Sequence[model.GenerateRequest], rounds: int) -> None:
    """Runs the ways in turn."""
    for number in range(-1, rounds):
        for way in ways:
            await way.run(sent[: way.batch] if number < 0 else sent)
            if number < 0:
                way.seconds.clear()


def mixed(sent: Sequence[model.GenerateRequest], longest: int) -> list[int]:
    """Draws for each request the length at which its output ends, like a model's end token: most short, some long."""
    lengths = torch.exp(3 + torch.randn(len(sent), generator=torch.Generator().manual_seed(5)))
    drawn = [min(longest, max(1, round(float(length)))) for length in lengths]
    for request, length in zip(sent, drawn, strict=True):
        request.config.max_output_tokens = longest
        request.config.seed = length
    return drawn


def end_as_drawn() -> None:
    """Makes outputs end at the lengths from `mixed`; call it after the self-check at load."""
    RowDecoder._stopped = lambda self, row: len(row.ids) >= row.config.seed  # type: ignore[method-assign]
    RowDecoder._finish = _finish  # type: ignore[method-assign]


def _finish(self: RowDecoder, row: Any, reason: Any) -> None:
    row.finish, row.text = reason, " ".join(map(str, row.ids))
    row.end()


def drawing(size: int, rows: int, **config: float) -> float:
    """Returns the processor time of sampling one token, in milliseconds, for a vocabulary of this size."""
    logits = 3 * torch.randn((rows, size), generator=torch.Generator().manual_seed(0))
    configs = [model.GenerationConfig(**config)] * rows
    generators = [torch.Generator().manual_seed(row) for row in range(rows)]
    times = []
    for _ in range(10):
        start = time.process_time()
        sample(logits, configs, generators)
        times.append(time.process_time() - start)
    return 1e3 * min(times) / rows


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--image-tokens", type=int, choices=_PATCHES, nargs="+", default=[576])
    parser.add_argument("--samples", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=32, help="Tokens of an output; with --mixed the most.")
    parser.add_argument("--mixed", action="store_true", help="Outputs of different lengths, most of them short.")
    parser.add_argument("--static", action="store_true", help="Measure batches that end with their last row as well.")
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--hybrid", action="store_true", help="Recurrent layers beside those of attention.")
    parser.add_argument("--json", type=Path, help="Write the figures here as well.")
    options = parser.parse_args()
    sent = requests(options.samples, options.tokens)
    if options.mixed:
        lengths = mixed(sent, options.tokens)
        print(f"{sum(lengths)} tokens, {sum(lengths) / len(lengths):.1f} a request, {max(lengths)} the longest")
    figures: list[dict[str, Any]] = []
    if options.mixed and len(options.image_tokens) > 1:
        parser.error("--mixed takes one number of --image-tokens")
    for tokens in options.image_tokens:
        with tempfile.TemporaryDirectory() as folder:
            build(Path(folder), options.width, options.layers, options.hybrid, patch=_PATCHES[tokens])
            ways = [Way(f"batch {size}", Path(folder), size, options.dtype) for size in options.batches]
            if options.static:
                ways += [
                    Way(f"batch {size}, static", Path(folder), size, options.dtype, static=True)
                    for size in options.batches
                    if size > 1
                ]
            if options.mixed:
                end_as_drawn()
            asyncio.run(compare(ways, sent, options.rounds))
        for way in ways:
            rate = statistics.median(len(sent) / spent for spent in way.seconds)
            ratio = statistics.median(one / spent for one, spent in zip(ways[0].seconds, way.seconds, strict=True))
            same = sum(one == other for one, other in zip(ways[0].texts, way.texts, strict=True))
            peak = torch.cuda.max_memory_allocated() / 1e9 if torch.cuda.is_available() else 0.0
            figures.append({"image_tokens": tokens, "way": way.name, "samples_per_second": rate, "ratio": ratio})
            figures[-1] |= {"same_texts": same, "gpu_gb": peak}
            print(
                f"{tokens} image tokens, {way.name:<18} {rate:7.2f} samples/s, {ratio:.2f} times {ways[0].name}   "
                f"{same} of {len(sent)} texts as there",
                flush=True,
            )
    if not options.mixed:
        for config in ({"temperature": 1.0}, {"temperature": 0.7, "top_p": 0.8, "top_k": 20}):
            spent = drawing(152_064, 8, **config)
            figures.append({"vocabulary": 152_064, **config, "milliseconds_per_drawn_token": spent})
            print(f"a token drawn from 152,064 with {config}: {spent:.2f} ms")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
