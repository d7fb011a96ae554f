"""Answers that the output limit ended, by the lines and the results of a run folder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from msgspec import Struct

CUT_REASONING = "cut_reasoning"
"""Reason of an item whose reasoning the output limit ended before its answer began."""

FINISH_CUT = "finish_cut"
"""Field of the manifest: the most output tokens to which cut answers are finished."""

LIMIT = "FINISH_REASON_MAX_TOKENS"
"""Finish reason of an output that the limit cut, as a line has it."""


class Finished(Struct, frozen=True, omit_defaults=True):
    """Progress of finishing a cut answer.

    Attributes:
        limit: The most output tokens to which it was finished; 0 if the server can go on.
        tokens: Output tokens of the answer as it is.
        continued: Whether it goes on from the cut one; otherwise it was asked for again.
        before: Tokens, in and out, of its earlier requests, which the line's usage counts once more.
        error: Why the server does not finish it, "" where it did.
    """

    limit: int = 0
    tokens: int = 0
    continued: bool = False
    before: int = 0
    error: str = ""


class _Finish(Struct, frozen=True):
    finish_reason: str = ""


class FinishLine(Struct):
    """Of a line of `responses.jsonl`, the reason that its output ended; "" without an output."""

    key: str
    sample: str
    turn: str
    response: _Finish = _Finish()


class CutCount(NamedTuple):
    """Number of cut answers among the planned items."""

    items: int
    planned: int

    @property
    def share(self) -> float:
        """The share of planned items."""
        return self.items / max(1, self.planned)

    def __str__(self) -> str:
        """Returns "14 of 40 items (35.0%)"."""
        return f"{self.items:,} of {self.planned:,} items ({self.share:.1%})"


def cut_counts(tasks: Mapping[str, Mapping[str, Any]]) -> dict[str, CutCount]:
    """Returns the counts in the results of tasks, without older results that do not count cut answers."""
    return {
        task: CutCount(int(results["cut"]["items"]), int(results["counts"]["planned"]))
        for task, results in tasks.items()
        if "cut" in results
    }


def total(counts: Mapping[str, CutCount]) -> CutCount:
    """Returns the counts of several tasks in one."""
    return CutCount(sum(count.items for count in counts.values()), sum(count.planned for count in counts.values()))


def answer_tokens(line: Mapping[str, Any]) -> int:
    """Returns the output tokens of the answer on a line of `responses.jsonl`; its limit if no server counts them."""
    if "finished" in line:
        return int(line["finished"]["tokens"])
    response, request = line.get("response") or {}, line.get("request") or {}
    used = int((response.get("usage") or {}).get("output_tokens", 0))
    limits = (
        (config or {}).get("max_output_tokens", 0)
        for config in (response.get("effective_config"), request.get("config"))
    )
    return used or next((int(limit) for limit in limits if limit), 0)


def line_is_cut(line: Mapping[str, Any]) -> bool:
    """Returns whether the answer on a line of `responses.jsonl` is cut, or follows an output that is."""
    if line.get("after_cut"):
        return True
    response = line.get("response") or {}
    if response.get("finish_reason") != LIMIT:
        return (line.get("error") or {}).get("reason") == CUT_REASONING
    form = ((line.get("request") or {}).get("config") or {}).get("response_format") or {}
    choices = (form.get("choices") or {}).get("texts", ())
    # An answer held to choices is complete once it is one of them.
    return "".join(part.get("text", "") for part in response["parts"]) not in choices
