"""Tests a batch that does not fit into memory: all requests are answered, and the next batch is not split."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator
from typing import Any

import torch
from prometheus_client import generate_latest

from gpu_parts.part import Machine, Row, loaded


def measure(machine: Machine) -> list[Row]:
    """Compares answers in too little memory, and after it, with answers in enough memory."""
    sent = machine.questions(32, 64)
    with loaded(machine.folder / "llava", dtype="float32", max_batch=len(sent), batch_wait=0.2) as server:
        backend = server.backend
        backend._batcher.budget.limit = float("inf")  # the measured limit would prevent a batch that is too large
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()
        wanted = _texts(server.answers(sent))
        with _little(backend._loaded.checkpoint, len(sent)):
            short = _texts(server.answers(sent))
        limit, splits = backend._batcher.budget.limit, _splits(server.metrics)
        after = _texts(server.answers(sent))
    same = [sum(one == other for one, other in zip(wanted, texts, strict=True)) for texts in (short, after)]
    every = len(sent)
    enough = 0.9 * every  # batches of another size round otherwise, and a near tie may go the other way
    return [
        Row("batches that were split for want of memory", f"{splits:.0f}", splits > 0),
        Row("limit of a batch behind it", f"{limit:,.0f} tokens"),
        Row("answers in little memory as in enough", f"{same[0]} of {every}", same[0] >= enough),
        Row("answers after it as before", f"{same[1]} of {every}", same[1] >= enough),
    ]


def _texts(replies: Any) -> list[str]:
    return ["".join(part.text for part in reply.parts) for reply in replies]


def _splits(metrics: Any) -> float:
    lines = generate_latest(metrics.registry).decode().splitlines()
    return next(float(line.split()[-1]) for line in lines if line.startswith("lyncean_batch_splits_total"))


@contextlib.contextmanager
def _little(checkpoint: Any, rows: int) -> Iterator[None]:
    """Leaves memory for a part of the rows; on a CPU the model raises the error instead of the device."""
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
        peak, held = torch.cuda.max_memory_allocated(), torch.cuda.memory_allocated()
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, (held + (peak - held) / 2) / total))
        try:
            yield
        finally:
            torch.cuda.set_per_process_memory_fraction(1.0)
        return
    net, forward = checkpoint.model, checkpoint.model.forward

    def small(*args: Any, **kwargs: Any) -> Any:
        if kwargs["input_ids"].shape[0] > max(1, rows // 2):
            raise torch.OutOfMemoryError("no memory is left for so many rows")
        return forward(*args, **kwargs)

    small.__signature__ = inspect.signature(forward)  # type: ignore[attr-defined]
    net.forward = small
    try:
        yield
    finally:
        del net.forward
