"""The rules and metrics of a scorer, with a hash of all code and data that decide each rule's verdicts."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json

from lyncean.plugins.code_hash import closure
from lyncean.scorer.v1 import scorer_pb2 as pb
from scorer.foreign_tasks import layers
from scorer.metrics.base import COMMON_PARAMS, Metric
from scorer.registry import Registry
from scorer.rule import AnyRule, JudgedRule

BEFORE_EVERY_RULE = ("scorer.scoring", "scorer.reading.reasoning")
"""Modules that every verdict passes through; their imports are not followed, most serve judges alone."""


def listing(rules: Registry[AnyRule], metrics: Registry[Metric]) -> pb.ListRulesResponse:
    """Returns the answer to ListRules; imports every rule and metric."""
    response = pb.ListRulesResponse(
        scorer_version=f"lyncean {importlib.metadata.version('lyncean')}", cell_layers=layers()
    )
    for name in sorted(rules.names()):
        rule = rules.get(name)
        response.rules.add(
            name=name,
            description=rule.description,
            sha256=digest(rule),
            parity=rule.parity,
            judged=isinstance(rule, JudgedRule) and rule.required,
            params=rule.params,
            needs=getattr(rule, "needs", ()),
        )
    for name in sorted(metrics.names()):
        metric = metrics.get(name)
        response.metrics.add(name=name, description=metric.description, params={**metric.params, **COMMON_PARAMS})
    return response


def digest(rule: AnyRule) -> str:
    """Returns a hash of everything that a rule's verdicts depend on.

    It covers version, parameters and `depends`; the sources of the rule's module, with the tables (*.tsv) beside it,
    and of all modules of its package that it imports, directly or not; and those of `BEFORE_EVERY_RULE`.
    """
    total = hashlib.sha256(json.dumps([rule.name, rule.version, dict(rule.params), rule.depends]).encode())
    home = getattr(rule.read, "__module__", None) or type(rule.read).__module__
    sources = closure([home], [home.partition(".")[0]]) | closure(BEFORE_EVERY_RULE, [])
    for module, source in sorted(sources.items()):
        total.update(f"{module}\n".encode() + source)
    return total.hexdigest()
