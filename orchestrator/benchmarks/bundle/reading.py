"""Finds a task's data in a bundle, every byte of it checked."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from orchestrator.data.rows import DataError

BUNDLE = "bundle.json"
FORMAT = 1


class BundleError(DataError):
    """A bundle that cannot be made or used. A user's mistake: exit 2."""


def resolve(data: str, task: str) -> str:
    """Returns where the data of a task is: inside `data` where that is a bundle, else `data` itself.

    Raises:
        BundleError: The bundle does not hold the task, or a file is missing, changed or added.
    """
    folder = Path(data).expanduser()
    if not (folder / BUNDLE).is_file():
        return data
    listed = _read(folder / BUNDLE)
    slot = listed["tasks"].get(task)
    if slot is None:
        raise BundleError(
            f"{folder} holds {', '.join(listed['tasks'])} and not {task}: fetch it with "
            f"`orchestrator fetch --task {task} --to DIR`"
        )
    held = listed["data"][slot]
    check(folder / slot, held["files"])
    return str(folder / slot / held["entry"])


def check(folder: Path, files: dict[str, str]) -> None:
    """Holds a folder against the sha256 of its files.

    Raises:
        BundleError: A file is missing, changed or added; the message names it.
    """
    present = dict(listing(folder))
    for name, wanted in files.items():
        if name not in present:
            raise BundleError(f"{folder / name} is missing: it is in {BUNDLE}; fetch the bundle again")
        found = sha256(present[name])
        if found != wanted:
            raise BundleError(
                f"{folder / name} is not what was fetched: sha256 {found[:16]}..., {BUNDLE} has {wanted[:16]}...; "
                "fetch the bundle again"
            )
    for name in present.keys() - files.keys():
        raise BundleError(f"{folder / name} is not in {BUNDLE}: take it out, or fetch the bundle again")


def listing(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yields the name, relative to the folder, and the path of every file in it."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield path.relative_to(folder).as_posix(), path


def sha256(path: Path) -> str:
    """Returns the sha256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read(file: Path) -> dict[str, Any]:
    try:
        listed: dict[str, Any] = orjson.loads(file.read_bytes())
        known = listed["format"] == FORMAT and all(
            slot in listed["data"] and {"entry", "files"} <= listed["data"][slot].keys()
            for slot in listed["tasks"].values()
        )
    except (OSError, orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise BundleError(f"{file} cannot be read as a bundle ({error}): fetch it again") from error
    if not known:
        raise BundleError(f"{file} is of format {listed['format']!r}, known here is {FORMAT}: fetch it again")
    return listed
