"""Python values as JSON and back, without loss: documents and records of a foreign task on their way to its metrics.

JSON alone turns tuples into lists and numeric keys into texts, which changes the results of aggregations.
Nothing is pickled, since the values may come from another machine.
"""

from __future__ import annotations

import base64
import datetime
import io
import json
from typing import Any

_KIND = "$"
"""Key of an object that represents a type JSON lacks."""


def encode(value: Any) -> str:
    """Returns a value as JSON in one line.

    Raises:
        TypeError: A part of it is of a type that is not supported; the message names it.
    """
    return json.dumps(_plain(value), ensure_ascii=True, separators=(",", ":"))


def decode(text: str) -> Any:
    """Returns the value that `encode` encoded; numbers keep every bit.

    Raises:
        ValueError: The text is not from `encode`.
    """
    try:
        return _value(json.loads(text))
    except (KeyError, OSError, TypeError, RecursionError) as error:
        raise ValueError(f"this is not an encoded value: {error}") from error


def _plain(value: Any) -> Any:
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return value
    if kind is list:
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        if all(type(key) is str for key in value) and _KIND not in value:
            return {key: _plain(item) for key, item in value.items()}
        return {_KIND: "dict", "v": [[_plain(key), _plain(item)] for key, item in value.items()]}
    if isinstance(value, tuple):
        return {_KIND: "tuple", "v": [_plain(item) for item in value]}
    if isinstance(value, (set, frozenset)):
        return {_KIND: "set", "v": sorted((_plain(item) for item in value), key=repr)}
    if isinstance(value, (bytes, bytearray)):
        return {_KIND: "bytes", "v": base64.b64encode(value).decode()}
    if isinstance(value, (datetime.datetime, datetime.date)):
        return {_KIND: kind.__name__, "v": value.isoformat()}
    if isinstance(value, (bool, int, float, str, list)) and kind.__module__ != "numpy":
        base: Any = next(base for base in (bool, int, float, str, list) if isinstance(value, base))
        return _plain(base(value))
    return _of_library(value)


def _of_library(value: Any) -> Any:
    """Returns a value of NumPy or Pillow, without importing either."""
    kind = type(value)
    if kind.__module__ == "numpy" and hasattr(value, "dtype") and not value.dtype.hasobject:
        form = {"t": value.dtype.str, "s": list(value.shape), "n": kind.__name__ == "ndarray"}
        return {_KIND: "array", **form, "v": base64.b64encode(value.tobytes()).decode()}
    if any(base.__module__ == "PIL.Image" for base in kind.__mro__):
        buffer = io.BytesIO()
        value.save(buffer, "PNG")
        return {_KIND: "image", "v": base64.b64encode(buffer.getvalue()).decode()}
    raise TypeError(f"a {kind.__module__}.{kind.__qualname__} is not kept")


def _value(plain: Any) -> Any:
    if isinstance(plain, list):
        return [_value(item) for item in plain]
    if not isinstance(plain, dict):
        return plain
    if _KIND not in plain:
        return {key: _value(item) for key, item in plain.items()}
    value = plain["v"]
    match plain[_KIND]:
        case "dict":
            return {_value(key): _value(item) for key, item in value}
        case "tuple":
            return tuple(_value(item) for item in value)
        case "set":
            return {_value(item) for item in value}
        case "bytes":
            return base64.b64decode(value)
        case "datetime":
            return datetime.datetime.fromisoformat(value)
        case "date":
            return datetime.date.fromisoformat(value)
        case "array":
            import numpy as np

            array = np.frombuffer(base64.b64decode(value), plain["t"]).reshape(plain["s"]).copy()
            return array if plain["n"] else array[()]
        case "image":
            from PIL import Image

            return Image.open(io.BytesIO(base64.b64decode(value)), formats=["PNG"])
    raise ValueError(f"this is not an encoded value: {plain[_KIND]!r}")
