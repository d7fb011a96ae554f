"""Rows of `datasets`: a hub id, or a folder written by `save_to_disk`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lyncean.plugins import OwnFiles
from orchestrator.data import hub
from orchestrator.data.digest import digest_files
from orchestrator.data.images import image_bytes
from orchestrator.data.rows import DataError, Row, RowSource
from orchestrator.data.table import Table

if TYPE_CHECKING:
    import datasets

_BATCH = 256


def open_hub(name: str, table: Table) -> RowSource:
    """Opens a hub id, "owner/name" or "owner/name@revision"; the revision found is part of origin and digest."""
    hub.reach(f"data set {name}")
    import datasets

    name, _, revision = name.partition("@")
    try:
        builder = datasets.load_dataset_builder(
            name,
            table.config,
            revision=revision or None,
            data_files={table.split: list(table.files)} if table.files else None,
        )
        builder.download_and_prepare()
        split = _split(table, builder.info.splits or ())
        dataset = builder.as_dataset(split=split)
    except (*hub.failures(), datasets.exceptions.DatasetsError) as error:
        raise DataError(f"data set {name} cannot be read from the hub ({hub.cause(error)}); {hub.ELSEWHERE}") from error
    commit = builder.hash or "unknown"
    digest = f"hub:{name}@{commit}:{table.config or 'default'}:{split}"
    return _source(dataset, table, where=f"data set {name}", origin=f"{name}@{commit}", digest=digest)


def open_saved(folder: Path, table: Table) -> RowSource:
    """Opens a folder written by `Dataset.save_to_disk` or `DatasetDict.save_to_disk`."""
    import datasets

    try:
        loaded = datasets.load_from_disk(str(folder))
    except (OSError, ValueError) as error:
        raise DataError(f"{folder} cannot be read as a saved data set: {error}") from error
    if isinstance(loaded, datasets.DatasetDict):
        split = _split(table, loaded)
        if split not in loaded:
            raise DataError(f"{folder} has no split {split}: it has {', '.join(loaded)}")
        loaded = loaded[split]
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    digest = digest_files((str(file.relative_to(folder)), file) for file in files)
    source = _source(loaded, table, where=str(folder), origin=folder.name, digest=digest, root=folder)
    return replace(source, files=files)


def is_saved(folder: Path) -> bool:
    """Returns True for a folder written by `save_to_disk`."""
    return (folder / "state.json").is_file() or (folder / "dataset_dict.json").is_file()


def _split(table: Table, present: Iterable[str]) -> str:
    names = set(present)
    return table.or_split if table.split not in names and table.or_split in names else table.split


def _source(
    dataset: datasets.Dataset, table: Table, *, where: str, origin: str, digest: str, root: Path | None = None
) -> RowSource:
    import datasets

    table.check_columns(where, dataset.column_names)
    # A path in such a table is one of the hub's cache, if `datasets` wrote it; who made the table may have named any.
    files = OwnFiles([root] if root else [])
    dataset = dataset.with_format(None)
    encoded = (datasets.Image, datasets.Audio, datasets.Video)
    media = {name: type(kind) for name, kind in dataset.features.items() if isinstance(kind, encoded)}
    for name, kind in media.items():
        # The file's own bytes: decoding and encoding again would change what is measured.
        dataset = dataset.cast_column(name, kind(decode=False))
    fields = dataset.remove_columns(sorted(media.keys() | (set(table.images) & set(dataset.column_names))))

    def iterate(first: int = 0) -> Iterator[Row]:
        columns = {name: dataset.select_columns([name]) for name in table.images if name in dataset.column_names}
        position = first
        rest = fields.select(range(first, len(fields))) if first else fields
        for batch in rest.iter(batch_size=_BATCH):
            for cells in zip(*batch.values(), strict=True):
                values = dict(zip(batch, cells, strict=True))
                yield _row(table, where, position, values, columns, root or Path(), files)
                position += 1

    return RowSource(origin=origin, digest=digest, count=len(dataset), iterate=iterate, iterate_from=iterate)


def _row(
    table: Table,
    where: str,
    position: int,
    values: dict[str, Any],
    columns: dict[str, datasets.Dataset],
    root: Path,
    files: OwnFiles,
) -> Row:
    def load(column: str) -> bytes | None:
        if column not in columns:
            return None
        return image_bytes(columns[column][position][column], root, files)

    return Row(table.read(where, position + 1, values), load)
