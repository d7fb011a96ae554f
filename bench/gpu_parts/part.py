"""Common code of the parts of `make gpu`: the machine, the rows of results, and loaded backends."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from bench_generate import requests

from lyncean.model.v1 import model_pb2 as model
from model_server.backend import Call
from model_server.hf.backend import HfBackend
from model_server.hf.settings import Settings
from model_server.metrics import Metrics


class Passed(Exception):
    """Raised when a part cannot run here; the text is the reason."""


@dataclass(frozen=True)
class Row:
    """A line of the results; one that is not good ends the command with 1."""

    what: str
    value: str
    good: bool = True


@dataclass(frozen=True)
class Machine:
    """The machine and the sizes of the measurement.

    Attributes:
        folder: Folder with the checkpoints `llava` and `hybrid`.
        toy: True for sizes that a CPU can run.
        model: Hub model of the benchmark.
        width: Width of the checkpoints.
        layers: Number of layers of the checkpoints.
    """

    folder: Path
    toy: bool
    model: str
    width: int
    layers: int

    @property
    def dtype(self) -> str:
        """Number format in which speed is measured."""
        return "float32" if self.toy else "bfloat16"

    def questions(self, count: int, tokens: int) -> list[model.GenerateRequest]:
        """Returns questions about different images; fewer and with shorter answers at toy size."""
        return requests(min(count, 4) if self.toy else count, min(tokens, 4) if self.toy else tokens)


@dataclass(frozen=True)
class Loaded:
    """A loaded checkpoint; all requests run in one event loop.

    Attributes:
        backend: The backend.
        metrics: Its counters.
        run: Runs a coroutine.
    """

    backend: HfBackend
    metrics: Metrics
    run: Callable[[Coroutine[Any, Any, Any]], Any]

    def answers(self, sent: Sequence[model.GenerateRequest]) -> list[model.GenerateResponse]:
        """Sends requests concurrently."""

        async def all_of_them() -> list[model.GenerateResponse]:
            return await asyncio.gather(*(self.backend.generate(request, Call()) for request in sent))

        replies: list[model.GenerateResponse] = self.run(all_of_them())
        return replies


@contextlib.contextmanager
def loaded(folder: Path, **settings: Any) -> Iterator[Loaded]:
    """Loads a checkpoint and releases it at the end."""
    metrics = Metrics()
    backend = HfBackend(Settings(model=str(folder), **settings), metrics)
    backend.load()
    with asyncio.Runner() as runner:
        try:
            yield Loaded(backend, metrics, runner.run)
        finally:
            runner.run(backend.close())
    del backend._loaded
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def seconds(run: Any) -> float:
    """Returns the time of a call, the GPU's work included."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    start = time.perf_counter()
    run()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - start
