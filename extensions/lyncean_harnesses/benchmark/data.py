"""`--data` of a foreign task: splits that replace those named by its configuration."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lyncean.media import UNKNOWN, media_type
from orchestrator.data import HUB_ID, DataError, cause, digest_files, is_saved

if TYPE_CHECKING:
    import datasets

_BUILDERS = {".parquet": "parquet", ".jsonl": "json", ".json": "json", ".csv": "csv", ".arrow": "arrow"}

FORMS = (
    "a folder written by datasets' save_to_disk, a folder of parquet files or laid out as on the hub, "
    "a parquet, JSONL, JSON or CSV file, or a hub id"
)
"""Values that `--data` of a foreign task accepts, for messages."""


def open_splits(data: str, splits: Iterable[str], name: str | None) -> tuple[datasets.DatasetDict, str, str]:
    """Opens the data of `--data` for a task.

    Args:
        data: A path or a hub id.
        splits: The splits that the task reads; data with a single split serve as all of them.
        name: The configuration of the data set that the task reads, if it names one.

    Returns:
        The splits, their origin, and their digest.

    Raises:
        DataError: The data are missing, cannot be read, or lack a split.
    """
    import datasets

    path = Path(data).expanduser()
    try:
        loaded = _read(path, name) if path.exists() else _hub(data, name)
    except DataError:
        raise
    except Exception as error:
        raise DataError(f"{path} cannot be read ({cause(error)}); --data takes {FORMS}") from error
    if isinstance(loaded, datasets.Dataset):
        loaded = datasets.DatasetDict({"": loaded})
    wanted = list(dict.fromkeys(splits))
    if len(loaded) == 1 and not set(wanted) & set(loaded):
        only = next(iter(loaded.values()))
        loaded = datasets.DatasetDict(dict.fromkeys(wanted, only))
    missing = [split for split in wanted if split not in loaded]
    if missing:
        raise DataError(f"{path} has no split {missing[0]}: it has {', '.join(loaded)}")
    if not path.exists():
        return loaded, data, f"hub:{data}:{':'.join(part._fingerprint for part in loaded.values())}"
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    base = path.parent if path.is_file() else path
    return loaded, path.name, digest_files((str(file.relative_to(base)), file) for file in files)


def with_images(splits: datasets.DatasetDict) -> datasets.DatasetDict | None:
    """Returns splits whose columns of plain {bytes, path} are images; None without such columns.

    A table that datasets did not write does not declare its images, so the task would get their bytes.
    """
    import datasets

    tables = {}
    for split, table in splits.items():
        first = table.with_format("arrow")[:1].to_pylist()[0] if len(table) else {}  # nothing is decoded
        kinds: dict[str, Any] = {name: datasets.Image() for name, value in first.items() if _is_image(value)}
        kinds |= {
            name: datasets.List(datasets.Image())
            for name, value in first.items()
            if isinstance(value, list) and value and all(map(_is_image, value))
        }
        for name, kind in kinds.items():
            table = table.cast_column(name, kind)
        tables[split] = table
    changed = any(tables[split].features != table.features for split, table in splits.items())
    return datasets.DatasetDict(tables) if changed else None


def _is_image(value: Any) -> bool:
    stored = isinstance(value, dict) and value.keys() == {"bytes", "path"} and value["bytes"]
    return isinstance(stored, bytes) and media_type(stored) != UNKNOWN


@contextlib.contextmanager
def uncached(data: str | None) -> Iterator[None]:
    """Keeps a task's cache files out of the folder of `data`, which is the user's and covered by the digest."""
    import datasets

    kept = data is not None and datasets.is_caching_enabled()
    if kept:
        datasets.disable_caching()
    try:
        yield
    finally:
        if kept:
            datasets.enable_caching()


def _read(path: Path, name: str | None) -> Any:
    import datasets

    if path.is_file():
        if path.suffix not in _BUILDERS:
            raise DataError(f"{path} is of no known form; --data takes {FORMS}")
        return datasets.load_dataset(_BUILDERS[path.suffix], data_files=str(path), split="train")
    if is_saved(path):
        return datasets.load_from_disk(str(path))
    try:
        return datasets.load_dataset(str(path), name)
    except ValueError:
        if name is None:
            raise
        return datasets.load_dataset(str(path))  # the folder holds that configuration alone


def _hub(data: str, name: str | None) -> Any:
    import datasets

    if not HUB_ID.fullmatch(data):
        raise DataError(f"no data at {data}; --data takes {FORMS}")
    owner, _, revision = data.partition("@")
    return datasets.load_dataset(owner, name, revision=revision or None)
