"""`--answer likelihood-after-reasoning`: the model reasons freely, then the options are scored after its reasoning."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from lyncean.model.v1 import model_pb2 as model
from orchestrator.data.rows import DataError
from orchestrator.errors import ConfigError
from orchestrator.run_folder.cut import FinishLine
from orchestrator.run_folder.files import RESPONSES
from orchestrator.run_folder.scanning import scan
from orchestrator.samples import Answer, Call, Message, Sample, Scoring, Turn, text_part

NAME = "likelihood-after-reasoning"
NEEDS = ("LIKELIHOOD", "ANSWER_PREFIX")
"""Capabilities beside GENERATE."""
PHRASE = "The answer is"
"""End of the assistant's text; an option follows after a blank."""
_TURN = "reasoning"
OUTPUT_TOKENS = 4096
"""Bound on the first output where the benchmark's own, which is often that of a letter, is lower."""


def reason_then_score(samples: Iterable[Sample], likelihood: Callable[[], Iterable[Sample]]) -> Iterator[Sample]:
    """Yields a row's samples, each with a turn more: `reasoning`, then the scored turn under its own key.

    Args:
        samples: Those of the method "generate".
        likelihood: Makes those of the method "likelihood", none where the benchmark does not have it: they say what
            the options are where the rule of the answer does not.

    Raises:
        ConfigError: If an item is not a choice.
    """

    @cache
    def scorings() -> Mapping[str, Scoring]:
        scorings = ((sample.item_key(turn), turn.scoring) for sample in likelihood() for turn in sample.turns)
        return {key: scoring for key, scoring in scorings if scoring and scoring.rule == "likelihood"}

    for sample in samples:
        *before, last = sample.turns
        if last.scoring is None or any(turn.scoring for turn in before):
            raise ConfigError(f"--answer {NAME}: {sample.key} has several scored turns, and one is needed")
        key = sample.item_key(last)
        scoring = _choice(key, last.scoring) or scorings().get(key)
        if scoring is None or not scoring.options:
            raise ConfigError(f"--answer {NAME}: {key} is not a choice (rule {last.scoring.rule}): drop it or the task")
        yield replace(sample, turns=(*before, _reasoning(last), _scored(last, scoring)))


def _reasoning(turn: Turn) -> Turn:
    def ask(answers: Sequence[Answer]) -> Call:
        call = turn.ask(answers)
        config = model.GenerationConfig()
        config.CopyFrom(call.config)
        config.ClearField("stop")
        config.max_output_tokens = max(config.max_output_tokens, OUTPUT_TOKENS)
        return replace(call, config=config)

    return Turn(ask, f"{turn.name}-{_TURN}" if turn.name else _TURN, may_be_cut=True)


def cut_samples(run: Path, manifest: Mapping[str, Any]) -> set[str]:
    """Returns the samples whose first output was cut: the lines of older runs do not say so of their second.

    Raises:
        RunLogError: If a line is damaged.
    """
    if (manifest["identity"].get("deviations") or {}).get("answer") != NAME:
        return set()
    lines = (line for _, line in scan(run / RESPONSES, FinishLine) if line.turn.endswith(_TURN))
    ends = {line.sample: line.response.finish_reason for line in lines}
    return {sample for sample, end in ends.items() if end == model.FinishReason.Name(model.FINISH_REASON_MAX_TOKENS)}


def _scored(turn: Turn, scoring: Scoring) -> Turn:
    def ask(answers: Sequence[Answer]) -> Call:
        *earlier, reasoning = answers
        call = turn.ask(earlier)
        text = "\n\n".join(filter(None, (reasoning.text.rstrip(), PHRASE)))
        begun = Message(model.ROLE_ASSISTANT, (text_part(text),), reasoning.reasoning)
        return replace(call, messages=(*call.messages, begun), continuations=tuple(f" {o}" for o in scoring.options))

    return Turn(ask, turn.name, scoring)


def _choice(key: str, scoring: Scoring) -> Scoring | None:
    """Returns how the options' likelihoods are scored, None where the rule does not say what the options are."""
    count = len(scoring.options) or int(scoring.params.get("count", 4))
    match scoring.rule:
        case "choice":
            labels = tuple(scoring.params.get("labels", ascii_uppercase[:count]))
        case "choice_number":
            labels = tuple(str(number) for number in range(1, count + 1))
        case "two_way" | "yes_no":
            labels = scoring.options
        case _:
            return None
    targets = tuple(_label(key, target, labels, scoring.options) for target in scoring.targets)
    return replace(scoring, rule="likelihood", targets=targets, options=labels, params={})


def _label(key: str, target: str, labels: Sequence[str], options: Sequence[str]) -> str:
    """Returns a target as a label; like the rules for choices, takes an option's text as well."""
    plain = target.strip().strip("().").lower()
    if named := [label for label in labels if target == label or plain == label.lower()]:
        return named[0]
    if list(options).count(target) == 1:
        return labels[list(options).index(target)]
    raise DataError(f"{key}: the right answer {target!r} is none of the options {', '.join(labels)}")
