"""Finds code of foreign tasks that runs text as Python, by the syntax trees of their modules; imports none.

A task that calls `eval` on an answer lets the model choose the code that its scorer runs. So does a task that passes
the answer to sympy's parsers, which call `eval` themselves.
"""

from __future__ import annotations

import ast
import os.path
import re
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import yaml

_RUNNING = frozenset(f"{module}{name}" for module in ("", "builtins.", "__builtins__.") for name in ("eval", "exec"))
"""Functions that run text. They count if passed as arguments, too, as in `map(eval, answers)`."""

_CODE_EVAL = "code_eval"
"""A metric of the package `evaluate`, which runs programs."""

_PARSING = frozenset({"sympy", "latex2sympy2", "latex2sympy2_extended", "math_verify"})
"""Packages whose functions parse text: nearly every function of sympy parses a text argument."""

_PARSERS = frozenset({"latex2sympy", "parse_expr", "parse_latex", "sympify"})
"""Functions of these packages that count if passed as arguments, too."""

_HARMLESS = frozenset(
    {
        *("Float", "Integer", "Rational", "Symbol", "latex", "symbols"),
        *("ExprExtractionConfig", "LatexExtractionConfig", "NormalizationConfig", "StringExtractionConfig"),
    }
)
"""Functions of these packages that do not run their text."""

_REPOSITORY = re.compile(r"[\w.-]{1,96}/[\w.-]{1,96}|[0-9a-f]{40}", re.ASCII)
"""The hub's name of a repository, OWNER/NAME; or a commit of one."""

_FUNCTION = "!function"
_INCLUDE = "include"


class _Module(NamedTuple):
    """Properties of a module by its syntax tree.

    Attributes:
        runs: The first location that runs text, "" for none.
        imports: Its possible imports: modules, and names that may be modules.
        repositories: Texts in it that may name a hub repository or a commit.
    """

    runs: str
    imports: tuple[str, ...]
    repositories: tuple[str, ...] = ()


def place_in_task(configuration: Path, folders: Sequence[Path]) -> str:
    """Returns the location at which the code of a task runs text, "FILE:LINE calls NAME", or "".

    Args:
        configuration: The task's YAML file; files that it includes count, too.
        folders: Folders of tasks, within which imports are followed.
    """
    return place_in([file for path in _configurations(configuration) for file in _named(path, folders)], folders)


def place_in(modules: Iterable[Path], folders: Sequence[Path]) -> str:
    """Returns the first location at which modules, or their imports, run text; "" for none.

    Args:
        modules: Their files.
        folders: Folders within which imports are followed; folders of modules outside of them count, too.
    """
    return next((module.runs for module in _reached(modules, folders) if module.runs), "")


def repositories_of_task(configuration: Path, folders: Sequence[Path]) -> list[str]:
    """Returns the texts "OWNER/NAME" in a task's configuration and code, which may name repositories; also commits.

    Args:
        configuration: The task's YAML file; files that it includes count, too.
        folders: Folders of tasks, within which imports are followed.
    """
    files = list(_configurations(configuration))
    modules = _reached([module for file in files for module in _named(file, folders)], folders)
    texts = [text for file in files for text in _texts(_tree(file)) if _REPOSITORY.fullmatch(text)]
    return list(dict.fromkeys([*texts, *(name for module in modules for name in module.repositories)]))


def _texts(tree: yaml.Node | None) -> Iterator[str]:
    if isinstance(tree, yaml.ScalarNode):
        yield tree.value
    elif tree is not None:
        for part in tree.value:
            for node in part if isinstance(part, tuple) else (part,):
                yield from _texts(node)


def _reached(modules: Iterable[Path], folders: Sequence[Path]) -> Iterator[_Module]:
    """Yields modules and their imports, without duplicates."""
    wanted = deque(dict.fromkeys(modules))
    within = [*folders, *(file.parent for file in wanted if not _is_in(file, folders))]
    seen = set(wanted)
    while wanted:
        file = wanted.popleft()
        module = _look(file)
        yield module
        for name in module.imports:
            files = [path for path in _files(name, file.parent, folders) if _is_in(path, within) and path not in seen]
            wanted.extend(files)
            seen.update(files)


def _is_in(file: Path, folders: Iterable[Path]) -> bool:
    return any(file.is_relative_to(folder) for folder in folders)


def _configurations(configuration: Path) -> Iterator[Path]:
    """Yields a configuration and those that it includes, directly or indirectly."""
    wanted, seen = [configuration], set[Path]()
    while wanted:
        file = wanted.pop()
        if file in seen:
            continue
        seen.add(file)
        yield file
        for name in _included(_tree(file)):
            beside = Path(os.path.normpath(file.parent / name))
            wanted += [path for path in (beside, Path(name)) if path.is_file()][:1]


