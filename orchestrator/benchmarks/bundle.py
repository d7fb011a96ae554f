"""Bundles: a task's data in a folder of its own, with digests, for machines without a network.

`write` copies the data of tasks, from disk or from the hub; `resolve` finds it again, every byte of it checked.
"""

from __future__ import annotations

import importlib.metadata
import re
import shutil
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from orchestrator.benchmarks.base import Benchmark
from orchestrator.data import hub
from orchestrator.data.digest import sha256
from orchestrator.data.opening import open_rows
from orchestrator.data.rows import DataError
from orchestrator.data.table import Table
from orchestrator.data.textual import SUFFIXES

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
    entry = folder / slot / held["entry"]
    if held["entry"] not in (".", *held["files"]) or not (folder / slot).resolve().is_relative_to(folder.resolve()):
        raise BundleError(f"{folder / BUNDLE}: {entry} is none of the bundle's files; fetch the bundle again")
    check(folder / slot, held["files"])
    return str(entry)


def check(folder: Path, files: dict[str, str]) -> None:
    """Compares the files of a folder with their sha256.

    Raises:
        BundleError: A file is missing, changed or added; the message names it.
    """
    present = dict(listing(folder))
    for name, wanted in files.items():
        if name not in present:
            raise BundleError(f"{folder / name} is missing: it is in {BUNDLE}; fetch the bundle again")
        digest = sha256(present[name])
        if digest != wanted:
            raise BundleError(
                f"{folder / name} is not what was fetched: sha256 {digest[:16]}..., {BUNDLE} has {wanted[:16]}...; "
                "fetch the bundle again"
            )
    for name in present.keys() - files.keys():
        raise BundleError(f"{folder / name} is not in {BUNDLE}: take it out, or fetch the bundle again")


def listing(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yields the name, relative to the folder, and the path of every file in it."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield path.relative_to(folder).as_posix(), path


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


def write(tasks: Mapping[str, Benchmark], data: Mapping[str, str], to: Path) -> dict[str, Any]:
    """Makes a bundle of tasks in a new or empty folder; returns the content of its bundle.json.

    `data` has the place of a task's data where it is not the benchmark's own.

    Raises:
        DataError: Data cannot be read, or the bundle cannot be written.
    """
    if to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise BundleError(f"{to} is there already and not an empty folder: give --to a new one")
    listed: dict[str, Any] = {
        "format": FORMAT,
        "made_by": f"lyncean {importlib.metadata.version('lyncean')}",
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "tasks": {},
        "data": {},
    }
    slots: dict[str, str] = {}
    try:
        for task, benchmark in tasks.items():
            where = data.get(task) or _default(task, benchmark)
            if where not in slots:
                slots[where] = _slot(where, listed["data"])
                listed["data"][slots[where]] = _copy(where, to / slots[where])
            listed["tasks"][task] = slots[where]
        for task, benchmark in tasks.items():
            held = listed["data"][listed["tasks"][task]]
            _try(task, benchmark, to / listed["tasks"][task] / held["entry"], data.get(task))
        (to / BUNDLE).write_bytes(orjson.dumps(listed, option=orjson.OPT_INDENT_2))
    except OSError as error:
        raise BundleError(f"{error.filename or to} cannot be copied: {error.strerror or error}") from error
    return listed


def _default(task: str, benchmark: Benchmark) -> str:
    """The hub id that a benchmark names, or the table that a task file does."""
    from orchestrator.benchmarks.taskfile.benchmark import FileTask

    owner = getattr(benchmark.rows, "__self__", None)
    if isinstance(owner, FileTask):
        return owner.where()
    match = hub.HUB_ID.match(benchmark.data.splitlines()[0])
    if not match:
        raise BundleError(f"{task} names no data of its own: give --data {task}=PATH")
    return match[0]


def _slot(where: str, taken: Mapping[str, Any]) -> str:
    name = re.sub(r"[^\w.-]+", "_", where.rstrip("/").rpartition("/")[2] if Path(where).exists() else where)
    name = name.strip(".") or "data"
    return name if name not in taken and name != BUNDLE else f"{name}_{len(taken)}"


def _copy(where: str, to: Path) -> dict[str, Any]:
    """Copies one data set; returns its entry of bundle.json."""
    path = Path(where).expanduser()
    entry, revision, origin = ".", "", where
    if path.is_dir():
        shutil.copytree(path, to)
        origin = path.name
    elif path.is_file():
        to.mkdir(parents=True)
        shutil.copy2(path, to / path.name)
        if path.suffix in SUFFIXES:
            _copy_named(path, to)
        entry = origin = path.name
    elif hub.HUB_ID.fullmatch(where):
        revision = _download(where, to)
    else:
        raise BundleError(f"no data at {where}: give --data TASK=PATH")
    return {"origin": origin, "revision": revision, "entry": entry, "files": {n: sha256(p) for n, p in listing(to)}}


def _copy_named(table: Path, to: Path) -> None:
    """Copies the files beside a table that its cells name: its images."""
    root = table.parent.resolve()
    for row in open_rows(table, Table(hub="", split="", columns={}, images=())):
        for value in row.fields.values():
            if not isinstance(value, str) or not value or len(value) > 1024 or "\0" in value or "\n" in value:
                continue
            file = (root / value).resolve()
            if file.is_relative_to(root) and file.is_file():
                copied = to / file.relative_to(root)
                copied.parent.mkdir(parents=True, exist_ok=True)
                if not copied.exists():
                    shutil.copy2(file, copied)


def _download(name: str, to: Path) -> str:
    """Copies a data set of the hub at one revision, and returns that revision."""
    from huggingface_hub import HfApi, snapshot_download

    name, _, revision = name.partition("@")
    try:
        commit = HfApi().dataset_info(name, revision=revision or None).sha or ""
        snapshot_download(name, repo_type="dataset", revision=commit, local_dir=to)
    except hub.failures() as error:
        cause = " ".join(str(error).split()) or type(error).__name__
        raise BundleError(f"data set {name} cannot be fetched from the hub: {cause[:300]}") from error
    shutil.rmtree(to / ".cache", ignore_errors=True)
    return commit


def _try(task: str, benchmark: Benchmark, copied: Path, source: str | None) -> None:
    """Opens the copy as a run would, and compares it with its source."""
    try:
        rows = benchmark.rows(task, str(copied))
        if source is not None and Path(source).exists() and benchmark.rows(task, source).digest != rows.digest:
            raise BundleError(f"{task}: {source} reads files that it does not name: give its folder as --data instead")
    except DataError as error:
        raise BundleError(f"{task}: its data was copied and cannot be used from there: {error}") from error
