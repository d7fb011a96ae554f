"""Runs of a model whose answers an output limit cuts."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, NamedTuple

from helpers.model_serving import serve
from model_server.kit import Model, Output, Request
from model_server.kit.backend import KitBackend
from model_server.metrics import Metrics
from orchestrator.api import evaluate

TASK = """data: rows.csv
id: id
question: question
options: [A, B]
answer: answer
decoding: {max_output_tokens: 200}
"""
ROWS, CUT = 40, 14
KEYS = {f"rows/{row}" for row in range(CUT)}


class Long(Model):
    """Thinks in so many words as the row asks for, then answers rightly: 14 of 40 rows pass 20 words."""

    name = "long"
    answer_choices = reasoning = True
    limit = 0

    def generate(self, request: Request) -> str | Output:
        row = int(request.text.split()[1])
        letter = "AB"[row % 2]
        if request.config.response_format.choices.texts:
            return letter
        if self.limit:  # the server's own, of which a request knows nothing
            request.config.max_output_tokens = self.limit
        reasoning = " ".join(["hmm"] * (30 if row < CUT else 5))
        aloud = f"The answer is {letter}."
        return Output(aloud, reasoning=reasoning) if row % 3 == 0 else f"{reasoning}\n{aloud}"


class Runs(NamedTuple):
    """A run without a limit that is reached, one with a limit, and one of a server with a limit of its own."""

    whole: Path
    cut: Path
    server: Path
    held: Path


def make(folder: Path, scorer: str) -> Runs:
    """Makes the runs in a folder, with the scorer at an address."""
    lines = [f"{row},row {row} ?,cat,dog,{'AB'[row % 2]}" for row in range(ROWS)]
    (folder / "rows.csv").write_text("\n".join(["id,question,A,B,answer", *lines]))
    (folder / "rows.yaml").write_text(TASK)

    async def evaluated() -> Runs:
        async def run(name: str, **more: Any) -> Path:
            options = {"endpoint": f"127.0.0.1:{server.port}", "scorer": scorer, "run": folder / name}
            await asyncio.to_thread(lambda: evaluate(str(folder / "rows.yaml"), **options, **more))
            return folder / name

        model = Long()
        async with serve(KitBackend(model, Metrics())) as server:
            whole, cut = await run("whole"), await run("cut", generation="max_output_tokens=20")
            held = await run("held", answer="constrained", generation="max_output_tokens=1")
            model.limit = 20
            return Runs(whole, cut, await run("server"), held)

    return asyncio.run(evaluated())
