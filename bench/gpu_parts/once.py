"""Measures inputs that are read once: the prompt of several outputs, and an image with several questions."""

from __future__ import annotations

from typing import Any

from gpu_parts.part import Loaded, Machine, Row, loaded, seconds
from lyncean.model.v1 import model_pb2 as model
from model_server.backend import Call

_SAMPLES, _QUESTIONS = 8, 32


def measure(machine: Machine) -> list[Row]:
    """Compares outputs of one prompt with single requests, and cached images with images encoded again."""
    rows: list[Row] = []
    (sent,) = machine.questions(1, 32)[:1]
    seeds = [_seeded(sent, seed) for seed in range(2 if machine.toy else _SAMPLES)]
    with loaded(machine.folder / "llava", max_batch=len(seeds), image_cache_bytes=0, dtype=machine.dtype) as server:
        alone = _best(lambda: server.answers(seeds))
        together = _best(lambda: _samples(server, seeds))
    rows.append(Row(f"{len(seeds)} outputs of a prompt, read for each", f"{1000 * alone:.1f} ms"))
    rows.append(Row(f"{len(seeds)} outputs of a prompt, read once", f"{1000 * together:.1f} ms"))
    questions = [_about(sent, number) for number in range(2 if machine.toy else _QUESTIONS)]
    for size, label in ((0, "encoded for each"), (1 << 30, "encoded once, by its hash")):
        with loaded(machine.folder / "llava", max_batch=8, image_cache_bytes=size, dtype=machine.dtype) as server:
            spent = _best(lambda server=server: server.answers(questions))
        rows.append(Row(f"{len(questions)} questions about one image, {label}", f"{1000 * spent:.1f} ms"))
    return rows


def _best(run: Any) -> float:
    return min(seconds(run) for _ in range(3))


def _seeded(request: model.GenerateRequest, seed: int) -> model.GenerateRequest:
    copied = model.GenerateRequest()
    copied.CopyFrom(request)
    copied.config.temperature, copied.config.seed = 1.0, seed
    return copied


def _about(request: model.GenerateRequest, number: int) -> model.GenerateRequest:
    copied = model.GenerateRequest()
    copied.CopyFrom(request)
    copied.messages[0].parts[-1].text = f"Question {number}: what is in the image? Answer:"
    copied.config.max_output_tokens = 1
    return copied


def _samples(server: Loaded, seeds: list[model.GenerateRequest]) -> None:
    for output in server.run(server.backend.generate_samples(seeds, Call())):
        if isinstance(output, BaseException):
            raise output
