"""Pickles of plain values. Nothing that a pickle names is imported or called: it could be anything."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lyncean.arrays import np

_LARGEST = 1 << 30
_KINDS = frozenset("iufb")


class PickleError(ValueError):
    """A pickle that holds something else than plain values, or is damaged."""


class _DType:
    """Stands for numpy's data types of numbers in a pickle."""

    def __init__(self, code: str, *_: object) -> None:
        self.code, self.order = str(code), "<"

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.order = ">" if state[1] == ">" else "<"


def _scalar(kind: object, data: object = b"") -> int | float | bool:
    """Returns the number that a numpy scalar in a pickle is."""
    if not (isinstance(kind, _DType) and kind.code[:1] in _KINDS and isinstance(data, bytes)):
        raise PickleError("it holds a value of numpy that is no number")
    value: int | float | bool = np.frombuffer(data, np.dtype(kind.order + kind.code), 1)[0].item()
    return value


_STAND_INS: dict[tuple[str, str], Callable[..., Any]] = {
    ("numpy", "dtype"): _DType,
    ("numpy.core.multiarray", "scalar"): _scalar,
    ("numpy._core.multiarray", "scalar"): _scalar,
}
"""What numpy's numbers are pickled by -> functions of this module, called in its place."""


class _Plain(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """Returns a stand-in; whatever else a pickle names is refused."""
        try:
            return _STAND_INS[module, name]
        except KeyError:
            raise PickleError(f"it holds an object of {module[:60]}.{name[:60]}") from None


def load_plain(path: Path) -> Any:
    """Loads numbers (numpy's as well), texts, bytes, None, lists, tuples, sets and dictionaries.

    Raises:
        PickleError: It is damaged, too large, or holds anything else.
    """
    try:
        if path.stat().st_size > _LARGEST:
            raise PickleError(f"it is larger than {_LARGEST >> 20} MiB")
        with path.open("rb") as file:
            return _Plain(file).load()
    except PickleError:
        raise
    except OSError as error:
        raise PickleError(f"it cannot be read: {error.strerror or error}") from None
    except Exception as error:  # a damaged pickle raises anything
        raise PickleError(f"it is no whole pickle ({type(error).__name__})") from None
