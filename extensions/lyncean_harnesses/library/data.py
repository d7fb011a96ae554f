"""The data of a harness's task: replaced rows, audio and video not decoded."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

from lyncean.media import Kind
from lyncean.plugins import OwnFiles
from lyncean_harnesses.library import HarnessError
from lyncean_harnesses.library.own_files import outside


def undecoded(features: Mapping[str, Any]) -> dict[str, Kind]:
    """Returns the columns of audio and video that a table does not decode, with their kinds."""
    import datasets

    kinds: dict[str, Kind] = {}
    for name, feature in features.items():
        if isinstance(feature, (datasets.Audio, datasets.Video)) and not feature.decode:
            kinds[name] = "audio" if isinstance(feature, datasets.Audio) else "video"
    return kinds


def undecoding(splits: Any) -> Any:
    """Disables decoding of audio and video in splits, since the files' own bytes are sent; returns the splits."""
    import datasets

    for split, docs in splits.items() if isinstance(splits, dict) else ():
        for name, feature in dict(getattr(docs, "features", None) or {}).items():
            if isinstance(feature, (datasets.Audio, datasets.Video)):
                splits[split] = splits[split].cast_column(name, type(feature)(decode=False))
    return splits


@contextlib.contextmanager
def replaced_data(module: Any, data: Any | None, files: OwnFiles) -> Iterator[None]:
    """Replaces `datasets` in a harness's module: it loads `data`, or its own data restricted to `files`.

    Raises:
        HarnessError: Its configuration names a file that is not one of `files`.
    """
    real = module.datasets

    def load(*_: Any, **__: Any) -> Any:
        return undecoding(real.DatasetDict(data))

    def checked(path: str, *more: Any, **named: Any) -> Any:
        _check(outside(files, path, named.get("data_files"), named.get("data_dir")))
        return real.load_dataset(path, *more, **named)

    def checked_folder(dataset_path: str, *more: Any, **named: Any) -> Any:
        _check(outside(files, dataset_path))
        return real.load_from_disk(dataset_path, *more, **named)

    loading = {"load_dataset": checked, "load_from_disk": checked_folder}
    if data is not None:
        loading = dict.fromkeys(loading, load)
    module.datasets = SimpleNamespace(**{**vars(real), **loading})
    try:
        yield
    finally:
        module.datasets = real


def _check(file: str) -> None:
    if file:
        why = f"its configuration names data outside of its own ({file})"
        raise HarnessError(why, fix="if they are to be read, give --data")
