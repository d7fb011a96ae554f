"""Counts on pages are those of the code: a claim that is untrue is named with page, line and the true number."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from helpers.page_commands import ROOT

from orchestrator.benchmarks.reform.datasets import DATASETS, groups
from orchestrator.conformance import CHECKS
from orchestrator.report.samples import MOST
from orchestrator.run.local_scorer import MOST_ITEMS
from scorer.calibration import SETS, cases
from scorer.rules import rules

PAGES = [
    *(ROOT / f"{name}.md" for name in ("README", "CHANGELOG", "CONTRIBUTING")),
    *sorted((ROOT / "docs").glob("*.md")),
]
NUMBER = r"(?<![\w.,])(\d[\d,]*)"


@cache
def types() -> dict[str, dict[str, object]]:
    """Returns what was measured of each model type."""
    recorded: dict[str, dict[str, object]] = json.loads((ROOT / "tests/fixtures/model_types.json").read_text())
    return recorded


def built() -> int:
    return sum("unbuilt" not in kind for kind in types().values())


def passing() -> int:
    return sum(kind.get("passes") is True for kind in types().values())


def parity_rules() -> int:
    return sum(rule.parity for rule in map(rules().get, rules().names()))


def configurations() -> tuple[int, int]:
    """Returns how many configurations of lmms-eval there are and how many load, by the tables of their page."""
    page = (ROOT / "docs/lmms-eval-coverage.md").read_text()
    loaded = sum(int(number) for number in re.findall(r"^\|[^|]+\| (\d+) \|", page, re.MULTILINE))
    return loaded + sum(int(number) for number in re.findall(r"^\*\*.*\*\* \((\d+)\):", page, re.MULTILINE)), loaded


def lines(file: str) -> int:
    return len((ROOT / file).read_text().splitlines())


CLAIMS: dict[str, Callable[[], int]] = {
    "# (?:named )?checks": lambda: len(CHECKS),
    "# (?:extraction )?rules": lambda: len(rules().names()),
    "# (?:rules )?(?:of them )?of parity|# parity rules": parity_rules,
    "# datasets": lambda: len(DATASETS),
    "# with a core data file": lambda: len(groups()["reform_core"]),
    "# model types are|# types of the library are measured": passing,
    "Of # types,": lambda: len(types()),
    "a module for each of # types": lambda: len(types()),
    "types, # were built": built,
    "were built and # pass": passing,
    r"cases\. # are shipped": lambda: sum(len(cases(name)) for name in SETS),
    "the # configurations|Of # task configurations": lambda: configurations()[0],
    "# load where it was run": lambda: configurations()[1],
    "up to # items": lambda: MOST_ITEMS,
    r"\*\*Samples\*\*: up to #": lambda: MOST,
    "# lines (?:of Python|with the Python kit)|server of # lines": lambda: lines("examples/constant_server.py"),
    "serves real weights in # lines": lambda: lines("examples/ocr_server.py"),
}
"""Sentence with # in place of its number -> the number by the code. Pages may break a line at any blank."""
ABSENT = {"# (?:extraction )?rules", "# (?:rules )?(?:of them )?of parity|# parity rules"}
"""Claims that no page makes today: a page that makes them again has to be right."""


def claimed(claim: str) -> Iterator[tuple[Path, int, int]]:
    """Yields page, line and number of each place where a page makes a claim."""
    pattern = claim.replace(" ", r"\s+").replace("#", NUMBER)
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for match in re.finditer(pattern, text):
            number = next(group for group in match.groups() if group)
            yield page, text.count("\n", 0, match.start()) + 1, int(number.replace(",", ""))


@pytest.mark.parametrize("claim", CLAIMS)
def test_a_count_is_that_of_the_code(claim: str) -> None:
    true = CLAIMS[claim]()
    claims = list(claimed(claim))
    wrong = [
        f"{page.relative_to(ROOT)}:{line} says {value}, it is {true}" for page, line, value in claims if value != true
    ]
    assert not wrong, "\n".join(wrong)
    assert claims or claim in ABSENT, f"no page says {claim!r} any more: leave the claim out here"


def test_the_answers_measured_are_those_of_the_table() -> None:
    page = (ROOT / "docs/extraction.md").read_text()
    table = page.partition("## Accuracy")[2].partition("\n- **Realistic")[0]
    measured = sum(
        int(number.replace(",", "")) for number in re.findall(r"\| ([\d,]+) \| [\d.]+(?: to [\d.]+)?%", table)
    )
    (voila,) = re.findall(r"of (\d+) cases at first pass", page)
    (stated,) = re.findall(r"on ([\d,]+) hand-written answers", page)
    assert int(stated.replace(",", "")) == measured + int(voila)
