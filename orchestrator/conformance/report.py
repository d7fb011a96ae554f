"""Renders results of checks: lines on the terminal, JUnit XML, JSON."""

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
from orchestrator.conformance.check import MATTER_MOST, Result, Status

MODEL = model.DESCRIPTOR.package
_MARKS = {
    Status.PASSED: "[green]pass[/green]",
    Status.FAILED: "[bold red]FAIL[/bold red]",
    Status.SKIPPED: "[dim]skip[/dim]",
}
# What XML 1.0 cannot hold, escaped or not.
_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def print_result(result: Result, console: Console) -> None:
    """Prints one line, and for a failure what the contract says and what to do."""
    lines = [f"{_MARKS[result.status]} {result.check.name}"]
    if result.status is Status.FAILED:
        texts = {"did": result.detail, "contract": result.check.contract, "fix": result.check.fix}
        lines += [f"     {name}: {escape(_one_line(text))}" for name, text in texts.items()]
    elif result.detail:
        lines[0] += f"  [dim]{escape(_one_line(result.detail))}[/dim]"
    console.print("\n".join(lines), highlight=False, soft_wrap=True)


def summary(results: Sequence[Result]) -> str:
    """Returns the counts in words."""
    counts = Counter(result.status for result in results)
    return ", ".join(f"{counts[status]} {status.value}" for status in Status)


def for_an_evaluation(results: Sequence[Result]) -> str:
    """Returns how the checks that matter most for an evaluation ended, "" where none of them was run."""
    statuses = {result.check.name: result.status.value for result in results if result.check.name in MATTER_MOST}
    summary = ", ".join(f"{name} {status}" for name, status in statuses.items())
    return f"for an evaluation these matter most: {summary}" if summary else ""


def as_json(address: str, results: Sequence[Result], contract: str = MODEL) -> dict[str, Any]:
    """Returns the judgement as plain data; `contract` is the package of the service."""
    return {
        "endpoint": address,
        "contract": contract,
        "passed": not any(result.status is Status.FAILED for result in results),
        "checks": [
            {
                "name": result.check.name,
                "status": result.status.value,
                "detail": result.detail,
                "contract": result.check.contract,
                "fix": result.check.fix,
                "seconds": round(result.seconds, 3),
            }
            for result in results
        ],
    }


def write_junit(file: Path, address: str, results: Sequence[Result], contract: str = MODEL) -> None:
    """Writes JUnit XML, one test case a check; `contract` is the package of the service."""
    counts = Counter(result.status for result in results)
    suite = ElementTree.Element("testsuite", name=f"{contract} at {address}", tests=str(len(results)), errors="0")
    suite.set("failures", str(counts[Status.FAILED]))
    suite.set("skipped", str(counts[Status.SKIPPED]))
    suite.set("time", f"{sum(result.seconds for result in results):.3f}")
    for result in results:
        facts = {"classname": contract, "name": result.check.name, "time": f"{result.seconds:.3f}"}
        case = ElementTree.SubElement(suite, "testcase", facts)
        detail = _NOT_XML.sub("?", result.detail)
        if result.status is Status.FAILED:
            failure = ElementTree.SubElement(case, "failure", message=detail)
            failure.text = f"{detail}\ncontract: {result.check.contract}\nfix: {result.check.fix}"
        elif result.status is Status.SKIPPED:
            ElementTree.SubElement(case, "skipped", message=detail)
        elif detail:
            ElementTree.SubElement(case, "system-out").text = detail
    ElementTree.indent(suite)
    ElementTree.ElementTree(suite).write(file, encoding="utf-8", xml_declaration=True)


def _one_line(text: str) -> str:
    return " ".join(text.split())
