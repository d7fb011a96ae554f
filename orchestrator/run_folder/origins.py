"""Origins of a run's answers: the models that an endpoint names, and the doubt about answers that name none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from orchestrator.run_folder.files import RESPONSES
from orchestrator.run_folder.lines import Origin, OriginLine
from orchestrator.run_folder.notes import Note
from orchestrator.run_folder.scanning import scan

UNVERIFIED = "identity not verified for each answer"
FIELD = "endpoint"
"""The field of a manifest with the models and configurations that an endpoint said have answered."""
_SHOWN = 5


def doubt(model: Mapping[str, Any]) -> str:
    """Returns UNVERIFIED for a model whose answers do not name their server, "" for others.

    An endpoint that a server calls does if its engine names its checkpoint: the server looks at it on each connection.

    Args:
        model: The answer of GetModelInfo, as the manifest has it; of other tools it is a name alone.
    """
    if not model.get("capabilities"):
        return ""
    passed_on = "endpoint" in (model.get("properties") or {})
    return UNVERIFIED if not model.get("boot_id") or (passed_on and not model.get("model_revision")) else ""


def first(run: Path, model: Mapping[str, Any]) -> str:
    """Returns the model that the endpoint named in a run's first answer; "" without an answer or a name.

    Raises:
        RunLogError: If a line is damaged.
    """
    if "endpoint" not in (model.get("properties") or {}):
        return ""
    return next((line.endpoint.model for _, line in scan(run / RESPONSES, OriginLine) if line.endpoint.model), "")


def summary(origins: Mapping[Origin, int]) -> dict[str, Any]:
    """Returns the field of a manifest with the count of each origin; empty without one."""
    models, fingerprints = Counter[str](), Counter[str]()
    for origin, count in origins.items():
        models[origin.model] += count
        fingerprints[origin.fingerprint] += count
    fields = {"models": models, "fingerprints": fingerprints}
    named = {name: {word: count[word] for word in sorted(count) if word} for name, count in fields.items()}
    return {FIELD: {name: counts for name, counts in named.items() if counts}} if any(named.values()) else {}


def notes(summary: Mapping[str, Any]) -> list[Note]:
    """Returns the note on answers of several configurations of an endpoint; none without."""
    fingerprints: Mapping[str, int] = summary.get(FIELD, {}).get("fingerprints", {})
    if len(fingerprints) < 2:
        return []
    some = [f"{word} {count:,}" for word, count in list(fingerprints.items())[:_SHOWN]]
    listed = ", ".join([*some, *(["..."] if len(fingerprints) > _SHOWN else [])])
    text = f"the endpoint answered with {len(fingerprints)} configurations (system_fingerprint: {listed})"
    comparison = {"differs": "which configuration of the endpoint answered", "sentence": "it changed as the run went"}
    return [Note("endpoint", text, comparison=comparison, details=fingerprints)]
