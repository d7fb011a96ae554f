"""A run folder followed while it grows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from orchestrator.run_folder.files import LABELS, MANIFEST, RESPONSES, RESULTS, VERDICTS
from orchestrator.run_folder.lines import CountedLine, DamagedLine, decode


class Tail:
    """Reads the lines added to a growing log since the last call."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset = 0
        self._inode = 0

    def replaced(self) -> bool:
        """Returns whether the file is another, or shorter, than at the last call of this method."""
        try:
            state = self.path.stat()
        except FileNotFoundError:
            return False
        before, self._inode = self._inode, state.st_ino
        return before not in (0, state.st_ino) or state.st_size < self._offset

    def rewind(self) -> None:
        """Makes `lines` start at the beginning again."""
        self._offset = 0

    def lines(self) -> Iterator[CountedLine]:
        """Yields the new whole lines; a damaged one is passed over."""
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            file.seek(self._offset)
            for text in file:
                if not text.endswith(b"\n"):
                    return
                self._offset += len(text)
                try:
                    yield decode(text, CountedLine)
                except DamagedLine:
                    continue


class Tails:
    """Both logs of a run folder, followed."""

    def __init__(self, run: Path) -> None:
        self.run = run
        self.responses, self.verdicts = Tail(run / RESPONSES), Tail(run / VERDICTS)

    def replaced(self) -> bool:
        """Returns whether a log was replaced since the last call; both are then read anew."""
        tails = (self.responses, self.verdicts)
        # Both are checked: each call remembers the file.
        replaced = [tail.replaced() for tail in tails]
        if any(replaced):
            for tail in tails:
                tail.rewind()
        return any(replaced)

    def changed(self) -> tuple[float, ...]:
        """Returns the times of the last write to the files on the run's page, 0 for a missing file."""
        paths = [self.run / name for name in (MANIFEST, RESPONSES, VERDICTS, RESULTS, LABELS)]
        return tuple(path.stat().st_mtime if path.exists() else 0.0 for path in paths)
