"""JUnit XML: a test suite for each task, a test case for each item, for reports in CI systems."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from typing import Any, TextIO, cast
from xml.sax.saxutils import XMLGenerator
from xml.sax.xmlreader import AttributesImpl

from orchestrator.run_folder import STEP, Item, Run, reason

_NO_XML = re.compile("[^\\t\\n\\r\\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_LONGEST = 2000


def write(runs: Sequence[Run], file: TextIO) -> None:
    """Writes a document.

    A scored item with the full score passes, one with a lower score is a failure. An item without a verdict (refused,
    rejected, unjudged, failed) is an error; an unparsed one is a failure, since it has an answer.
    """
    xml = XMLGenerator(cast(Any, file), "UTF-8", short_empty_elements=True)
    xml.startDocument()
    xml.startElement("testsuites", AttributesImpl({"name": "lyncean"}))
    for run in runs:
        totals: dict[str, Counter[str]] = {}
        seconds: dict[str, float] = {}
        for item in run:
            if item.outcome != STEP:
                totals.setdefault(item.task, Counter())[_kind(item)] += 1
                seconds[item.task] = seconds.get(item.task, 0.0) + _seconds(item)
        # A run's key order keeps the items of a task together.
        for task, items in groupby((item for item in run if item.outcome != STEP), key=lambda item: item.task):
            total = totals[task]
            numbers = {"tests": total.total(), "failures": total["failure"], "errors": total["error"]}
            attributes = {name: str(number) for name, number in numbers.items()}
            attributes |= {"name": _clean(f"{run.name}.{task}"), "time": f"{seconds[task]:.3f}"}
            attributes |= {"skipped": str(total["skipped"])}
            if created := run.manifest.get("created"):
                attributes["timestamp"] = str(created).removesuffix("Z")
            xml.characters("\n")
            xml.startElement("testsuite", AttributesImpl(attributes))
            for item in items:
                _case(xml, run, item)
            xml.characters("\n")
            xml.endElement("testsuite")
    xml.characters("\n")
    xml.endElement("testsuites")
    xml.endDocument()
    file.write("\n")


def _kind(item: Item) -> str:
    if item.outcome == "scored":
        return "" if (item.score or 0.0) >= 1 else "failure"
    if not item.outcome:
        return "skipped"
    return "failure" if item.outcome == "unparsed" else "error"


def _case(xml: XMLGenerator, run: Run, item: Item) -> None:
    attributes = {"name": _clean(item.key), "classname": _clean(f"{run.name}.{item.task}")}
    xml.characters("\n")
    xml.startElement("testcase", AttributesImpl({**attributes, "time": f"{_seconds(item):.3f}"}))
    if kind := _kind(item):
        message, text = _words(item)
        about = {"message": _clean(message), **({} if kind == "skipped" else {"type": item.outcome})}
        xml.startElement(kind, AttributesImpl(about))
        xml.characters(_clean(text))
        xml.endElement(kind)
    xml.endElement("testcase")


def _words(item: Item) -> tuple[str, str]:
    """Returns the problem in one line, and the answer."""
    targets = " or ".join(map(str, item.scoring.get("targets", ()))) or "nothing"
    if not item.outcome:
        return "not scored yet", ""
    if item.outcome == "scored":
        return f"score {item.score:g}: answered {item.verdict.get('extracted', '')!r}, expected {targets}", item.text
    message = (item.response.get("error") or {}).get("message", "")
    return f"{item.outcome}: {reason(item)} {message}".strip(), item.text


def _seconds(item: Item) -> float:
    return float(item.response.get("seconds") or 0.0)


def _clean(text: str) -> str:
    """Returns a shortened text without characters that XML 1.0 cannot hold."""
    text = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    return _NO_XML.sub("\ufffd", text)
