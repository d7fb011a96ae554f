"""The tools of a Python file."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from lyncean.errors import UserError
from tool_server.kit import Kit, Tools
from tool_server.types import Toolset

_MODULE = "tools_of_a_file"


def load(file: Path) -> Toolset:
    """Returns the tools of a file.

    Raises:
        UserError: The file cannot be run, or defines no tools, or several.
    """
    try:
        source = file.read_bytes()
    except OSError as error:
        raise UserError(f"cannot read {file}: {error.strerror}") from error
    module = _run(file)
    toolset = getattr(module, "toolset", None)
    if toolset is not None:
        return _checked(toolset, file)
    kinds = [
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Tools) and value.__module__ == _MODULE
    ]
    if len(kinds) != 1:
        classes = f"{len(kinds)} subclasses of tool_server.kit.Tools"
        raise UserError(f"{file} has {classes}", fix="define one, or name a Toolset `toolset`")
    return Kit(kinds[0], source)


def _run(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(_MODULE, file)
    if spec is None or spec.loader is None:
        raise UserError(f"{file} is not a Python file: its name does not end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[_MODULE] = module
    try:
        spec.loader.exec_module(module)
    except UserError:
        raise
    except SystemExit as error:
        fix = "give a file that defines a subclass of tool_server.kit.Tools"
        raise UserError(f"{file} is a program, not a file of tools: it ends while it is imported", fix=fix) from error
    except Exception as error:  # a user's file may raise anything
        raise UserError(f"{file} cannot be run: {type(error).__name__}: {error}") from error
    return module


def _checked(toolset: Toolset, file: Path) -> Toolset:
    missing = [name for name in ("revision", "stateful", "tools", "open") if not hasattr(toolset, name)]
    if missing:
        raise UserError(f"{file}: `toolset` has no {missing[0]}: see tool_server.types.Toolset")
    return toolset
