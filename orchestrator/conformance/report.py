"""What a judgement looks like: lines on the terminal, JUnit XML, JSON."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from rich.console import Console
from rich.markup import escape

from lyncean.model.v1 import model_pb2 as model
from orchestrator.conformance.check import Result, Status

_LOOK = {Status.PASSED: "green", Status.FAILED: "bold red", Status.SKIPPED: "dim"}
_MARK = {Status.PASSED: "pass", Status.FAILED: "FAIL", Status.SKIPPED: "skip"}
# What XML 1.0 cannot hold, escaped or not.
_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def print_result(result: Result, console: Console) -> None:
    """Prints one line, and for a failure what the contract says and what to do."""
    mark, look = _MARK[result.status], _LOOK[result.status]
    detail = f"  [dim]{escape(_one_line(result.detail))}[/dim]" if result.detail else ""
    failed = result.status is Status.FAILED
    console.print(
        f"[{look}]{mark}[/{look}] {result.check.name}{'' if failed else detail}", highlight=False, soft_wrap=True
    )
    if failed:
        for name, text in (("did", result.detail), ("contract", result.check.holds), ("fix", result.check.fix)):
            console.print(f"     {name}: {escape(_one_line(text))}", highlight=False, soft_wrap=True)


def summary(results: Sequence[Result]) -> str:
    """Returns the counts in words."""
    counts = Counter(result.status for result in results)
    return ", ".join(f"{counts[status]} {status.value}" for status in Status)


def as_json(address: str, results: Sequence[Result]) -> dict[str, Any]:
    """Returns the judgement as plain data."""
    return {
        "endpoint": address,
        "contract": model.DESCRIPTOR.package,
        "passed": not any(result.status is Status.FAILED for result in results),
        "checks": [
            {
                "name": result.check.name,
                "status": result.status.value,
                "detail": result.detail,
                "contract": result.check.holds,
                "fix": result.check.fix,
                "seconds": round(result.seconds, 3),
            }
            for result in results
        ],
    }


def write_junit(file: Path, address: str, results: Sequence[Result]) -> None:
    """Writes JUnit XML, one test case a check."""
    counts = Counter(result.status for result in results)
    suite = ElementTree.Element(
        "testsuite",
        name=f"{model.DESCRIPTOR.package} at {address}",
        tests=str(len(results)),
        failures=str(counts[Status.FAILED]),
        errors="0",
        skipped=str(counts[Status.SKIPPED]),
        time=f"{sum(result.seconds for result in results):.3f}",
    )
    for result in results:
        case = ElementTree.SubElement(
            suite,
            "testcase",
            classname=model.DESCRIPTOR.package,
            name=result.check.name,
            time=f"{result.seconds:.3f}",
        )
        detail = _NOT_XML.sub("?", result.detail)
        if result.status is Status.FAILED:
            failure = ElementTree.SubElement(case, "failure", message=detail)
            failure.text = f"{detail}\ncontract: {result.check.holds}\nfix: {result.check.fix}"
        elif result.status is Status.SKIPPED:
            ElementTree.SubElement(case, "skipped", message=detail)
        elif detail:
            ElementTree.SubElement(case, "system-out").text = detail
    ElementTree.indent(suite)
    ElementTree.ElementTree(suite).write(file, encoding="utf-8", xml_declaration=True)


def _one_line(text: str) -> str:
    return " ".join(text.split())
