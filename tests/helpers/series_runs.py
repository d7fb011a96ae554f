"""Folders of suites with checkpoints, as `orchestrator eval --suite --checkpoints` leaves them, made of nothing."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from helpers.report_runs import Writer

ITEMS = 40


def run(path: Path, skill: float, task: str, *, seed: str, question: str = "What is missing?") -> None:
    """Writes a run in which the easier items are right, and some others by chance."""
    luck, writer = random.Random(seed), Writer(path, "demo", tasks=[task])
    for number in range(ITEMS):
        right = random.Random(f"{task}{number}").random() < skill if luck.random() > 0.1 else luck.random() < skill
        target = str(random.Random(number).randint(1, 4))
        answer = target if right else str(int(target) % 4 + 1)
        writer.item(
            f"{task}/{number}", parts=[{"text": question}], answer=f"The answer is {answer}.", score=float(right),
            verdict={"extracted": answer}, targets=[target], group=str(number),
        )  # fmt: skip
    writer.close()


def series(
    folder: Path,
    skills: Sequence[float],
    *,
    tasks: Sequence[str] = ("marvel",),
    baseline: str = "previous",
    fixed: float | None = None,
    changes: Sequence[dict[str, Any]] = (),
    begun: int = 0,
    **hostile: str,
) -> Path:
    """Writes a suite's folder with a checkpoint each hundred steps.

    Args:
        folder: The folder.
        skills: Share of the items that each checkpoint has right.
        tasks: Tasks of the suite.
        baseline: What its gate compares with.
        fixed: Skill of the model that `baseline` names, None for none.
        changes: What leaderboard.json says of the checkpoints; without any there is none.
        begun: How many of the last checkpoints have not run.
        hostile: Texts of the runs, such as their question.
    """
    folder.mkdir(parents=True, exist_ok=True)
    cells: list[dict[str, Any]] = []
    for task in tasks:
        if fixed is not None:
            run(folder / f"{baseline}-{task}", fixed, task, seed="fixed")
            cells.append({"name": f"{baseline}-{task}", "model": baseline, "variant": "", "tasks": [task]})
    for number, skill in enumerate(skills, 1):
        model = f"step_{100 * number}"
        for task in tasks:
            done = number <= len(skills) - begun
            if done:
                run(folder / f"{model}-{task}", skill, task, seed=f"{number}{task}", **hostile)
            cells.append({
                "name": f"{model}-{task}", "model": model, "variant": "", "tasks": [task],
                "exit_code": 0 if done else None, "step": 100 * number, "checkpoint": f"/ckpt/{model}",
                "fingerprint": "ab" * 32,
            })  # fmt: skip
    record = {"suite": folder.name, "baseline": baseline, "gate": "change.low>=-5%", "cells": cells}
    (folder / "suite.json").write_bytes(orjson.dumps(record))
    if changes:
        leaderboard = {"gate": {"unjudged": ["step_900 is not complete: it is not judged"]}, "changes": changes}
        (folder / "leaderboard.json").write_bytes(orjson.dumps(leaderboard))
    return folder


def change(number: int, difference: float, *, why: str = "", noise: float | None = None) -> dict[str, Any]:
    """Returns what leaderboard.json says of a checkpoint and the one before; a reason makes it an alarm."""
    return {
        "model": f"step_{100 * number}", "variant": "", "baseline": f"step_{100 * (number - 1)}", "items": ITEMS,
        "difference": difference, "low": difference - 0.2, "high": difference + 0.2, "alarm": bool(why), "why": why,
        "detectable": 0.3, "noise": noise, "is_noise": False,
    }  # fmt: skip
