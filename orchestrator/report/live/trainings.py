"""The trainings of a folder, for `orchestrator view`: suites that ran with checkpoints."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote, urlencode

from orchestrator.compare.curve import Training
from orchestrator.report import series
from orchestrator.report.live.followed import DEPTH, shown_path
from orchestrator.suite import training
from orchestrator.suite.record import FILE

ADDRESS = "series/"
_PARTS = (FILE, training.LEADERBOARD)
_RESULTS = "results.json"


class Trainings:
    """The suites with checkpoints in a folder, found anew at each look."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def folders(self) -> dict[str, Path]:
        """Returns their folders by their names: their places in the folder, with forward slashes."""
        marks = (mark for level in range(DEPTH) for mark in sorted(self._path.glob("*/" * level + FILE)))
        return {self._name(mark.parent): mark.parent for mark in marks if training.is_series(mark.parent)}

    def links(self) -> list[tuple[str, str]]:
        """Returns the name and the address of each one's page, seen from the list of runs."""
        return [(name, _address([name])) for name in self.folders()]

    def read(self, names: Sequence[str]) -> list[Training]:
        """Returns trainings by their names; those that are not there are left out.

        Raises:
            ConfigError: One is damaged.
        """
        folders = self.folders()
        return [training.read(folders[name], name) for name in dict.fromkeys(names) if name in folders]

    def render(self, shown: Sequence[Training]) -> str:
        """Returns the page of trainings, with links that add one of the others or leave one out."""
        names = [one.name for one in shown]
        others = [(f"with {name}", f"/{_address([*names, name])}") for name in self.folders() if name not in names]
        if len(names) > 1:
            rest = ([other for other in names if other != name] for name in names)
            others += [(f"without {name}", f"/{_address(left)}") for name, left in zip(names, rest, strict=True)]
        return series.render(shown, self._reports(shown), names=self._runs(shown), home="/", others=others)

    def _runs(self, shown: Sequence[Training]) -> Mapping[Path, str]:
        return {source.path: self._name(source.path) for one in shown for source in one.sources}

    def _reports(self, shown: Sequence[Training]) -> Mapping[Path, str]:
        return {path: f"/runs/{quote(name)}/" for path, name in self._runs(shown).items()}

    def _name(self, path: Path) -> str:
        path_shown = shown_path(path.relative_to(self._path))
        return shown_path(self._path.resolve()).rpartition("/")[2] if path_shown == "." else path_shown

    def stamp(self, shown: Sequence[Training]) -> Hashable:
        """Returns what changes whenever the page would."""
        folders = self.folders()
        files = [folders[one.name] / part for one in shown if one.name in folders for part in _PARTS]
        files += [source.path / _RESULTS for one in shown for source in (*one.sources, *one.fixed)]
        return tuple(map(_written, files)), tuple(folders)


def _written(path: Path) -> tuple[int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size


def _address(names: Sequence[str]) -> str:
    return f"{ADDRESS}?{urlencode({'of': names}, doseq=True)}"
