"""Public names of packages, imported on first use (PEP 562)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def face(package: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """Returns the `__getattr__` of a package, so that importing it loads none of its modules.

    Args:
        package: The package's `__name__`.
        names: Module of the package -> its public names, separated by blanks; `name:public` exports a name under
            another one.
    """
    places: dict[str, tuple[str, str]] = {}
    for module, publics in names.items():
        for public_name in publics.split():
            name, _, public = public_name.partition(":")
            places[public or name] = (module, name)

    def load(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, attribute = places[name]
        value = getattr(import_module(f"{package}.{module}"), attribute)
        setattr(sys.modules[package], name, value)
        return value

    return load
