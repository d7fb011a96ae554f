"""Why two runs score one item differently: one cause by a fixed order, with everything upstream that differs as well.

The order is decided in docs/decisions.md, "The causes of a difference".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

from lyncean.vocabulary.outcomes import Outcome
from orchestrator.compare.scores import flat
from orchestrator.compare.truth import truth
from orchestrator.run_folder.reader import Item, Run


class Cause(StrEnum):
    """Causes of a difference between two scores, in the order of the tables."""

    DATA = "data"
    """Only one run has the item, or row, targets or options differ."""
    PROMPT = "prompt"
    """The text that was sent differs."""
    IMAGE = "image"
    """Images, audio or videos differ in bytes, number or position."""
    LIMIT = "limit"
    """The output limit cut an answer: the other begins with it, or another limit was set."""
    DECODING = "decoding"
    """Settings differ: method, generation config, stop strings, limits."""
    SERVER = "server"
    """Model, revision, chat template, number format or serving software differ."""
    READING = "reading"
    """The answer is the same, its verdict differs: another rule, another version of it, or another judge."""
    AGGREGATION = "aggregation"
    """The item's result is the same; the metric counts or weighs it differently."""
    FAILURE = "failure"
    """One run has no answer: failed, rejected, withheld, or left unjudged."""
    UNRECORDED = "not recorded"
    """The answers differ, and one run does not record something upstream that may differ."""
    NOISE = "noise"
    """The answers differ; everything that is recorded is the same."""


UPSTREAM = (Cause.DATA, Cause.PROMPT, Cause.IMAGE, Cause.LIMIT, Cause.DECODING, Cause.SERVER)
"""Causes upstream of an answer, the first one upstream first."""

Edit = tuple[frozenset[tuple[str, int]], frozenset[tuple[str, int]]]
"""Word counts that only the first and only the second prompt has; words of the row cancel out."""

_OPTION = re.compile(r"^\s*\(?([A-Z])[.):]\s*(\S.*?)\s*$", re.MULTILINE)
_NO_LIST = str.maketrans("", "", "[]()'\" \n\t")
_WORD = re.compile(r"\w+|[^\w\s]")
_NO_PROMPTS = frozenset({"VLMEvalKit"})
"""Tools whose files hold the question but not the prompt built from it."""
_NOT_OF_THE_ROW = {Cause.LIMIT, Cause.DECODING, Cause.SERVER, Cause.READING}
_LIMITS = frozenset({"max_output_tokens", "effective.max_output_tokens"})
_SERVER = (
    *("model_name", "model_revision", "chat_template_sha256", "processor_sha256"),
    *("server_version", "compute_dtype", "properties"),
)


@dataclass(frozen=True, slots=True)
class Attribution:
    """The causes of one item's difference.

    Attributes:
        cause: The cause that comes first in the order.
        also: Further causes that are possible because they differ too, in order.
        unrecorded: Causes that at least one run does not record.
    """

    cause: Cause
    also: tuple[Cause, ...] = ()
    unrecorded: tuple[Cause, ...] = ()

    def __str__(self) -> str:
        """Returns the possible causes: "prompt or decoding"."""
        missing = f"not recorded: {', '.join(self.unrecorded)}"
        if self.cause is Cause.UNRECORDED:
            return f"{missing}; differs: {', '.join(self.also)}" if self.also else missing
        seen = " or ".join((self.cause, *self.also))
        return f"{seen}; {missing}" if self.unrecorded else seen


