"""Two readings of the same answers: where a careful person and the reference see different things."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from orchestrator.runlog import RESPONSES, VERDICTS

PARITY_FOLDER = "parity"
"""Folder in a run that holds the reference's reading of its answers."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One item that the two readings do not read alike.

    Attributes:
        key: The item.
        target: What is right.
        careful: What the default rule extracted, "" for nothing.
        parity: What the reference's rule extracted, "" for nothing.
        text: The answer.
    """

    key: str
    target: str
    careful: str
    parity: str
    text: str


def differences(run: Path) -> list[Difference]:
    """Returns the items whose two readings differ, in the order of their keys.

    Args:
        run: A run folder scored by both (`orchestrator score RUN`, `orchestrator score RUN --parity`).
    """
    careful = {line["key"]: line for line in _lines(run / VERDICTS)}
    parity = {line["key"]: line for line in _lines(run / PARITY_FOLDER / VERDICTS)}
    differing = {
        key: (_extracted(careful[key]), _extracted(parity[key]))
        for key in sorted(careful.keys() & parity.keys())
        if _extracted(careful[key]) != _extracted(parity[key])
    }
    texts = {line["key"]: _text(line) for line in _lines(run / RESPONSES) if line["key"] in differing}
    return [
        Difference(key, " ".join(careful[key]["targets"]), ours, theirs, texts.get(key, ""))
        for key, (ours, theirs) in differing.items()
    ]


def described(run: Path, *, examples: int = 5) -> list[str]:
    """Returns lines for people: how many items the two readings differ on, and the first of them."""
    found = differences(run)
    total = len({line["key"] for line in _lines(run / PARITY_FOLDER / VERDICTS)})
    lines = [f"{len(found)} of {total} samples are read differently by the careful and the parity reading"]
    for one in found[:examples]:
        text = " ".join(one.text.split())
        short = text if len(text) <= 60 else text[:57] + "..."
        lines.append(
            f"  {one.key}  right {one.target}  careful {one.careful or '-'}  parity {one.parity or '-'}  {short!r}"
        )
    return lines


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open("rb") as lines:
        for line in lines:
            yield orjson.loads(line)


def _extracted(line: dict[str, Any]) -> str:
    # The reference returns letters in the case they were written in, which it then ignores.
    return str(line.get("extracted", "")).upper()


def _text(line: dict[str, Any]) -> str:
    return "".join(part.get("text", "") for part in (line.get("response") or {}).get("parts", ()))
