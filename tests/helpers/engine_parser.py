"""An engine's own parser of arguments, from its wheel alone: python -m helpers.engine_parser FOLDER ENGINE < argvs.

Reads a JSON list of argument lists and writes for each what the parser made of it, {"error": ...} if it refuses.
Modules of packages that are not installed are empty stand-ins: no device and no kernel is needed to read arguments.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.abc
import importlib.machinery
import io
import json
import os
import subprocess
import sys
import types
from pathlib import Path
from typing import Any, ClassVar

STOOD_IN = {
    "vllm": (
        *("transformers", "torchvision", "cachetools", "cbor2", "cloudpickle", "cpuinfo", "openai_harmony"),
        *("partial_json_parser", "pybase64", "uvloop", "xgrammar", "zmq"),
    ),
    "sglang": (
        *("transformers", "torchvision", "IPython", "partial_json_parser", "pybase64", "triton", "zmq"),
        "sglang.srt.layers",
    ),
}
"""Modules that are stood in for even where they are there: kernels, libraries of other versions than pinned, and others
that arguments do not need. What else is missing shows at the import, each in a start of its own."""
_MISSING = 9


def parsed(folder: str, engine: str, argvs: list[list[str]]) -> list[dict[str, Any]]:
    """Returns what an engine's parser, unpacked in a folder, makes of argument lists.

    Raises:
        RuntimeError: If the engine cannot be imported even with stand-ins.
    """
    names = list(STOOD_IN[engine])
    path = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "VLLM_TARGET_DEVICE": "cpu"}
    for _ in range(80):  # a module that is missing shows when the ones before it are there
        command = [sys.executable, "-m", "helpers.engine_parser", folder, engine, *names]
        done = subprocess.run(
            command, input=json.dumps(argvs), capture_output=True, text=True, check=False, env=environment
        )
        if done.returncode == 0:
            parsed: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
            return parsed
        if done.returncode != _MISSING:
            break
        names.append(done.stdout.split()[-1])
    raise RuntimeError(done.stderr[-3000:])


class _Anything(type):
    """Class of classes that may be called, subscripted, subclassed and asked for anything."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return cls

    def __getitem__(cls, key: object) -> Any:
        return cls

    def __setitem__(cls, key: object, value: object) -> None: ...

    def __contains__(cls, key: object) -> bool:
        return False

    def __or__(cls, other: object) -> Any:
        return cls

    __ror__ = __or__

    def __iter__(cls) -> Any:
        return iter(())

    def __call__(cls, *args: Any, **options: Any) -> Any:
        if cls.__module__ != __name__:
            return super().__call__(*args, **options)
        return args[0] if len(args) == 1 and not options and callable(args[0]) else cls


class _StandIn(types.ModuleType):
    __path__: ClassVar[list[str]] = []
    __version__ = "99"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        from pydantic_core import core_schema

        schema = classmethod(lambda cls, source, handler: core_schema.any_schema())
        taken = classmethod(lambda cls, **options: None)
        value = _Anything(name, (), {"__get_pydantic_core_schema__": schema, "__init_subclass__": taken})
        setattr(self, name, value)
        return value


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, names: list[str]) -> None:
        self._names = names

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if any(f"{name}.".startswith(f"{one}.") for one in self._names):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: Any) -> types.ModuleType:
        return _StandIn(spec.name)

    def exec_module(self, module: types.ModuleType) -> None: ...


def _parser(engine: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser
    if engine == "vllm":
        arguments = importlib.import_module("vllm.utils.argparse_utils")
        parser = importlib.import_module("vllm.entrypoints.common.cli_args").make_arg_parser(
            arguments.FlexibleArgumentParser()
        )
        return parser
    parser = argparse.ArgumentParser()
    importlib.import_module("sglang.srt.server_args").ServerArgs.add_cli_args(parser)
    return parser


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool | None) else repr(value)


def _read(parser: argparse.ArgumentParser, arguments: list[str]) -> dict[str, Any]:
    output = io.StringIO()
    try:
        with contextlib.redirect_stderr(output):
            return {name: _plain(value) for name, value in vars(parser.parse_args(arguments)).items()}
    except SystemExit:
        return {"error": output.getvalue().strip().splitlines()[-1]}


def main(folder: str, engine: str, *names: str) -> None:
    argvs = json.load(sys.stdin)
    importlib.import_module("torch._dynamo")  # before the stand-ins, which it would take for real
    if "transformers" in names:
        import huggingface_hub.dataclasses as configurations

        # It wants dataclasses, which classes of a stand-in are not.
        vars(configurations)["strict"] = lambda cls=None, **_: cls if cls is not None else lambda one: one
    sys.path.insert(0, folder)
    sys.meta_path.insert(0, _Finder(list(names)))
    try:
        parser = _parser(engine)
    except ModuleNotFoundError as error:
        missing = str(error.name).partition(".")[0]
        if missing == engine:
            raise
        print(missing)
        sys.exit(_MISSING)
    print()
    print(json.dumps([_read(parser, arguments) for arguments in argvs]))


if __name__ == "__main__":
    main(*sys.argv[1:])
