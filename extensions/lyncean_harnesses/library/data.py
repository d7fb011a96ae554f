"""The data of a harness's task: other rows in place of its own, audio and video not decoded."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

from lyncean.media import Kind


def undecoded(features: Mapping[str, Any]) -> dict[str, Kind]:
    """Returns the columns of audio and video of a table that is not to decode them, with their kinds."""
    import datasets

    kinds: dict[str, Kind] = {}
    for name, feature in features.items():
        if isinstance(feature, (datasets.Audio, datasets.Video)) and not feature.decode:
            kinds[name] = "audio" if isinstance(feature, datasets.Audio) else "video"
    return kinds


def undecoding(splits: Any) -> Any:
    """Has splits not decode audio and video when a row is read, as the files' own bytes are sent; returns them."""
    import datasets

    for split, docs in splits.items() if isinstance(splits, dict) else ():
        for name, feature in dict(getattr(docs, "features", None) or {}).items():
            if isinstance(feature, (datasets.Audio, datasets.Video)):
                splits[split] = splits[split].cast_column(name, type(feature)(decode=False))
    return splits


@contextlib.contextmanager
def replaced_data(module: Any, data: Any | None) -> Iterator[None]:
    """Has a harness's module read other data where its name `datasets` would load its own."""
    if data is None:
        yield
        return
    real = module.datasets

    def load(*_: Any, **__: Any) -> Any:
        return undecoding(real.DatasetDict(data))

    module.datasets = SimpleNamespace(
        **{name: getattr(real, name) for name in ("DatasetDict", "DownloadMode", "Dataset", "__version__")},
        load_dataset=load,
        load_from_disk=load,
    )
    try:
        yield
    finally:
        module.datasets = real
