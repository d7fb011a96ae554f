"""What a folder of runs holds, followed as it grows."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import orjson

from orchestrator.report.figures import figures, overall
from orchestrator.report.run import OUTCOMES, Run, read_json

_DEPTH = 3
_STALE_SECONDS = 120


class Tail:
    """Reads the lines that were added to a growing file since it was last looked at."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset = 0
        self._inode = 0

    def lines(self) -> Iterator[Mapping[str, Any] | None]:
        """Yields the new whole lines; None first where the file was replaced or cut."""
        try:
            state = self.path.stat()
        except FileNotFoundError:
            return
        if state.st_ino != self._inode or state.st_size < self._offset:
            self._inode, self._offset = state.st_ino, 0
            yield None
        with self.path.open("rb") as file:
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._offset += len(line)
                try:
                    yield orjson.loads(line)
                except orjson.JSONDecodeError:
                    continue


class Followed:
    """One run, followed: how many calls were answered, and what became of the items."""

    def __init__(self, path: Path, name: str) -> None:
        self.path, self.name = path, name
        self._responses = Tail(path / "responses.jsonl")
        self._verdicts = Tail(path / "verdicts.jsonl")
        self._answered: set[str] = set()
        self._outcomes: dict[str, tuple[str, float]] = {}

    def state(self) -> dict[str, Any]:
        """Returns what the page shows of the run now."""
        for line in self._responses.lines():
            if line is None:
                self._answered.clear()
            elif "key" in line:
                self._answered.add(str(line["key"]))
        for line in self._verdicts.lines():
            if line is None:
                self._outcomes.clear()
            elif "key" in line:
                self._outcomes[str(line["key"])] = (str(line.get("outcome")), float(line.get("score") or 0.0))
        run = self.run()
        outcomes = [outcome for outcome, _ in self._outcomes.values()]
        scored = len(outcomes)
        return {
            "name": self.name,
            "model": run.model_name,
            "tasks": list(run.identity.get("tasks") or ()),
            "method": str(run.identity.get("method", "")),
            "blind": bool(run.identity.get("blind")),
            "created": str(run.manifest.get("created", "")),
            "state": self._word(run),
            "answered": len(self._answered),
            **_total(run.manifest),
            "counts": {name: outcomes.count(name) for name in OUTCOMES},
            "mean": sum(score for _, score in self._outcomes.values()) / scored if scored else None,
            "figures": [
                {"task": figure.task, "name": figure.name, "shown": figure.shown, "n": figure.denominator}
                for figure in overall(figures(run.tasks))
            ],
        }

    def run(self) -> Run:
        """Returns the run as it is now."""
        try:
            results = read_json(self.path / "results.json")
            manifest = read_json(self.path / "manifest.json")
        except click.UsageError:
            # Seen in the middle of being written: the next look finds it whole.
            return Run(self.path, {}, {}, self.name)
        return Run(self.path, manifest, results, self.name)

    def stamp(self) -> tuple[float, ...]:
        """Returns what changes whenever the run's page would."""
        names = ("manifest.json", "responses.jsonl", "verdicts.jsonl", "results.json")
        return tuple(path.stat().st_mtime if (path := self.path / name).exists() else 0.0 for name in names)

    def _word(self, run: Run) -> str:
        latest = max(self.stamp())
        if run.tasks and self.stamp()[3] >= self.stamp()[1]:
            return "complete"
        return "running" if time.time() - latest < _STALE_SECONDS else "stopped"


def _total(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Returns how many items there will be, None while unknown, and whether that is an estimate."""
    planned = manifest.get("planned")
    return {"total": sum(planned.values()) if planned else manifest.get("expected"), "estimated": not planned}


class Folder:
    """The runs in a folder, found anew at each look."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._known: dict[str, Followed] = {}

    def runs(self) -> dict[str, Followed]:
        """Returns the runs by their names: their places in the folder, with forward slashes."""
        found = {}
        for manifest in self._manifests():
            place = manifest.parent.relative_to(self.path).as_posix()
            name = self.path.resolve().name if place == "." else place
            found[name] = self._known.get(name) or Followed(manifest.parent, name)
        self._known = found
        return found

    def _manifests(self) -> Iterator[Path]:
        for depth in range(_DEPTH):
            yield from sorted(self.path.glob("*/" * depth + "manifest.json"))
