"""ReForm-Eval's instruction texts, read from a user's checkout of it.

They come from the syntax trees of its builders; no code of the checkout runs.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator import ConfigError
from orchestrator.benchmarks.reform import DATASETS, METHODS, Dataset

LIST = "instruction_list"
"""Attribute of a builder that holds its instructions."""


@dataclass
class BuilderTexts:
    """The texts in a builder's source.

    Attributes:
        lists: Instructions by method; "" for both.
        suffix: Text after an instruction, by method.
        question: A question that replaces the record's, by method.
    """

    lists: dict[str, list[str]] = field(default_factory=dict)
    suffix: dict[str, str] = field(default_factory=dict)
    question: dict[str, str] = field(default_factory=dict)

    def entry(self) -> dict[str, object]:
        """Returns the file's entry of a dataset."""
        lists: dict[str, object] = {method: self.lists.get(method) or self.lists[""] for method in METHODS}
        return lists | {name: text for name, text in (("suffix", self.suffix), ("question", self.question)) if text}

    @property
    def whole(self) -> bool:
        """True if there are instructions for both methods."""
        return "" in self.lists or all(method in self.lists for method in METHODS)


def read_builder(source: str) -> BuilderTexts:
    """Reads the instructions of one builder's source.

    Raises:
        SyntaxError: It is not Python.
    """
    builder_texts = BuilderTexts()
    for target, value, method in _assignments(ast.parse(source), ""):
        if isinstance(target, ast.Attribute) and target.attr == LIST:
            texts = _texts(value)
            if texts and method not in builder_texts.lists:
                builder_texts.lists[method] = texts[:5]
        elif _key(target) == "instruct" and method:
            added = _added(value)
            if added:
                builder_texts.suffix[method] = added
        elif _key(target) == "question" and method and isinstance(value, ast.Constant) and isinstance(value.value, str):
            builder_texts.question[method] = value.value
    return builder_texts


def _assignments(node: ast.AST, method: str) -> Iterator[tuple[ast.expr, ast.expr, str]]:
    """Yields every assignment with the inference method of its branch."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            yield target, node.value, method
    if isinstance(node, ast.If):
        # The first method in a test is the branch's: `likelihood or formulation == 'Generation'`.
        named = [
            constant.value
            for constant in ast.walk(node.test)
            if isinstance(constant, ast.Constant) and constant.value in METHODS
        ]
        inside = str(named[0]) if named else method
        for child in node.body:
            yield from _assignments(child, inside)
        for child in node.orelse:
            yield from _assignments(child, method)
        return
    for inner in ast.iter_child_nodes(node):
        yield from _assignments(inner, method)


def _texts(value: ast.expr) -> list[str]:
    if not isinstance(value, ast.List):
        return []
    texts = [item.value for item in value.elts if isinstance(item, ast.Constant) and isinstance(item.value, str)]
    return texts if len(texts) == len(value.elts) else []


def _key(target: ast.expr) -> str:
    if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant):
        return str(target.slice.value)
    return ""


def _added(value: ast.expr) -> str:
    """Returns the text that `sample['instruct'] + ' …'` adds."""
    if not isinstance(value, ast.BinOp) or not isinstance(value.op, ast.Add) or _key(value.left) != "instruct":
        return ""
    return value.right.value if isinstance(value.right, ast.Constant) and isinstance(value.right.value, str) else ""


def builder_of(checkout: Path, dataset: Dataset) -> Path | None:
    """Returns the file that builds a dataset: a known one, else the only one with instructions in its folder."""
    known = checkout / "build" / dataset.source
    if known.is_file():
        return known
    neighbours = {
        other.source for other in DATASETS.values() if Path(other.source).parent == Path(dataset.source).parent
    }
    if len(neighbours) > 1:
        return None
    others = [file for file in sorted(known.parent.glob("*.py")) if LIST in file.read_text("utf-8", "replace")]
    return others[0] if len(others) == 1 else None


def collect(checkout: Path) -> tuple[dict[str, Any], list[str]]:
    """Returns the instruction texts of a checkout by data set, and the labels of data sets without any.

    Raises:
        ConfigError: It is not a checkout, or one of its files cannot be read.
    """
    if not (checkout / "build").is_dir():
        raise ConfigError(f"{checkout} is not a checkout of ReForm-Eval: it has no folder build/")
    datasets, missing = {}, []
    for dataset in DATASETS.values():
        if not dataset.source:
            continue
        builder = builder_of(checkout, dataset)
        try:
            texts = read_builder(builder.read_text("utf-8")) if builder else BuilderTexts()
        except (OSError, SyntaxError, UnicodeDecodeError) as error:
            raise ConfigError(f"{builder} cannot be read: {error}") from error
        # Only likelihood has the claim's suffix. CLEVR's suffix is a mistake of the reference and not in the table.
        if texts.whole:
            datasets[dataset.name] = texts.entry()
        else:
            missing.append(dataset.label)
    if not datasets:
        raise ConfigError(f"{checkout} holds no instructions that can be read")
    return datasets, missing
