"""No wait for the disk holds the event loop, from the manifest of a new run to the results of one that is resumed."""

from __future__ import annotations

import asyncio
import os
import traceback
from pathlib import Path
from typing import Any

import pytest
from helpers.model_serving import serve

from model_server.kit import Model, Request
from model_server.kit.backend import KitBackend
from model_server.metrics import Metrics
from orchestrator.api import evaluate
from orchestrator.run_folder import durable
from orchestrator.run_folder.files import BEYOND, SHARE, VERDICTS

TASK = "data: rows.csv\nid: id\nquestion: question\noptions: [A, B]\nanswer: answer\n"
ROWS = 60


class Right(Model):
    """Answers rightly."""

    name = "right"

    def generate(self, request: Request) -> str:
        return "AB"[int(request.text.split()[1]) % 2]


@pytest.mark.parametrize("more", [{}, {"share": 0.5}, {"until": "width<=30"}])
async def test_the_event_loop_waits_for_no_fsync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: dict[str, Any]
) -> None:
    lines = [f"{row},row {row} ?,cat,dog,{'AB'[row % 2]}" for row in range(ROWS)]
    (tmp_path / "rows.csv").write_text("\n".join(["id,question,A,B,answer", *lines]))
    (tmp_path / "rows.yaml").write_text(TASK)
    synced: list[str] = []
    fsync = os.fsync

    def noted(file: int) -> None:
        stack = "".join(traceback.format_stack())
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            fsync(file)
        else:
            if "in write_report" not in stack:  # follows once nothing else is under way
                synced.append(stack)

    monkeypatch.setattr(durable.os, "fsync", noted)
    run = tmp_path / "run"
    async with serve(KitBackend(Right(), Metrics())) as server:
        for _ in range(2):
            options: dict[str, Any] = {"endpoint": f"127.0.0.1:{server.port}", "run": run, **more}
            await asyncio.to_thread(lambda options=options: evaluate(str(tmp_path / "rows.yaml"), **options))
            (run / VERDICTS).write_bytes(b"")  # scored again by the second
    assert (run / SHARE).exists() is ("share" in more)
    assert (run / BEYOND).exists() is ("until" in more)
    assert not synced, synced[0]
