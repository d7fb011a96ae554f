"""Samples a second of Generate, by batch size, on the LLaVA of `bench_likelihood`.

`python bench/bench_generate.py` sends questions about different images to the backend, as many
at a time as a batch holds, and checks that every batch size gives the same texts (float32).
"""

# ruff: noqa: E402  (the path comes before the imports that need it)
from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parents[1])]

import torch
from bench_likelihood import build, picture

from lyncean.model.v1 import model_pb2 as model
from model_server.backend import Call
from model_server.hf.backend import HfBackend
from model_server.hf.sampling import sample
from model_server.hf.settings import Settings
from model_server.metrics import Metrics


def requests(count: int, tokens: int) -> list[model.GenerateRequest]:
    """Questions of slightly different lengths, each about an image of its own."""
    made = []
    for number in range(count):
        message = model.Message(role=model.ROLE_USER)
        message.parts.add(image=model.Image(data=picture(number)))
        message.parts.add(text=f"Question {number}: what is in the image{' and where' * (number % 3)}? Answer:")
        made.append(model.GenerateRequest(messages=[message], config=model.GenerationConfig(max_output_tokens=tokens)))
    return made


async def measure(folder: Path, batch: int, sent: list[model.GenerateRequest], dtype: str) -> tuple[float, list[str]]:
    """Returns samples a second and the texts."""
    backend = HfBackend(Settings(model=str(folder), max_batch=batch, dtype=dtype, batch_wait=0.05), Metrics())
    backend.load()
    gate = asyncio.Semaphore(2 * batch)

    async def one(request: model.GenerateRequest) -> Any:
        async with gate:
            return await backend.generate(request, Call())

    await one(sent[0])
    start = time.perf_counter()
    replies = await asyncio.gather(*[one(request) for request in sent])
    spent = time.perf_counter() - start
    await backend.close()
    return len(sent) / spent, ["".join(part.text for part in reply.parts) for reply in replies]


def drawing(size: int, rows: int, **config: float) -> float:
    """Returns the processor time of one drawn token, in milliseconds, for a vocabulary of this size."""
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
    parser.add_argument("--samples", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--json", type=Path, help="Write the figures here as well.")
    options = parser.parse_args()
    sent = requests(options.samples, options.tokens)
    figures = []
    with tempfile.TemporaryDirectory() as folder:
        build(Path(folder), options.width, options.layers)
        first: list[str] = []
        for batch in options.batches:
            rate, texts = asyncio.run(measure(Path(folder), batch, sent, options.dtype))
            first = first or texts
            same = sum(one == other for one, other in zip(first, texts, strict=True))
            peak = torch.cuda.max_memory_allocated() / 1e9 if torch.cuda.is_available() else 0.0
            figures.append({"batch": batch, "samples_per_second": rate, "same_texts": same, "gpu_gb": peak})
            print(
                f"batch {batch:<3} {rate:7.2f} samples/s   {same} of {len(sent)} texts as at batch {options.batches[0]}"
            )
    for config in ({"temperature": 1.0}, {"temperature": 0.7, "top_p": 0.8, "top_k": 20}):
        spent = drawing(152_064, 8, **config)
        figures.append({"vocabulary": 152_064, **config, "milliseconds_per_drawn_token": spent})
        print(f"a token drawn from 152,064 with {config}: {spent:.2f} ms")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