@dataclass(frozen=True, slots=True)
class Side:
    """The records of one run that concern one task.

    Attributes:
        imported: The tool that produced the answers, "" for a run of Lyncean.
        data: Hash of the data, "" if it is unknown.
        server: Properties of model and server that an answer depends on.
    """

    run: Run
    task: str
    imported: str
    data: str
    server: Mapping[str, Any]

    @classmethod
    def of(cls, run: Run, task: str) -> Side:
        """Reads a run's records of a task."""
        identity, imported = run.identity, str(run.identity.get("imported") or "")
        data = (identity.get("data") or {}).get(task) or {}
        # The hash of an import covers the answers, not the rows.
        sha256 = "" if imported else str(data.get("sha256", ""))
        server = flat({name: run.model.get(name) for name in _SERVER} | {"stages": identity.get("stages") or {}})
        return cls(run, task, imported, sha256, {name: value for name, value in server.items() if value})

    def rule(self, item: Item) -> tuple[str, str]:
        """Returns the rule that scored an item, and the rule's hash."""
        rule = str(item.verdict.get("rule") or item.scoring.get("rule", ""))
        return rule, str((self.run.manifest.get("rules") or {}).get(rule, ""))

    def lacks(self, item: Item) -> set[Cause]:
        """Returns the causes that are not recorded for an item's answer."""
        request = _request(item)
        recorded = {
            Cause.PROMPT: any(text for _, text in _texts(item)) and self.imported not in _NO_PROMPTS,
            # An imported item without images may have had some.
            Cause.IMAGE: bool(request) and (not self.imported or bool(media(item))),
            Cause.DECODING: "config" in request or item.response.get("method") == "likelihood",
            Cause.SERVER: bool(self.server),
        }
        return {cause for cause, there in recorded.items() if not there}


@dataclass(frozen=True)
class Attributor:
    """Attributes differences of two runs' items of one task to causes.

    `edits` counts the items whose prompts differ in the same words.
    """

    first: Side
    second: Side
    edits: Mapping[Edit, int]

    def __call__(self, one: Item | None, other: Item | None) -> Attribution:
        """Returns the causes of an item's difference; None is an item that a run does not have."""
        if one is None or other is None:
            return Attribution(Cause.DATA)
        silent = _unanswered(one), _unanswered(other)
        if silent[0] != silent[1]:
            return Attribution(Cause.FAILURE)
        same = silent[0] or (bool(one.response) and self._same_content(one, other))
        if self._other_truth(one, other):
            # Prompt and images follow from the row.
            differing = self._differing(one, other) & ({Cause.READING} if same else _NOT_OF_THE_ROW)
            return Attribution(Cause.DATA, _ordered(differing))
        if same:
            alike = (one.outcome, one.score, one.verdict.get("scores")) == (
                other.outcome, other.score, other.verdict.get("scores"),
            )  # fmt: skip
            return Attribution(Cause.AGGREGATION if alike else Cause.READING)
        if _is_beginning(one, other) or _is_beginning(other, one):
            return Attribution(Cause.LIMIT)
        return self._upstream(one, other)

    def _other_truth(self, one: Item, other: Item) -> bool:
        """Returns True if targets or options differ; a task's code that compares without targets may log some."""
        differing = other_truth(one, other)
        if (self.first.imported or self.second.imported) and not all(differing.get("targets", (True, True))):
            del differing["targets"]
        return bool(differing)

    def _same_content(self, one: Item, other: Item) -> bool:
        """Returns True if a rule reads the same from two answers; tools keep the sum or the mean of an option."""
        (text, images, scores), (*content, other_scores) = _readable(one), _readable(other)
        if [text, images] != content or not (self.first.imported or self.second.imported):
            return [text, images, scores] == [*content, other_scores]
        return len(scores) == len(other_scores) and all(map(_alike, scores, other_scores))

    def _upstream(self, one: Item, other: Item) -> Attribution:
        differing = self._differing(one, other)
        unrecorded = (self.first.lacks(one) | self.second.lacks(other)) - differing
        for cause in UPSTREAM:
            if cause in unrecorded:
                return Attribution(Cause.UNRECORDED, _ordered(differing), _ordered(unrecorded))
            if cause in differing:
                return Attribution(cause, _ordered(differing - {cause}), _ordered(unrecorded))
        return Attribution(Cause.NOISE, _ordered(differing))

    def _differing(self, one: Item, other: Item) -> set[Cause]:
        """Returns the recorded causes that differ upstream of two answers, and READING if their rules differ."""
        lacking = self.first.lacks(one) | self.second.lacks(other)
        differing: set[Cause] = set()
        if Cause.PROMPT not in lacking:
            differing |= self._words(one, other)
        if Cause.IMAGE not in lacking and (
            media(one) != media(other) or (not differing and _layout(one) != _layout(other))
        ):
            differing.add(Cause.IMAGE)
        if Cause.DECODING not in lacking and (settings := self._settings(one, other)):
            limited = (one.cut or other.cut) and settings & _LIMITS
            differing |= {Cause.LIMIT} if limited else set()
            differing |= {Cause.DECODING} if not limited or settings - _LIMITS else set()
        if Cause.SERVER not in lacking and _other_server(self.first, self.second):
            differing.add(Cause.SERVER)
        (rule, version), (other_rule, other_version) = self.first.rule(one), self.second.rule(other)
        if rule != other_rule or (version and other_version and version != other_version):
            differing.add(Cause.READING)
        return differing

    def _settings(self, one: Item, other: Item) -> set[str]:
        """Returns the settings that differ.

        A tool's greedy decoding is temperature 0, recorded or not. A limit that its log lacks is that of its model.
        """
        tools = self.first.imported, self.second.imported

        def unknown(name: str, values: tuple[Any, Any]) -> bool:
            if name == "max_output_tokens":
                return any(tool and value is None for tool, value in zip(tools, values, strict=True))
            return name == "temperature" and any(tools) and not any(values)

        return {name for name, values in decoding(one, other).items() if not unknown(name, values)}

    def _words(self, one: Item, other: Item) -> set[Cause]:
        """Returns PROMPT, DATA or both as the reason why two prompts differ; both if it is undecidable."""
        # Continuations that only one method sends belong to the method, which is a setting.
        both = bool(_request(one).get("continuations")) is bool(_request(other).get("continuations"))
        if _texts(one, continued=both) == _texts(other, continued=both):
            return set()
        difference = edit(one, other)
        if not any(difference) or self.edits.get(difference, 0) > 1:
            return {Cause.PROMPT}
        if _later(one) or _later(other):
            return set()  # the model's own earlier answers
        if self.first.data and self.first.data == self.second.data:
            return {Cause.PROMPT}
        row = {word for item in (one, other) for word in _WORD.findall(_row(item))}
        if row and (self._template | row).issuperset(word for words in difference for word, _ in words):
            return {Cause.PROMPT}
        return {Cause.DATA, Cause.PROMPT}

    @cached_property
    def _template(self) -> frozenset[str]:
        """Words in which most of the prompts differ."""
        count: Counter[str] = Counter()
        for difference, items in self.edits.items():
            for word in {word for words in difference for word, _ in words}:
                count[word] += items
        return frozenset(word for word, items in count.items() if items > max(1.0, sum(self.edits.values()) / 2))


