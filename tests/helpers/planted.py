"""Differences that are planted in real runs, for `orchestrator explain`."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable
from pathlib import Path

from click.testing import CliRunner, Result
from PIL import Image

from helpers.engine_cluster import Server
from orchestrator.cli import main

ROWS = 60
BASE = {
    "data": "rows.csv", "id": "id", "image": "image", "question": "question", "options": "[A, B]",
    "answer": "answer", "metrics": "[accuracy]",
}  # fmt: skip
PROMPT = "|-\n  {question}\n  {options}\n  Answer with a letter."
Change = Callable[[Path, dict[str, str]], None]


def rows(folder: Path, *, size: int = 48, skip: int = 0, other: int = 0) -> None:
    """Writes a data set; `other` replaces one row in so many, `skip` leaves one in so many out."""
    with (folder / "rows.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["id", "image", "question", "A", "B", "answer", "group"])
        for number in range(1, ROWS + 1):
            if skip and number % skip == 0:
                continue
            changed = bool(other and number % other == 0)
            name = number + 500 * changed
            # Of the replaced rows some keep their answer.
            answer = "AB"[(number // 2 + changed * (number % 2)) % 2]
            options = [f"key {name}", f"dud {name}"] if answer == "A" else [f"dud {name}", f"key {name}"]
            question = f"Which of these opens {'chest' if changed else 'door'} number {name}?"
            table.writerow([number, f"{number}.png", question, *options, answer, number // 3])
            data = io.BytesIO()
            Image.new("RGB", (size, size), (number, 60 if changed else 0, 0)).save(data, "PNG")
            (folder / f"{number}.png").write_bytes(data.getvalue())


def setting(**values: str) -> Change:
    def change(folder: Path, keys: dict[str, str]) -> None:
        keys |= values

    return change


def data(**changes: int) -> Change:
    return lambda folder, keys: rows(folder, **changes)


def all_of(*changes: Change) -> Change:
    def change(folder: Path, keys: dict[str, str]) -> None:
        for one in changes:
            one(folder, keys)

    return change


SUFFIX = setting(prompt=f"{PROMPT} Think hard.")
STOP = setting(decoding='{max_output_tokens: 64, stop: ["\\n"]}')
PLANTED: dict[str, tuple[Change, str]] = {
    "same": (setting(), ""),
    "suffix": (SUFFIX, "prompt"),
    "around": (setting(prompt="|-\n  Think hard, {question} - and be quick.\n  {options}"), "prompt"),
    "stop": (STOP, "decoding"),
    "limit": (setting(decoding="{max_output_tokens: 3}"), "limit"),
    "small": (data(size=16), "image"),
    "replaced": (data(other=2), "data"),
    "missing": (data(skip=4), "data"),
    "rule": (setting(rule="contains_word"), "reading"),
    "groups": (setting(metrics="[{metric: group_all, name: accuracy}]"), "aggregation"),
    "both": (all_of(SUFFIX, setting(decoding="{max_output_tokens: 48}")), "prompt"),
}


def planted(path: Path, tasks: Iterable[str] = PLANTED) -> Path:
    """Writes the task files of both sides, `first` and `second`, into a folder."""
    for task in tasks:
        change, _ = PLANTED[task]
        for side in ("first", "second"):
            home = path / side / task
            home.mkdir(parents=True)
            rows(home)
            keys = BASE | {"prompt": PROMPT, "group": "group", "decoding": "{max_output_tokens: 64}"}
            if side == "second":
                change(home, keys)
            (home / f"{task}.yaml").write_text("".join(f"{key}: {value}\n" for key, value in keys.items()))
    return path


def evaluate(folder: Path, side: str, run: str, server: Server, shared_scorer: Server, *tasks: str) -> Path:
    arguments = [word for task in tasks or PLANTED for word in ("--task", str(folder / side / task / f"{task}.yaml"))]
    addresses = ["--endpoint", server.address, "--scorer", shared_scorer.address]
    CliRunner().invoke(main, ["eval", *arguments, *addresses, "--run", str(folder / run)])
    assert (folder / run / "results.json").exists()
    return folder / run


def explain(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["explain", *map(str, arguments)])
