"""Cut answers finished: continued where the server goes on from an answer's beginning, else asked again.

The line of a finished answer replaces the cut one. It holds the whole answer and the tokens of all its
requests; its field `finished` has the progress.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import orjson

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import CallError
from lyncean.vocabulary.outcomes import Outcome
from orchestrator.engine.ledger import Ledger
from orchestrator.engine.wire import Response
from orchestrator.run_folder.cut import LIMIT, Finished, FinishLine, answer_tokens, line_is_cut
from orchestrator.run_folder.files import RESPONSES
from orchestrator.run_folder.scanning import scan
from orchestrator.samples import Call, Message, text_part

_SUMMED = ("input_tokens", "output_tokens", "reasoning_tokens", "cached_tokens")


class Begun(NamedTuple):
    """A cut answer that is being finished.

    Attributes:
        line: Its line in `responses.jsonl`.
        prefix: Text that the request continues; "" if it asks again.
        limit: The most output tokens of the request.
    """

    line: Mapping[str, Any]
    prefix: str
    limit: int


class Finishing:
    """The cut answers of a run that are to be finished.

    Args:
        limit: Most output tokens of an answer in all; 0 finishes none.
        ledger: The run's state.

    Raises:
        RunLogError: If a line is damaged.
    """

    def __init__(self, limit: int, ledger: Ledger) -> None:
        self._limit, self._ledger = limit, ledger
        self._open: dict[str, int] = {}
        log = ledger.log
        for offset, line in scan(log.path / RESPONSES, FinishLine) if limit else ():
            self._open.pop(line.key, None)
            if line.response.finish_reason == LIMIT:
                self._open[line.key] = offset
        for key, offset in list(self._open.items()):
            if not self._is_short(log.responses.read(offset)):
                del self._open[key]

    def is_open(self, key: str) -> bool:
        """Returns whether the last line of an answer is cut and is to be finished."""
        return key in self._open

    def is_stale(self, key: str, earlier: str) -> bool:
        """Returns whether a turn was asked with the cut answer of its earlier turn, which is finished by now."""
        if not self._limit:
            return False
        return self._ledger.log.entry(key).offset < self._ledger.log.entry(earlier).offset

    def take(self, key: str, offset: int) -> bool:
        """Notes a cut answer whose line was written; returns whether it is to be finished."""
        if self._limit and self._is_short(self._ledger.log.responses.read(offset)):
            self._open[key] = offset
        return key in self._open

    def merged(self, key: str, begun: Begun, response: Response) -> tuple[Response, Finished]:
        """Returns the whole answer with the tokens of all its requests, and its progress."""
        self._open.pop(key, None)
        return _merged(begun, response, self._limit)

    def leave(self, key: str, begun: Begun, error: CallError) -> None:
        """Leaves an answer cut that cannot be finished: in this process, or for good if the server refuses to."""
        self._open.pop(key, None)
        if error.consequence.outcome is Outcome.FAILED:
            self._ledger.accounting.unfinished += 1
            return
        outcome = Outcome(begun.line["outcome"]) if "outcome" in begun.line else None
        self._ledger.add_response(key, outcome, _given_up(begun.line, self._limit, error.reason))

    def _is_short(self, line: Mapping[str, Any]) -> bool:
        """Returns whether the answer on a line of `responses.jsonl` is cut and may be longer."""
        done = (line.get("finished") or {}).get("limit", 0)
        cut = line.get("response", {}).get("finish_reason") == LIMIT and line_is_cut({**line, "after_cut": False})
        return cut and done < self._limit and answer_tokens(line) < self._limit


def applied(call: Call, line: Mapping[str, Any], limit: int, info: model.GetModelInfoResponse) -> tuple[Call, Begun]:
    """Returns the request that finishes a cut answer.

    Args:
        call: The request of the answer, as the run makes it.
        line: The line of the answer.
        limit: Most output tokens of the answer in all.
        info: The model that is asked.
    """
    config = model.GenerationConfig()
    config.CopyFrom(call.config)
    prefix = _prefix(call, line) if model.CAPABILITY_ANSWER_PREFIX in info.capabilities else ""
    config.max_output_tokens = limit - answer_tokens(line) if prefix else limit
    begun = Begun(line, prefix, config.max_output_tokens)
    if not prefix:
        return replace(call, config=config), begun
    config.ClearField("thinking_budget")  # the reasoning is over
    beginning = Message(model.ROLE_ASSISTANT, (text_part(prefix),), line["response"].get("reasoning", ""))
    return replace(call, messages=(*call.messages, beginning), config=config), begun


def _prefix(call: Call, line: Mapping[str, Any]) -> str:
    """Returns the text that a server can continue; "" where that would differ from an answer without a limit.

    Reasoning that was cut, or that the server keeps to itself, cannot be continued: an answer's beginning closes it.
    """
    response = line["response"]
    secret = int((response.get("usage") or {}).get("reasoning_tokens", 0)) and not response.get("reasoning")
    prefilled = call.messages[-1].role == model.ROLE_ASSISTANT
    if secret or prefilled or call.config.HasField("response_format") or call.config.top_logprobs:
        return ""
    # White space at the end may not survive a chat template: the model says it again.
    return "".join(part.get("text", "") for part in response["parts"]).rstrip()


def _merged(begun: Begun, response: Response, limit: int) -> tuple[Response, Finished]:
    assert isinstance(response, model.GenerateResponse)
    earlier, before = begun.line["response"], begun.line["response"].get("usage") or {}
    merged = model.GenerateResponse()
    merged.CopyFrom(response)
    new = "".join(part.text for part in response.parts)
    new_tokens = response.usage.output_tokens or begun.limit
    length = new_tokens
    if begun.prefix:
        del merged.parts[:]
        merged.parts.add(text=begun.prefix + new)
        merged.reasoning = earlier.get("reasoning", "") + response.reasoning
        length += answer_tokens(begun.line)
    for name in _SUMMED:
        setattr(merged.usage, name, getattr(merged.usage, name) + int(before.get(name, 0)))
    # A server with a lower limit of its own is asked again as long as it adds text.
    more = bool(begun.prefix and new.strip()) and new_tokens < begun.limit
    return merged, Finished(0 if more else limit, length, begun.prefix != "", _spent(begun.line))


def _given_up(line: Mapping[str, Any], limit: int, why: str) -> bytes:
    """Returns the line of a cut answer that the server does not finish, without its checksum."""
    kept = {name: value for name, value in line.items() if name != "crc32"}
    continued = (line.get("finished") or {}).get("continued", False)
    finished = {"limit": limit, "tokens": answer_tokens(line), "continued": continued, "before": _spent(line)}
    return orjson.dumps({**kept, "finished": {**finished, "error": why}})


def _spent(line: Mapping[str, Any]) -> int:
    """Returns the tokens, in and out, that a line counts."""
    usage = line["response"].get("usage") or {}
    return int(usage.get("input_tokens", 0)) + int(usage.get("output_tokens", 0))