def _tree(file: Path) -> yaml.Node | None:
    return yaml.compose(file.read_bytes(), yaml.SafeLoader)


def _included(tree: yaml.Node | None) -> Iterator[str]:
    for key, value in tree.value if isinstance(tree, yaml.MappingNode) else ():
        if key.value == _INCLUDE:
            for node in value.value if isinstance(value, yaml.SequenceNode) else (value,):
                yield node.value


def _named(configuration: Path, folders: Sequence[Path]) -> Iterator[Path]:
    """Yields the files of the modules that a configuration names by `!function MODULE.NAME`."""
    beside = configuration.parent
    for module in dict.fromkeys(name.rpartition(".")[0] for name in _functions(_tree(configuration))):
        # A variant of lmms-eval's tasks may name functions of the folder above (`lmms_eval._function_beside`).
        files = list(_files(module, beside, folders)) or list(_files(module, beside.parent, folders))
        known = getattr(sys.modules.get(module), "__file__", None)
        yield from files[-1:] or ([Path(known)] if known else [])


def _functions(tree: yaml.Node | None) -> Iterator[str]:
    if isinstance(tree, yaml.ScalarNode):
        if tree.tag == _FUNCTION:
            yield tree.value
    elif tree is not None:
        for part in tree.value:
            for node in part if isinstance(part, tuple) else (part,):
                yield from _functions(node)


def _files(name: str, importer: Path, folders: Sequence[Path]) -> Iterator[Path]:
    """Yields the files that an import may load: the enclosing packages and the module itself.

    Args:
        name: Imported name, with the leading dots of a relative import.
        importer: Folder of the importing module.
        folders: Folders of tasks, which may be on the import path, or in a package on it.
    """
    names = name.lstrip(".").split(".")
    dots = len(name) - len(name.lstrip("."))
    # A task may put its own folder, or the one above, on the path of imports.
    bases = [importer, importer.parent]
    bases += [base for folder in folders for base in (folder, folder.parent, folder.parent.parent)]
    if dots:
        bases = [[importer, *importer.parents][min(dots - 1, len(importer.parents))]]
    for base in bases:
        path, exists = base, False
        for part in names:
            path /= part
            for file in (path.with_name(f"{part}.py"), path / "__init__.py") if part else (path / "__init__.py",):
                if file.is_file():
                    exists = True
                    yield file
        if exists:
            return


@cache
def _look(file: Path) -> _Module:
    """Returns properties of a module by its syntax tree; empty if it does not parse, since it cannot be imported."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return _Module("", ())
    origins: dict[str, str] = {}
    imports: list[str] = []
    texts: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _REPOSITORY.fullmatch(node.value):
            texts.append(node.value)
        elif isinstance(node, ast.Import):
            imports += [alias.name for alias in node.names]
            origins |= {alias.asname: alias.name for alias in node.names if alias.asname}
        elif isinstance(node, ast.ImportFrom):
            source = "." * node.level + (f"{node.module}." if node.module else "")
            aliases = {alias.asname or alias.name: source + alias.name for alias in node.names}
            imports += [source.rstrip(".") or source, *aliases.values()]
            origins |= aliases
    return _Module(_first(file, tree, origins), tuple(dict.fromkeys(imports)), tuple(dict.fromkeys(texts)))


def _first(file: Path, tree: ast.Module, origins: Mapping[str, str]) -> str:
    """Returns the first line that runs text, one with `eval` or `exec` before one with a parser.

    Args:
        file: The module's file.
        tree: Its syntax tree.
        origins: Name in the module -> its origin by the imports.
    """
    calls = []
    for node in (child for child in ast.walk(tree) if isinstance(child, ast.expr)):
        called = isinstance(node, ast.Call)
        name = _name(node.func if isinstance(node, ast.Call) else node, origins)
        package, last = name.partition(".")[0], name.rpartition(".")[2]
        if name in _RUNNING:
            calls.append((0, node.lineno, name))
        elif isinstance(node, ast.Call) and any(_is_code_eval(argument) for argument in node.args):
            calls.append((0, node.lineno, _CODE_EVAL))
        elif package in _PARSING and (last in _PARSERS or (called and last not in _HARMLESS)):
            calls.append((1, node.lineno, name))
    return f"{file}:{min(calls)[1]} calls {min(calls)[2]}" if calls else ""


def _name(node: ast.AST, origins: Mapping[str, str]) -> str:
    """Returns the full name of a name or `a.b.c` by its import; "" for anything else."""
    if isinstance(node, ast.Attribute):
        owner = _name(node.value, origins)
        return f"{owner}.{node.attr}" if owner else ""
    return origins.get(node.id, node.id) if isinstance(node, ast.Name) else ""


def _is_code_eval(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value == _CODE_EVAL
