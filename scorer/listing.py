"""What a scorer knows, with a hash of everything each rule's verdicts depend on."""

from __future__ import annotations

import ast
import hashlib
import importlib.metadata
import importlib.util
import json
from functools import cache
from pathlib import Path

from lyncean.scorer.v1 import scorer_pb2 as pb
from scorer.metrics.base import COMMON_PARAMS, Metric
from scorer.registry import Registry
from scorer.rule import AnyRule, JudgedRule

BEFORE_EVERY_RULE = ("scorer.scoring", "scorer.reading.reasoning")
"""Modules that every verdict passes through; what they import for judges alone is not followed."""


def listing(rules: Registry[AnyRule], metrics: Registry[Metric]) -> pb.ListRulesResponse:
    """Returns the answer to ListRules; imports every rule and metric."""
    response = pb.ListRulesResponse(scorer_version=f"lyncean {importlib.metadata.version('lyncean')}")
    for name in rules.names():
        rule = rules.get(name)
        response.rules.add(
            name=name,
            description=rule.description,
            sha256=digest(rule),
            parity=rule.parity,
            judged=isinstance(rule, JudgedRule),
            params=rule.params,
        )
    for name in metrics.names():
        metric = metrics.get(name)
        response.metrics.add(name=name, description=metric.description, params={**metric.params, **COMMON_PARAMS})
    return response


def digest(rule: AnyRule) -> str:
    """Returns the hash of all that a rule's verdicts depend on.

    That is the source of its module with the tables (*.tsv) beside it, of every module of the
    same package that it imports, directly or not, and of what every answer passes through, with
    its version, parameters and `depends`.
    """
    total = hashlib.sha256(json.dumps([rule.name, rule.version, dict(rule.params), rule.depends]).encode())
    own = getattr(rule.read, "__module__", None) or type(rule.read).__module__
    for module in sorted({*_closure(own), *BEFORE_EVERY_RULE}):
        total.update(f"{module}\n".encode() + _source(module) + _tables(module))
    return total.hexdigest()


def _closure(start: str) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        module = waiting.pop()
        if module not in found:
            found.add(module)
            waiting.extend(_imports(module))
    return found


@cache
def _source(module: str) -> bytes:
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return b""
    return Path(spec.origin).read_bytes()


@cache
def _tables(module: str) -> bytes:
    """Returns the tables of words beside a module."""
    spec = importlib.util.find_spec(module)
    folder = Path(spec.origin).parent if spec and spec.origin else None
    return b"".join(path.read_bytes() for path in sorted(folder.glob("*.tsv"))) if folder else b""


@cache
def _imports(module: str) -> tuple[str, ...]:
    """Returns the modules of the module's own top package that its source imports."""
    package = module.partition(".")[0]
    names: set[str] = set()
    for node in ast.walk(ast.parse(_source(module))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    ours = {name for name in names if name.partition(".")[0] == package}
    return tuple(name for name in ours if _exists(name))


def _exists(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # its parent is a module, so the name is one of its attributes
        return False
