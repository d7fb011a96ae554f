"""Tokens, seconds and money that the requests of a run took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lyncean.arrays import np
from lyncean.columns import Column
from lyncean.rpc.budget import Prices
from lyncean.vocabulary.facts import AT_LIMIT, OTHER_SIZE, TOOL_CALLS, TOOL_ERRORS
from orchestrator.run_folder.files import BEYOND, RESPONSES
from orchestrator.run_folder.index import Index
from orchestrator.run_folder.lines import Origin, UsageLine
from orchestrator.run_folder.scanning import lines_at, scan

USAGE = "usage"
"""The field of results.json with tokens and money."""
PRICES = "prices"
"""The field of a manifest with the prices of the run's model."""
SECONDS = "seconds"
"""The field of a manifest with the seconds, which differ between runs with the same answers."""

_CUT = "FINISH_REASON_MAX_TOKENS"


@dataclass(slots=True)
class Usage:
    """Totals of requests that were answered.

    Attributes:
        requests: Number of requests.
        input_tokens: Tokens in.
        cached_tokens: Those of them that were read from a cache.
        output_tokens: Tokens out.
        reasoning_tokens: Those of them that are reasoning.
        seconds: Sum of the seconds of each request, of which several may have been under way together.
    """

    requests: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    seconds: float = 0.0

    @property
    def tokens(self) -> tuple[int, int, int, int]:
        """Tokens in and out, cached and reasoning, as prices and budgets take them."""
        return self.input_tokens, self.output_tokens, self.cached_tokens, self.reasoning_tokens

    def add(self, other: Usage) -> None:
        """Adds other requests."""
        self.requests += other.requests
        self.input_tokens += other.input_tokens
        self.cached_tokens += other.cached_tokens
        self.output_tokens += other.output_tokens
        self.reasoning_tokens += other.reasoning_tokens
        self.seconds += other.seconds

    def take(self, other: Usage) -> None:
        """Takes back the tokens of a request that is counted twice."""
        self.input_tokens -= other.input_tokens
        self.cached_tokens -= other.cached_tokens
        self.output_tokens -= other.output_tokens
        self.reasoning_tokens -= other.reasoning_tokens

    def as_json(self, prices: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the totals as results.json has them, with their cost where prices are known."""
        names = ("requests", "input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens")
        totals = {name: getattr(self, name) for name in names}
        return totals | ({"cost": round(prices_of(prices).cost(*self.tokens), 9)} if prices else {})


def prices_of(line: Mapping[str, Any]) -> Prices:
    """Returns the prices that a manifest has."""
    return Prices(line["input"], line["output"], line.get("cached"), line.get("reasoning"))


def of_log(run: Path) -> dict[str, Usage]:
    """Returns the usage of each task: all answered requests, also those that were made again.

    Raises:
        RunLogError: If a line is damaged.
    """
    usages: dict[str, Usage] = {}
    cut: dict[str, Usage] = {}
    for _, line in scan(run / RESPONSES, UsageLine):
        if line.response is None or line.facts or (line.finished is not None and line.finished.error):
            continue  # nothing was answered; a cut answer that cannot be finished stands there once more
        this = _usage(line)
        mine = usages.setdefault(line.task, Usage())
        mine.add(this)
        if line.finished is not None and (before := cut.get(line.key)):
            mine.take(before)  # the line of a finished answer has the tokens of the cut one, too
        if line.response.finish_reason == _CUT:
            cut[line.key] = this
    return usages


def of_answers(run: Path, origins: Counter[Origin], tools: Counter[str]) -> dict[str, Usage]:
    """Returns the usage of each task's answers that count: of a repeated request, the last one.

    Args:
        run: The run folder.
        origins: Gets the number of these answers by origin.
        tools: Gets the number of tool calls, of those that returned an error, of those with boxes in pixels of an
            image that the model was shown at another size, and of answers that are judged at a limit.

    Raises:
        RunLogError: If a line is damaged.
    """
    counts = _each_once(run) or _last_of_each(run)
    origins.update(counts.origins)
    tools.update(counts.tools)
    return counts.tasks


def _each_once(run: Path) -> _Counts | None:
    """Returns the counts of a log of which every line counts; None if it is empty or a line may not count."""
    counts, hashes = _Counts(), Column("q")
    if (run / BEYOND).exists():
        return None
    for _, line in scan(run / RESPONSES, UsageLine):
        hashes.append(hash(line.key))
        hashes.settle()
        counts.add(line)
    return counts if len(hashes) and not hashes.repeats() else None


def _last_of_each(run: Path) -> _Counts:
    counts = _Counts()
    offsets = Index(run, (RESPONSES,)).responses
    for line in lines_at(run / RESPONSES, np.sort(offsets[offsets >= 0]), UsageLine):
        counts.add(line)
    return counts


class _Counts:
    def __init__(self) -> None:
        self.tasks: dict[str, Usage] = {}
        self.origins, self.tools = Counter[Origin](), Counter[str]()

    def add(self, line: UsageLine) -> None:
        usage = self.tasks.get(line.task) or self.tasks.setdefault(line.task, Usage())
        if line.tool is not None:
            self.tools[TOOL_CALLS] += 1
            self.tools[TOOL_ERRORS] += line.tool.is_error
            self.tools[OTHER_SIZE] += OTHER_SIZE in line.tool.facts
        if AT_LIMIT in line.facts:
            self.tools[AT_LIMIT] += int(line.facts[AT_LIMIT])
        # An answer with facts follows its calls, which have lines of their own.
        if line.response is not None and not line.facts:
            usage.add(_usage(line))
            self.origins[line.endpoint] += 1


def _usage(line: UsageLine) -> Usage:
    if line.response is None or line.facts:  # an answer with facts follows its calls, which have lines of their own
        return Usage()
    used = line.response.usage
    return Usage(1, used.input_tokens, used.cached_tokens, used.output_tokens, used.reasoning_tokens, line.seconds)


def total(tasks: Mapping[str, Usage]) -> Usage:
    """Returns the sum over tasks."""
    totals = Usage()
    for _, usage in sorted(tasks.items()):
        totals.add(usage)
    return totals


def summary(tasks: Mapping[str, Usage], prices: Mapping[str, Any] | None) -> dict[str, Any]:
    """Returns the field `USAGE` of results.json; empty if nothing states the usage of requests, as of other tools.

    Args:
        tasks: Totals of each task.
        prices: The prices of the manifest, None without.
    """
    overall = total(tasks)
    if not (any(overall.tokens) or overall.seconds):
        return {}
    prices = prices or {}
    field = overall.as_json(prices) | {"tasks": {task: usage.as_json(prices) for task, usage in sorted(tasks.items())}}
    return field | ({"prices": dict(prices)} if prices else {})


def seconds(tasks: Mapping[str, Usage]) -> dict[str, Any]:
    """Returns the field `SECONDS` of a manifest: the sum of the requests' durations, in all and by task."""
    by_task = {task: round(usage.seconds, 3) for task, usage in sorted(tasks.items())}
    return {SECONDS: {"all": round(total(tasks).seconds, 3), "tasks": by_task}}


def spent(results: Mapping[str, Any]) -> str:
    """Returns the cost of a run in a line for people, "" if no prices are known.

    "cost: 1.2345 USD for 812,000 tokens in (9,000 cached) and 61,000 out (20,000 reasoning), without judges"
    """
    usage = results.get(USAGE) or {}
    if "cost" not in usage:
        return ""
    cached, thought = usage["cached_tokens"], usage["reasoning_tokens"]
    read = f"{usage['input_tokens']:,} tokens in" + (f" ({cached:,} cached)" if cached else "")
    written = f"{usage['output_tokens']:,} out" + (f" ({thought:,} reasoning)" if thought else "")
    return f"cost: {money(usage['cost'])} {usage['prices']['currency']} for {read} and {written}, without judges"


def money(amount: float) -> str:
    """Returns an amount with two decimals, or with four significant digits if it is small."""
    return f"{amount:,.2f}" if amount >= 10 or not amount else f"{amount:.4g}"