def _other_server(one: Side, other: Side) -> bool:
    """Returns True if model or server differ; an import records only the model's name, without its owner."""
    if bool(one.imported) is bool(other.imported):
        return one.server != other.server
    names = [str(side.server.get("model_name", "")).replace("__", "/").rpartition("/")[2] for side in (one, other)]
    return names[0].casefold() != names[1].casefold()


def edit(one: Item, other: Item) -> Edit:
    """Returns the words in which two prompts differ. A changed template is the same edit in many items."""
    mine, theirs = (Counter(_WORD.findall(prompt(item))) for item in (one, other))
    return frozenset((mine - theirs).items()), frozenset((theirs - mine).items())


def _row(item: Item) -> str:
    """Returns the row of an item's data, which the scoring by a task's own code has; "" if it is not recorded."""
    return str((item.scoring.get("params") or {}).get("doc") or "")


def prompt(item: Item) -> str:
    """Returns the text that was sent, without the model's own earlier answers."""
    return "\n".join(text for _, text in _texts(item))


def media(item: Item) -> list[Mapping[str, Any]]:
    """Returns references to the images and clips that were sent, in order; equal references mean equal bytes."""
    return [
        {name: value for name, value in medium.items() if name not in ("media_type", "bytes_length")}
        for message in _messages(item)
        for part in message.get("parts", ())
        for kind, medium in part.items()
        if kind != "text"
    ]


def decoding(one: Item, other: Item) -> dict[str, tuple[Any, Any]]:
    """Returns the settings that differ, with both values; None is a setting that is not given."""
    requested = _settings(one), _settings(other)
    applied = [(item.response.get("response") or {}).get("effective_config") or {} for item in (one, other)]
    differing = _unequal(*requested)
    if all(applied):
        effective = _unequal(*(flat(config) for config in applied))
        differing |= {f"effective.{name}": values for name, values in effective.items() if name not in differing}
    return differing


