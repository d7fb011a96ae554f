"""Rules written in YAML, without code: patterns, a set of labels, and the choice of a match."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import msgspec
import re2
import yaml

from lyncean.scorer.v1 import scorer_pb2 as pb
from lyncean.vocabulary.reasons import Reason
from scorer.errors import RequestError
from scorer.reading.refusals import declines
from scorer.registry import NAME, PluginError
from scorer.rule import Rule, refused, scored, unparsed


class _Entry(msgspec.Struct, forbid_unknown_fields=True):
    """One rule of a file."""

    name: str
    patterns: list[str] = []
    labels: list[str | int | float | bool] = []
    choose: Literal["first", "last"] = "last"
    description: str = "A rule written in YAML."
    ignore_case: bool = True
    refusals: bool = True
    version: int = 1


def load(path: Path) -> list[Rule]:
    """Returns the rules of a YAML file.

    Raises:
        PluginError: If it cannot be read or is invalid; names the place.
    """
    try:
        document = yaml.safe_load(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise PluginError(f"{path}: cannot be read as YAML: {' '.join(str(error).split())}") from error
    entries = document.get("rules") if isinstance(document, dict) else None
    if not isinstance(entries, list) or not entries or set(document) != {"rules"}:
        raise PluginError(f"{path}: wants one key `rules` with a list of rules")
    return [_rule(entry, f"{path}, rule {number}") for number, entry in enumerate(entries, 1)]


def _rule(value: object, where: str) -> Rule:
    try:
        entry = msgspec.convert(value, _Entry)
        spelled = json.dumps(value, sort_keys=True, ensure_ascii=False)
    except (msgspec.ValidationError, TypeError, ValueError) as error:
        raise PluginError(f"{where}: {error}") from None
    if not NAME.fullmatch(entry.name):
        raise PluginError(f"{where}: name is {entry.name!r}: letters, digits and _ alone, a letter first")
    labels = {_folded(str(label), entry.ignore_case): str(label) for label in entry.labels}
    if len(labels) < len(entry.labels):
        raise PluginError(f"{where}: two labels are the same")
    patterns = [_compiled(pattern, entry.ignore_case, where) for pattern in entry.patterns]
    if not patterns:
        raise PluginError(f"{where}: patterns is empty: give at least one")
    return Rule(
        name=entry.name,
        description=entry.description,
        read=_reader(patterns, labels, entry),
        version=entry.version,
        depends=(spelled,),
    )


def _compiled(pattern: str, fold: bool, where: str) -> Any:
    # RE2 and not `re`: its time is linear in the answer for any pattern, so that neither
    # a careless pattern nor a hostile answer can stop the service.
    options = re2.Options()
    options.log_errors = False
    options.case_sensitive = not fold
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        cause = error.args[0].decode() if isinstance(error.args[0], bytes) else error
        raise PluginError(f"{where}: pattern {pattern!r}: {cause} (RE2 syntax: no look-around, no \\1)") from error
    if compiled.groups > 1:
        raise PluginError(
            f"{where}: pattern {pattern!r} has {compiled.groups} groups: one at most; (?:...) groups only"
        )
    return compiled


def _reader(patterns: list[Any], labels: dict[str, str], entry: _Entry) -> Callable[[pb.ScoreRequest], pb.Verdict]:
    def label_of(text: str) -> str | None:
        return labels.get(_folded(text, entry.ignore_case)) if labels else text.strip() or None

    def read(request: pb.ScoreRequest) -> pb.Verdict:
        if not request.targets:
            raise RequestError("it needs targets")
        for target in request.targets:
            if label_of(target) is None:
                raise RequestError(f"target {target!r} is none of its labels: {', '.join(labels.values())}")
        targets = {_folded(target, entry.ignore_case) for target in request.targets}
        for pattern in patterns:
            matches = [(label_of(match[pattern.groups] or ""), match) for match in pattern.finditer(request.text)]
            labelled = [(label, match) for label, match in matches if label is not None]
            if labelled:
                label, match = labelled[0 if entry.choose == "first" else -1]
                right = _folded(label, entry.ignore_case) in targets
                return scored(label, float(right), span=match.span(pattern.groups))
        if entry.refusals and declines(request.text):
            return refused()
        return unparsed(Reason.NO_MATCH, "no pattern finds a label")

    return read


def _folded(text: str, fold: bool) -> str:
    return text.strip().casefold() if fold else text.strip()
