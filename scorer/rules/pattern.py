"""Rules written in YAML: patterns, a set of labels, and which match counts. No code."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import re2
import yaml

from lyncean.reasons import Reason
from lyncean.scorer.v1 import scorer_pb2 as pb
from scorer.errors import RequestError
from scorer.reading.refusals import declines
from scorer.registry import NAME, PluginError
from scorer.rule import Rule, refused, scored, unparsed

_KEYS: Mapping[str, type | tuple[type, ...]] = {
    "name": str,
    "description": str,
    "patterns": list,
    "labels": list,
    "choose": str,
    "ignore_case": bool,
    "refusals": bool,
    "version": int,
}


def load(path: Path) -> list[Rule]:
    """Returns the rules of a YAML file.

    Raises:
        PluginError: If it cannot be read or says something that has no sense; names the place.
    """
    try:
        document = yaml.safe_load(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise PluginError(f"{path}: cannot be read as YAML: {' '.join(str(error).split())}") from error
    entries = document.get("rules") if isinstance(document, dict) else None
    if not isinstance(entries, list) or not entries or set(document) != {"rules"}:
        raise PluginError(f"{path}: wants one key `rules` with a list of rules")
    return [_rule(entry, f"{path}, rule {number}") for number, entry in enumerate(entries, 1)]


def _rule(entry: Any, where: str) -> Rule:
    if not isinstance(entry, dict):
        raise PluginError(f"{where}: not a mapping")
    for key, value in entry.items():
        kind = _KEYS.get(key)
        if kind is None:
            raise PluginError(f"{where}: unknown key {key!r}; known: {', '.join(_KEYS)}")
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise PluginError(f"{where}: {key} is {value!r}, not a {kind}")
    name = entry.get("name", "")
    if not NAME.fullmatch(name):
        raise PluginError(f"{where}: name is {name!r}: letters, digits and _ alone, a letter first")
    choose = entry.get("choose", "last")
    if choose not in ("first", "last"):
        raise PluginError(f"{where}: choose is {choose!r}: give first or last")
    fold = entry.get("ignore_case", True)
    labels = [str(label) for label in entry.get("labels", [])]
    if len({_folded(label, fold) for label in labels}) < len(labels):
        raise PluginError(f"{where}: two labels are the same")
    patterns = [_compiled(pattern, fold, where) for pattern in entry.get("patterns", [])]
    if not patterns:
        raise PluginError(f"{where}: patterns is empty: give at least one")
    try:
        spelled = json.dumps(entry, sort_keys=True, ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise PluginError(f"{where}: holds more than strings, numbers and lists of them: {error}") from None
    return Rule(
        name=name,
        description=entry.get("description", "A rule written in YAML."),
        read=_reader(patterns, labels, choose == "last", fold, entry.get("refusals", True)),
        version=entry.get("version", 1),
        depends=(spelled,),
    )


def _compiled(pattern: object, fold: bool, where: str) -> Any:
    # RE2 and not `re`: its time is linear in the answer whatever the pattern, so that neither
    # a careless pattern nor a hostile answer can stop the service.
    options = re2.Options()
    options.log_errors = False
    options.case_sensitive = not fold
    if not isinstance(pattern, str):
        raise PluginError(f"{where}: pattern {pattern!r} is no string: quote it")
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


def _reader(
    patterns: list[Any], labels: list[str], last: bool, fold: bool, refusals: bool
) -> Callable[[pb.ScoreRequest], pb.Verdict]:
    spelling = {_folded(label, fold): label for label in labels}

    def label_of(word: str) -> str | None:
        return spelling.get(_folded(word, fold)) if spelling else word.strip() or None

    def read(request: pb.ScoreRequest) -> pb.Verdict:
        if not request.targets:
            raise RequestError("it needs targets")
        for target in request.targets:
            if label_of(target) is None:
                raise RequestError(f"target {target!r} is none of its labels: {', '.join(labels)}")
        for pattern in patterns:
            found = None
            for match in pattern.finditer(request.text):
                label = label_of(match.group(pattern.groups) or "")
                if label is not None:
                    found = (label, match.span(pattern.groups))
                    if not last:
                        break
            if found is not None:
                label, span = found
                right = _folded(label, fold) in {_folded(target, fold) for target in request.targets}
                return scored(label, float(right), span=span)
        if refusals and declines(request.text):
            return refused()
        return unparsed(Reason.NO_MATCH, "no pattern finds a label")

    return read


def _folded(word: str, fold: bool) -> str:
    return word.strip().casefold() if fold else word.strip()
