"""Reading the logs of a run folder: line by line, their heads alone, or the lines at some offsets."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from lyncean.arrays import NDArray, np
from lyncean.vocabulary.outcomes import Outcome
from orchestrator.run_folder.errors import RunLogError
from orchestrator.run_folder.files import LABELS
from orchestrator.run_folder.lines import DamagedLine, Head, decode, heads_of

T = TypeVar("T")
_READ = 1 << 20
_MOST_NAMED = 500
"""Damaged lines that an error names at most."""


def scan(path: Path, kind: type[T]) -> Iterator[tuple[int, T]]:
    """Yields the offset of each complete line of a log, and the line as a type of `lines`.

    A file that is missing has no line, and a torn last line is passed over.

    Raises:
        RunLogError: If a line is damaged.
    """
    if not path.exists():
        return
    offset = 0
    with path.open("rb") as file:
        for text in file:
            if not text.endswith(b"\n"):
                return
            try:
                line = decode(text, kind)
            except DamagedLine as error:
                raise damaged(path, offset, error) from error
            yield offset, line
            offset += len(text)


class Heads(NamedTuple):
    """Heads of some lines that follow each other in a log.

    Attributes:
        offsets: First byte of each line: shape [lines].
        keys: Their keys in UTF-8.
        outcomes: Their outcomes.
        lines: The lines, without their newlines.
    """

    offsets: NDArray[np.int64]
    keys: list[bytes]
    outcomes: list[Outcome | None]
    lines: Sequence[bytes]


def heads(path: Path) -> Iterator[Heads]:
    """Yields the heads of a log's whole lines, some thousands at a time and sooner than `scan`.

    Raises:
        RunLogError: If a line is damaged.
    """
    if not path.exists():
        return
    with path.open("rb", buffering=0) as file:
        start, rest = 0, b""
        while chunk := file.read(_READ):
            data = rest + chunk
            end = data.rfind(b"\n") + 1
            data, rest = data[:end], data[end:]
            if not end:
                continue
            lines = data.split(b"\n")
            del lines[-1]
            ends = start + np.cumsum([len(line) + 1 for line in lines])
            offsets = np.append(start, ends[:-1])
            try:
                keys, outcomes = heads_of(lines)
            except DamagedLine:
                _name_damaged(path, lines, offsets)
                raise
            yield Heads(offsets, keys, outcomes, lines)
            start += end


def _name_damaged(path: Path, lines: Iterable[bytes], offsets: Iterable[int]) -> None:
    for line, offset in zip(lines, offsets, strict=True):
        try:
            decode(line, Head)
        except DamagedLine as error:
            raise damaged(path, int(offset), error) from error


def lines_at(path: Path, offsets: Iterable[int], kind: type[T]) -> Iterator[T]:
    """Yields the lines of a log that begin at some offsets, as a type of `lines`.

    Raises:
        RunLogError: If a line is damaged.
    """
    try:
        file = path.open("rb")
    except OSError as error:
        raise RunLogError(f"{path} cannot be read ({error.strerror}): restore it, or run the command again") from error
    with file:
        for offset in offsets:
            file.seek(int(offset))
            try:
                yield decode(file.readline(), kind)
            except DamagedLine as error:
                raise damaged(path, int(offset), error) from error


def damaged(path: Path, offset: int, error: Exception) -> RunLogError:
    """Returns the one-line error for a damaged line, with the numbers of all others of its log."""
    number, more = 1, list[int]()
    with path.open("rb") as file:
        while offset and (data := file.read(min(offset, _READ))):
            number += data.count(b"\n")
            offset -= len(data)
        for other, line in enumerate(file, number):
            if other > number and line.endswith(b"\n") and not _is_whole(line):
                more.append(other)
    fix = "and run the command that made the run again: what it held is asked or scored anew"
    if path.name == LABELS:
        fix = "and give that label again"
    if not more:
        return RunLogError(f"{path}, line {number}: damaged ({error}); delete the line {fix}")
    return RunLogError(
        f"{path}, line {number}: damaged ({error}), as are {len(more):,} lines after it; "
        f"delete the lines (sed -i '{';'.join(_ranges([number, *more][:_MOST_NAMED]))}' {shlex.quote(str(path))}) {fix}"
    )


def _is_whole(line: bytes) -> bool:
    try:
        decode(line, Head)
    except DamagedLine:
        return False
    return True


def _ranges(numbers: Sequence[int]) -> Iterator[str]:
    """Yields sed's commands that delete lines of these numbers, in order."""
    for _, group in itertools.groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        run = [number for _, number in group]
        yield f"{run[0]}d" if len(run) == 1 else f"{run[0]},{run[-1]}d"
