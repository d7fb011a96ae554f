"""Programs that code of tasks starts in a cell: Java for captions, compilers, processes that run answers."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

_SYSTEM = ("/usr", "/bin", "/etc/alternatives", "/etc/texmf", "/var/lib/texmf")
"""Folders with the system's programs and their files; no files of users."""

_WRITING = ("pycocoevalcap",)
"""Packages that write beside their own modules; a cell gets a copy of them in its folder."""

_JAVA = "-Xms32m -XX:-UsePerfData -XX:+UseSerialGC -Djava.io.tmpdir={folder}"


def readable() -> list[str]:
    """Returns the files that programs read, in addition to those of every cell."""
    java = shutil.which("java")
    home = [str(Path(java).resolve().parents[1])] if java else []
    return [*_SYSTEM, *home, *map(str, sorted(Path("/etc").glob("java*")))]


def allow_programs(folder: Path) -> None:
    """Prepares a process, before it is closed, for code that starts programs.

    Args:
        folder: Folder that it may write to.
    """
    os.environ["JDK_JAVA_OPTIONS"] = _JAVA.format(folder=folder)
    for name in _WRITING:
        spec = find_spec(name)
        for package in (spec.submodule_search_locations or ()) if spec else ():
            _copy(Path(package), folder / "packages" / name)
    sys.path.insert(0, str(folder / "packages"))
    multiprocessing.Manager = _Manager  # type: ignore[assignment]


def _copy(source: Path, target: Path) -> None:
    """Copies folders and modules of a package; links its other files, since some are large."""
    for folder, folders, files in os.walk(source):
        inner = target / Path(folder).relative_to(source)
        inner.mkdir(parents=True)
        folders[:] = [name for name in folders if name != "__pycache__"]
        for name in files:
            if name.endswith(".py"):
                shutil.copyfile(Path(folder, name), inner / name)
            else:
                (inner / name).symlink_to(Path(folder, name))


class _Manager:
    """Stands in for `multiprocessing.Manager`, whose server needs a socket; children append JSON to its lists."""

    def list(self) -> _List:
        """Returns an empty list."""
        return _List()


class _List:
    def __init__(self) -> None:
        self._from, self._to = multiprocessing.Pipe(duplex=False)
        self._values: list[Any] = []

    def append(self, value: Any) -> None:
        """Appends a value, in any process."""
        self._to.send_bytes(json.dumps(value).encode())

    def _read(self) -> list[Any]:
        while self._from.poll():
            self._values.append(json.loads(self._from.recv_bytes()))
        return self._values

    def __len__(self) -> int:
        return len(self._read())

    def __getitem__(self, index: int) -> Any:
        return self._read()[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._read())
