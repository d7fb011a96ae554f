"""Finds the checkpoints of a training that are complete, while the training goes on writing."""

from __future__ import annotations

import glob
import hashlib
import re
import struct
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from orchestrator.errors import ConfigError

MARKERS = ("STABLE", "_SUCCESS", ".complete", "COMPLETE")
"""Files that trainings write last, as prime-rl its STABLE."""
QUIET = 60.0
"""Seconds without a change after which a folder without a marker and whole safetensors files is complete."""
SETTLED = 5.0
"""Seconds without a change after which whole safetensors files are: tokenizers are written after the weights."""
INDEX = "model.safetensors.index.json"
_CONFIG = "config.json"
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf")
_UNFINISHED = re.compile(r"\.(tmp|temp|part|partial|incomplete)\b|^(tmp|temp)[-_.]|^\.", re.IGNORECASE)
"""Names under which a training writes before it renames."""
_MOST_HEADER = 100 << 20
"""Bytes of a safetensors header that readers take."""
_BLOCK = 1 << 16
_BLOCKS = 16
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_STEP = re.compile(r"(\d+)\D*$")


@dataclass(frozen=True, slots=True)
class Found:
    """A complete checkpoint.

    Attributes:
        name: Name of its folder.
        step: Its training step.
        path: Its folder.
        fingerprint: `fingerprint` of its folder.
    """

    name: str
    step: int
    path: Path
    fingerprint: str


def find(pattern: str) -> tuple[list[Found], list[Path]]:
    """Returns the complete checkpoints of a pattern by step, and the folders that are not complete yet.

    Raises:
        ConfigError: If no folder's name has a step, two have the same, or one cannot name a model of a suite.
    """
    matches = sorted(glob.glob(pattern))  # noqa: PTH207 - Path.glob takes no absolute patterns
    folders = [path for path in map(Path, matches) if path.is_dir()]
    levels = Path(pattern).parts
    named = len(levels) - next((at for at, part in enumerate(levels) if glob.has_magic(part)), len(levels) - 1)
    steps = by_step(folders, named)
    complete = {step: is_complete(path) for step, (_, path) in steps.items()}
    finished = [made(path, name, step) for step, (name, path) in steps.items() if complete[step]]
    return finished, [path for step, (_, path) in steps.items() if not complete[step]]


def by_step(folders: Sequence[Path], parts: int) -> dict[int, tuple[str, Path]]:
    """Returns name and folder of each checkpoint by its step, in the order of the steps.

    Args:
        folders: The folders that a pattern matches.
        parts: Number of parts of their paths that may name a checkpoint, from the last one on.

    Raises:
        ConfigError: If no folder's name has a step, two have the same, or one cannot name a model of a suite.
    """
    steps: dict[int, tuple[str, Path]] = {}
    for path in folders:
        if _UNFINISHED.search(path.name) or (known := step_of(path, parts)) is None:
            continue
        name, step = known
        check_name(path, name)
        if step in steps:
            raise ConfigError(
                f"--checkpoints: {steps[step][1]} and {path} are both of step {step}: give a pattern of one training"
            )
        steps[step] = name, path
    if folders and not steps:
        raise ConfigError(f"--checkpoints: {folders[0]} has no step in its name, as step_100 has: give another pattern")
    return dict(sorted(steps.items()))


def made(path: Path, name: str, step: int) -> Found:
    """Returns a checkpoint that is complete."""
    return Found(name, step, path.resolve(), fingerprint(path))


def check_name(path: Path, name: str) -> None:
    """Makes sure that the part of a checkpoint's path which names it is fit for a run folder's name.

    Raises:
        ConfigError: If it is not.
    """
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{path}: name the folder by letters, digits, dots, - and _ alone")


def step_of(path: Path, parts: int = 1) -> tuple[str, int] | None:
    """Returns a checkpoint's name and step: the last number of the last part of its path that has one.

    Args:
        path: Its folder.
        parts: Number of parts of the path to search, from the last one on.

    Returns:
        None if none has a number.
    """
    for part in reversed(path.parts[-parts:]):
        if number := _STEP.search(part):
            return part, int(number[1])
    return None