def _unequal(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    names = sorted(one.keys() | other.keys())
    return {name: (one.get(name), other.get(name)) for name in names if one.get(name) != other.get(name)}


def _readable(item: Item) -> tuple[Any, ...]:
    """Returns the parts of an answer that a rule can read: text, images, log-probabilities."""
    answer = item.response.get("response") or {}
    images = [part["image"].get("sha256") for part in answer.get("parts", ()) if "image" in part]
    return item.text, images, answer.get("scores") or []


def _alike(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Returns True if two log-likelihoods have the same sum, or the same mean per token."""
    if bool(one.get("is_greedy")) != bool(other.get("is_greedy")):
        return False
    (total, mean), (other_total, other_mean) = (
        (float(score["logprob"]), float(score["logprob"]) / (score.get("token_count") or 1)) for score in (one, other)
    )
    return bool(total == other_total or mean == other_mean)


def _is_beginning(one: Item, other: Item) -> bool:
    """Returns True if an answer is cut and the other begins with it, reasoning included."""
    text = _full_text(one)
    return one.cut and bool(text) and text != _full_text(other) and _full_text(other).startswith(text)


def _full_text(item: Item) -> str:
    """Returns the reasoning and the text of an answer as one string."""
    return str((item.response.get("response") or {}).get("reasoning", "")) + item.text


def other_truth(one: Item, other: Item) -> dict[str, tuple[list[str], list[str]]]:
    """Returns targets and options if they differ; options that one run does not record do not count.

    A target may be an option's letter in one run and its number or text in the other, also of an option that only the
    prompt states.
    """
    differing, (mine, theirs) = {}, (truth(one), truth(other))
    for index, name in enumerate(("targets", "options")):
        recorded = index == 0 or (mine[1] and theirs[1])
        values, others = (list(item.scoring.get(name) or item.verdict.get(name) or ()) for item in (one, other))
        if not recorded or mine[index] == theirs[index] or values == others:
            continue
        if name == "options" or _named_in_prompt(one) != _named_in_prompt(other):
            differing[name] = values, others
    return differing


def _named_in_prompt(item: Item) -> str:
    """Returns the targets as one text, also of a list's text; for a letter the option that the prompt lists by it."""
    options = dict(_OPTION.findall(prompt(item)))
    targets = (str(target).strip() for target in item.scoring.get("targets") or item.verdict.get("targets") or ())
    return ",".join(options.get(target, target) for target in targets).translate(_NO_LIST)


def _ordered(causes: Iterable[Cause]) -> tuple[Cause, ...]:
    return tuple(sorted(causes, key=list(Cause).index))


def _request(item: Item) -> Mapping[str, Any]:
    return item.response.get("request") or {}


def _messages(item: Item) -> list[Mapping[str, Any]]:
    return [message for message in _request(item).get("messages", ()) if message.get("role") != "ROLE_ASSISTANT"]


def _texts(item: Item, *, continued: bool = True) -> list[tuple[str, str]]:
    texts = [
        (str(message.get("role")), "\n".join(part["text"] for part in message.get("parts", ()) if "text" in part))
        for message in _messages(item)
    ]
    scored = _request(item).get("continuations", ()) if continued else ()
    return [*texts, *(("continuation", str(text)) for text in scored)]


def _layout(item: Item) -> list[list[str]]:
    """Returns the kind of each part (text or media), message by message."""
    return [[kind for part in message.get("parts", ()) for kind in part] for message in _messages(item)]


def _settings(item: Item) -> dict[str, Any]:
    request = _request(item)
    method = item.response.get("method") or ("likelihood" if request.get("continuations") else "generate")
    return {"method": method, **flat(request.get("config") or {}), "modality": request.get("modality")}


def _later(item: Item) -> bool:
    """Returns True if a prompt may contain the model's own earlier answers."""
    roles = [message.get("role") for message in _request(item).get("messages", ())]
    return bool(item.response.get("turn")) or "ROLE_ASSISTANT" in roles


def _unanswered(item: Item) -> bool:
    """Returns True if an item lacks an answer that a rule or judge could read."""
    ended = item.response.get("outcome")
    withheld = ended is not None and (ended == Outcome.REFUSED or "response" not in item.response)
    return withheld or item.outcome == Outcome.UNJUDGED
