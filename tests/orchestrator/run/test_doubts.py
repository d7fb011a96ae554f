"""Doubts about results: what gives one, and what does not."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from msgspec.json import decode

from lyncean.statistics.intervals import wilson
from lyncean.vocabulary.outcomes import Outcome
from orchestrator.run.doubts import Answers, of_run
from orchestrator.run_folder.lines import VerdictLine, encode, sealed
from orchestrator.run_folder.reader import Run
from orchestrator.run_folder.records import outcome_line
from orchestrator.run_folder.validity import of_counts, of_group

LETTERS = "ABCD"


def line(number: int, extracted: str, target: str, **more: object) -> VerdictLine:
    fields = {"key": f"t/{number}", "outcome": "scored", "task": "t", "rule": "choice", "labels": {}, "group": ""}
    fields |= {"extracted": extracted, "targets": [target], "options": list(LETTERS)}
    fields["score"] = float(extracted == target)
    return VerdictLine(**{**fields, **more})  # type: ignore[arg-type]


def causes(folder: Path, lines: list[VerdictLine], **identity: object) -> list[str]:
    """The doubts about a run of these verdicts, without the answers' texts."""
    answers, right = Answers(), sum(float(verdict.score) for verdict in lines)
    for verdict in lines:
        answers.add(verdict)
    (folder / "verdicts.jsonl").write_bytes(b"".join(sealed(encode(verdict)) + b"\n" for verdict in lines))
    share = right / len(lines)
    low, high = wilson(right, len(lines))
    metric = {"name": "accuracy", "metric": "accuracy", "value": share, "unit": "fraction", "denominator": len(lines)}
    metric["interval"] = {"low": low, "high": high, "level": 0.95, "method": "wilson"}
    counts = {"planned": len(lines), "scored": sum(verdict.outcome == "scored" for verdict in lines)}
    counts["unparsed"] = len(lines) - counts["scored"]
    results = {"tasks": {"t": {"counts": counts, "metrics": [metric]}}}
    return [str(doubt.cause) for doubt in of_run(Run(folder, {"identity": identity}, results), {"t": answers})["t"]]


def drawn(seed: int, items: int, share: float) -> list[VerdictLine]:
    """Verdicts on a model that is right in a share of the items and guesses in the others."""
    draw = random.Random(seed)
    truths = [draw.choice(LETTERS) for _ in range(items)]
    return [line(n, t if draw.random() < share else draw.choice(LETTERS), t) for n, t in enumerate(truths)]


@pytest.mark.parametrize(("share", "items"), [(0.0, 200), (0.0, 20), (0.3, 100), (0.9, 12)])
def test_an_honest_model_has_none(tmp_path: Path, share: float, items: int) -> None:
    """Also one that can do no more than guess."""
    doubts = [causes(tmp_path, drawn(seed, items, share)) for seed in range(200)]
    assert sum(map(bool, doubts)) <= 2


def test_one_answer_to_everything(tmp_path: Path) -> None:
    always = [line(n, "A", LETTERS[n % 4]) for n in range(12)]
    assert causes(tmp_path, always) == ["constant"]
    assert causes(tmp_path, always, blind=True) == []
    assert causes(tmp_path, [line(n, "A", "A") for n in range(50)]) == ["one_key"], "it is right"
    assert causes(tmp_path, [line(n, "A", "ABBA"[n % 4]) for n in range(6)]) == [], "six coins may fall alike"
    repeats = [line(n, "A", "B", key=f"t/0#{n}") for n in range(30)]
    assert "constant" not in causes(tmp_path, repeats), "a question has one answer, however often it is asked"


def test_the_right_option_always_has_one_place(tmp_path: Path) -> None:
    draw = random.Random(1)
    known = [line(n, "A" if n % 2 else draw.choice(LETTERS), "A") for n in range(60)]
    assert causes(tmp_path, known) == ["one_key"]
    assert causes(tmp_path, known[:19]) == [], "so few may fall alike"
    assert causes(tmp_path, [*known, line(60, "B", "B")]) == []
    answers = [line(n, "yes", "yes", rule="two_way", options=["yes", "no"]) for n in range(60)]
    assert causes(tmp_path, answers) == [], "options that are not places"


def test_fewer_right_than_guesses_would_be(tmp_path: Path) -> None:
    wrong = [line(n, LETTERS[(n + 1) % 4], LETTERS[n % 4]) for n in range(60)]
    assert causes(tmp_path, wrong) == ["below_chance"]
    assert causes(tmp_path, wrong, blind=True) == []
    open_answers = [line(n, f"word {n}", "dog", rule="contains_word", options=[]) for n in range(12)]
    assert causes(tmp_path, open_answers) == ["none_right"]


def test_options_that_an_image_shows_count_too(tmp_path: Path) -> None:
    scoring = {"rule": "choice", "targets": ["B"], "options": [], "labels": {}, "group": ""}
    for params, choices in (({}, 4), ({"count": 6}, 6), ({"labels": ["I", "II", "III"]}, 3)):
        line_of = outcome_line("t/0", Outcome.UNPARSED, "no_choice", "", "t", {**scoring, "params": params})
        assert decode(line_of, type=VerdictLine).choices == choices
    named = outcome_line("t/0", Outcome.UNPARSED, "no_choice", "", "t", {**scoring, "options": ["x"], "params": {}})
    assert b"choices" not in named
    shown = [line(n, LETTERS[(n + 1) % 4], LETTERS[n % 4], options=[], choices=4) for n in range(60)]
    assert causes(tmp_path, shown) == ["below_chance"]
    answers = Answers()
    for verdict in shown:
        answers.add(verdict)
    assert answers.chance == 0.25


@pytest.mark.parametrize(("rejected", "void"), [(50, False), (51, True)])
def test_half_of_the_items_is_the_limit(rejected: int, void: bool) -> None:
    doubts = of_counts({"planned": 100, "scored": 100 - rejected, "rejected": rejected}, None, 0)
    assert any(doubt.void for doubt in doubts) is void
    assert bool(of_group({"a": doubts, "b": []})) is void


def test_to_decline_is_a_doubt_unless_there_is_nothing_to_see() -> None:
    counts = {"planned": 10, "scored": 3, "refused": 7}
    assert [(doubt.cause, doubt.void) for doubt in of_counts(counts, None, 0)] == [("declined", False)]
    assert of_counts(counts, None, 0, blind=True) == []
    assert of_counts({"planned": 10, "refused": 10}, None, 0)[0].void