def is_complete(path: Path, now: float | None = None) -> bool:
    """Returns whether a checkpoint's folder is written in full.

    It has a marker; or a configuration and safetensors files that are whole, the index's all there; or any weights,
    and nothing in it has changed for a minute.
    """
    try:
        files = _files(path)
        names = {file.name for file in files}
        if any(marker in names for marker in MARKERS):
            return True
        if not has_model(names):
            return False
        changed = max(file.stat().st_mtime for file in [path, *files])
        quiet = (time.time() if now is None else now) - changed
        return quiet >= QUIET or (quiet >= SETTLED and _whole(path, names))
    except OSError:  # a file vanished during the check: the training is at work
        return False


def has_model(names: Collection[str]) -> bool:
    """Returns whether files of these names have a configuration and weights."""
    return _CONFIG in names and any(name.endswith(_WEIGHTS) for name in names)


def _files(path: Path) -> list[Path]:
    return sorted(file for file in path.iterdir() if file.is_file())


def _whole(path: Path, names: set[str]) -> bool:
    """Returns whether all safetensors files are there, each as long as its header says."""
    try:
        weights = listed(names, (path / INDEX).read_bytes() if INDEX in names else None)
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
        return False
    return bool(weights) and weights <= names and all(_length(path / name) for name in weights)


def listed(names: set[str], index: bytes | None) -> set[str]:
    """Returns the safetensors files that a checkpoint has or its index names; empty where the index is to come.

    Raises:
        orjson.JSONDecodeError: If the index is not complete.
        KeyError: If it is damaged; also TypeError and AttributeError.
    """
    weights = {name for name in names if name.endswith(".safetensors")}
    if index is not None:
        return weights | set(map(str, orjson.loads(index)["weight_map"].values()))
    shards = any(re.search(r"-of-\d+\.safetensors$", name) for name in weights)
    return set() if shards else weights  # the index of shards is written last


def _length(file: Path) -> bool:
    size = file.stat().st_size
    with file.open("rb") as stream:
        head = stream.read(8)
        length = struct.unpack("<Q", head)[0] if len(head) == 8 else 0
        if not 0 < length <= min(_MOST_HEADER, size - 8):
            return False
        try:
            header: Mapping[str, Any] = orjson.loads(stream.read(length))
            ends = [int(tensor["data_offsets"][1]) for name, tensor in header.items() if name != "__metadata__"]
        except (KeyError, TypeError, ValueError, IndexError, AttributeError):
            return False
    return size == 8 + length + max(ends, default=0)


def fingerprint(path: Path) -> str:
    """Returns a hash of a checkpoint's weights and settings, the same for every copy.

    Small files whole, large ones by their size and some blocks of them: training moves every weight. The model server
    hashes all of the weights, and a run notes that as the model's identity.
    """
    return digest((file.name, file.stat().st_size, partial(_part, file)) for file in _files(path))


def digest(files: Iterable[tuple[str, int, Callable[[int, int], bytes]]]) -> str:
    """Returns the fingerprint of files: names in order, sizes, and readers of a part by start and length."""
    total = hashlib.sha256()
    for name, size, read in files:
        if name in (_CONFIG, INDEX) or name.endswith(_WEIGHTS):
            total.update(b"%s\0" % name.encode())
            for block in _blocks(size, read):
                total.update(hashlib.sha256(block).digest())
    return total.hexdigest()


def _blocks(size: int, read: Callable[[int, int], bytes]) -> Iterator[bytes]:
    yield size.to_bytes(8, "little")
    if size <= _BLOCK * _BLOCKS:
        yield read(0, size)
        return
    for at in range(_BLOCKS):
        yield read((size - _BLOCK) * at // (_BLOCKS - 1), _BLOCK)


def _part(file: Path, start: int, length: int) -> bytes:
    with file.open("rb") as stream:
        stream.seek(start)
        return stream.read(length)
