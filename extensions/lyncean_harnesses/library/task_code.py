"""Code of foreign tasks that runs text as Python, found in the syntax trees of their modules; none is imported for it.

A task that calls `eval` on what a model answers lets the model choose what its scorer runs. So does one that hands the
answer to sympy's parsers, which call `eval` themselves.
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
"""What runs text. It counts where it is handed on as well, as in `map(eval, answers)`."""

_CODE_EVAL = "code_eval"
"""A metric of the package `evaluate`, which runs programs."""

_PARSING = frozenset({"sympy", "latex2sympy2", "latex2sympy2_extended", "math_verify"})
"""Packages whose functions parse text: nearly every function of sympy does so with a text as its argument."""

_PARSERS = frozenset({"latex2sympy", "parse_expr", "parse_latex", "sympify"})
"""Functions of these that count where they are handed on as well."""

_HARMLESS = frozenset(
    {
        *("Float", "Integer", "Rational", "Symbol", "latex", "symbols"),
        *("ExprExtractionConfig", "LatexExtractionConfig", "NormalizationConfig", "StringExtractionConfig"),
    }
)
"""What these have that runs nothing of the text that it takes."""

_REPOSITORY = re.compile(r"[\w.-]{1,96}/[\w.-]{1,96}|[0-9a-f]{40}", re.ASCII)
"""The hub's form of a name, an owner and a repository; or a commit of one."""

_FUNCTION = "!function"
_INCLUDE = "include"


class _Module(NamedTuple):
    """What a module's syntax tree shows.

    Attributes:
        runs: The first place that runs text, "" for none.
        imports: What it may import: modules, and names that may be modules.
        repositories: Texts in it that may be a repository of a hub, or a commit.
    """

    runs: str
    imports: tuple[str, ...]
    repositories: tuple[str, ...] = ()


def place_in_task(configuration: Path, folders: Sequence[Path]) -> str:
    """Returns where the code of a task runs text, as "FILE:LINE calls NAME"; "" where it does not.

    Args:
        configuration: The task's YAML file; those that it includes count as well.
        folders: Folders of tasks, within which imports are followed.
    """
    return place_in([file for path in _configurations(configuration) for file in _named(path, folders)], folders)


def place_in(modules: Iterable[Path], folders: Sequence[Path]) -> str:
    """Returns where modules, or those that they import, run text; the first place, "" where there is none.

    Args:
        modules: Their files.
        folders: Folders within which imports are followed; those of modules outside of them count as well.
    """
    return next((module.runs for module in _reached(modules, folders) if module.runs), "")


def repositories_of_task(configuration: Path, folders: Sequence[Path]) -> list[str]:
    """Returns the texts "OWNER/NAME" in a task's configuration and code, which may name repositories, and commits.

    Args:
        configuration: The task's YAML file; those that it includes count as well.
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
    """Yields modules and those that they import, each once."""
    wanted = deque(dict.fromkeys(modules))
    within = [*folders, *(file.parent for file in wanted if not _is_in(file, folders))]
    seen = set(wanted)
    while wanted:
        file = wanted.popleft()
        module = _look(file)
        yield module
        for name in module.imports:
            found = [path for path in _files(name, file.parent, folders) if _is_in(path, within) and path not in seen]
            wanted.extend(found)
            seen.update(found)


def _is_in(file: Path, folders: Iterable[Path]) -> bool:
    return any(file.is_relative_to(folder) for folder in folders)


def _configurations(path: Path) -> Iterator[Path]:
    """Yields a configuration and those that it includes, directly or not."""
    wanted, seen = [path], set[Path]()
    while wanted:
        file = wanted.pop()
        if file in seen:
            continue
        seen.add(file)
        yield file
        for name in _included(_tree(file)):
            beside = Path(os.path.normpath(file.parent / name))
            wanted += [each for each in (beside, Path(name)) if each.is_file()][:1]


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
        found = list(_files(module, beside, folders)) or list(_files(module, beside.parent, folders))
        known = getattr(sys.modules.get(module), "__file__", None)
        yield from found[-1:] or ([Path(known)] if known else [])


def _functions(tree: yaml.Node | None) -> Iterator[str]:
    if isinstance(tree, yaml.ScalarNode):
        if tree.tag == _FUNCTION:
            yield tree.value
    elif tree is not None:
        for part in tree.value:
            for node in part if isinstance(part, tuple) else (part,):
                yield from _functions(node)


def _files(name: str, importer: Path, folders: Sequence[Path]) -> Iterator[Path]:
    """Yields the files that an import may mean: those of the packages that the module is in, and the module's own.

    Args:
        name: What is imported, with the dots in front of a relative import.
        importer: Folder of the importing module.
        folders: Folders of tasks, which may be on the path of imports, or in a package that is.
    """
    words = name.lstrip(".").split(".")
    dots = len(name) - len(name.lstrip("."))
    # A task may put its own folder, or the one above, on the path of imports.
    bases = [importer, importer.parent]
    bases += [base for folder in folders for base in (folder, folder.parent, folder.parent.parent)]
    if dots:
        bases = [[importer, *importer.parents][min(dots - 1, len(importer.parents))]]
    for base in bases:
        path, found = base, False
        for word in words:
            path /= word
            for file in (path.with_name(f"{word}.py"), path / "__init__.py") if word else (path / "__init__.py",):
                if file.is_file():
                    found = True
                    yield file
        if found:
            return


@cache
def _look(file: Path) -> _Module:
    """Returns what a module's syntax tree shows; nothing where it has none, as it cannot be imported either."""
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
            own = {alias.asname or alias.name: source + alias.name for alias in node.names}
            imports += [source.rstrip(".") or source, *own.values()]
            origins |= own
    return _Module(_first(file, tree, origins), tuple(dict.fromkeys(imports)), tuple(dict.fromkeys(texts)))


def _first(file: Path, tree: ast.Module, origins: Mapping[str, str]) -> str:
    """Returns the first line that runs text, one with `eval` or `exec` before one with a parser.

    Args:
        file: The module's file.
        tree: Its syntax tree.
        origins: Name in the module -> what it is imported from.
    """
    found = []
    for node in (each for each in ast.walk(tree) if isinstance(each, ast.expr)):
        called = isinstance(node, ast.Call)
        name = _name(node.func if isinstance(node, ast.Call) else node, origins)
        package, last = name.partition(".")[0], name.rpartition(".")[2]
        if name in _RUNNING:
            found.append((0, node.lineno, name))
        elif isinstance(node, ast.Call) and any(_is_code_eval(each) for each in node.args):
            found.append((0, node.lineno, _CODE_EVAL))
        elif package in _PARSING and (last in _PARSERS or (called and last not in _HARMLESS)):
            found.append((1, node.lineno, name))
    return f"{file}:{min(found)[1]} calls {min(found)[2]}" if found else ""


def _name(node: ast.AST, origins: Mapping[str, str]) -> str:
    """Returns what a name or `a.b.c` stands for, from where it is imported; "" of anything else."""
    if isinstance(node, ast.Attribute):
        owner = _name(node.value, origins)
        return f"{owner}.{node.attr}" if owner else ""
    return origins.get(node.id, node.id) if isinstance(node, ast.Name) else ""


def _is_code_eval(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value == _CODE_EVAL
