"""Measures the answers per second that each rule reads on one core, from a request to its verdict.

    python bench/bench_reading.py [--rounds 15] [--json]

A busy machine lengthens CPU time too: each result is the lower quartile of the rounds, next to
the time of a fixed piece of work in the same rounds, by which two runs can be compared.

Single answers are read repeatedly. The answers of the tests' corpus are read once each: their
mean is the result for a mix.
"""

from __future__ import annotations

import itertools
import json
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import click

from lyncean.scorer.v1 import scorer_pb2 as pb
from scorer.reading import reasoning
from scorer.rule import Rule
from scorer.rules import rules

MATERIALS = ["cotton", "leather", "wool", "rubber"]
_STEPS = (
    "The first row shows a circle, a square and a triangle, each with a dot that moves one corner further.",
    "In the second row the same shapes appear again, but the shading alternates between filled and empty.",
    "Option A keeps the shape but not the shading, so it does not follow the rule of the columns.",
    "If we compare the third column, the number of dots grows from one to two and then to three.",
    "Option B has three dots, but its triangle points down, which breaks the rotation seen before.",
    "The outline is thick in every second panel and thin in the others, from left to right.",
)
LONG = " ".join(_STEPS * 3) + " Therefore, the correct answer is C."
HEADED = "\n\n".join(f"### Step {n}\n\n- {step}" for n, step in enumerate(_STEPS * 3, 1)) + "\n\n**Answer:** C"
LISTED = (
    "A) cotton: too soft for this surface.\nB) leather: matches the shine and the seams.\n"
    "C) wool: would look fuzzy.\nD) rubber: would have no seams.\nThe answer is B."
)
NAMING = (
    "Looking at the glove, cotton can be ruled out, since the surface is smooth. Wool would look fuzzy, and the seams "
    "are visible at the fingers. The shine and the folds are typical of leather, so the answer is B."
)
CHOICES = (
    "Choice 1 has two dots and choice 2 has four dots, but the pattern needs three dots in the last panel. "
    "Therefore the answer is choice 3."
)
LOADS: tuple[tuple[str, str, str], ...] = (
    ("choice", "a letter", "B"),
    ("choice", "a short statement", "The answer is (B)."),
    ("choice", "a box", "The final answer is $\\boxed{B}$."),
    ("choice", "a sentence with the option", "Based on the image, the glove appears to be made of leather."),
    ("choice", "two lines of Markdown", "**Answer:** B. leather\n\nThe surface is smooth and shiny."),
    ("choice", "40 words, three options", NAMING),
    ("choice", "five lines, every option", LISTED),
    ("choice", "300 words of reasoning", LONG),
    ("choice", "300 words, headings and lists", HEADED),
    ("choice", "300 words in <think>", f"<think>{LONG}</think>\nThe answer is C."),
    ("choice_number", "a short statement", "The answer is choice 3."),
    ("choice_number", "25 words, three choices", CHOICES),
    ("count", "a short statement", "There are 5 panels."),
    ("count", "a sum", "3 in the top row and 3 in the bottom row, which makes 6."),
    ("two_way", "a sentence", "It is in the upper part."),
)
CORPUS = Path(__file__).resolve().parent.parent / "tests" / "scorer" / "corpus"
_WHO = ("man", "woman", "child", "dog", "cat", "horse", "girl", "boy", "teacher", "player")
_WHAT = ("holding", "watching", "carrying", "painting", "moving")
_THING = ("umbrella", "bicycle", "ladder", "basket", "lamp", "table", "window", "guitar", "suitcase", "mirror")
_TARGETS = {"choice": "B", "choice_number": "3", "count": "5", "two_way": "top"}
_OPTIONS = {"choice": MATERIALS, "two_way": ["top", "bottom"]}


@dataclass
class Row:
    """One measured load: its rate, and its rate relative to that of the fixed piece of work."""

    rule: str
    answer: str
    per_second: int
    by_yardstick: float


def request(rule: str, text: str) -> pb.ScoreRequest:
    """Returns the request of an answer, without reasoning tags, as in the service."""
    answer = reasoning.split(text).answer
    return pb.ScoreRequest(key="k", rule=rule, text=answer, options=_OPTIONS.get(rule, []), targets=[_TARGETS[rule]])


def yardstick() -> float:
    """Returns the CPU seconds of a fixed piece of work."""
    start = time.thread_time()
    for number in range(20_000):
        str(number).encode().hex()
    return time.thread_time() - start


def reader(rule: str) -> Callable[[pb.ScoreRequest], pb.Verdict]:
    """Returns the function by which a rule reads an answer."""
    known = rules().get(rule)
    if not isinstance(known, Rule):
        raise TypeError(f"{rule} asks a judge")
    return known.read


def seconds(rule: str, text: str, times: int) -> float:
    """Returns the mean CPU seconds of reading an answer, over `times` readings."""
    read = reader(rule)
    start = time.thread_time()
    for _ in range(times):
        read(request(rule, text))
    return (time.thread_time() - start) / times


def corpus(rule: str = "") -> list[tuple[Callable[[pb.ScoreRequest], pb.Verdict], pb.ScoreRequest]]:
    """Returns every answer of the corpus, or those of one rule, with the function that reads it."""
    cases = [
        json.loads(line) for path in sorted(CORPUS.glob("*.jsonl")) for line in path.read_text("utf-8").splitlines()
    ]
    read = {name: reader(name) for name in _TARGETS}
    requests = []
    for case in cases:
        if rule in ("", case["rule"]):
            labels = case["params"].get("labels", ["A"])
            target = {"choice": labels[0], "two_way": (case["options"] or [""])[0]}.get(case["rule"], "1")
            text = reasoning.split(case["text"]).answer
            one = pb.ScoreRequest(key="k", rule=case["rule"], text=text, options=case["options"], targets=[target])
            one.params.update(case["params"])
            requests.append((read[case["rule"]], one))
    return requests


def mean(requests: list[tuple[Callable[[pb.ScoreRequest], pb.Verdict], pb.ScoreRequest]]) -> float:
    """Returns the mean CPU seconds of reading an answer."""
    start = time.thread_time()
    for read, one in requests:
        read(one)
    return (time.thread_time() - start) / len(requests)


def phrases() -> Iterator[list[str]]:
    """Yields the options of one question after another, four phrases each, all different."""
    every = itertools.product(range(7), _WHAT, _THING, _THING)
    for shift, action, thing, other in every:
        yield [f"The {_WHO[shift + index]} {action} the {thing} near the {other}" for index in range(4)]


def unseen(options: Iterator[list[str]], times: int) -> float:
    """Returns the mean CPU seconds of reading an answer whose options are new to the rule."""
    read = reader("choice")
    every = [
        pb.ScoreRequest(rule="choice", text=LOADS[1][2], options=next(options), targets=["B"]) for _ in range(times)
    ]
    return mean([(read, one) for one in every])


def measure(rounds: int) -> list[Row]:
    """Measures all loads in turn, for a number of rounds."""
    timed: list[tuple[str, str, Callable[[], float]]] = [
        (rule, name, partial(seconds, rule, text, 40 if len(text) < 200 else 15)) for rule, name, text in LOADS
    ]
    timed += [
        ("choice", "a statement, options not met", partial(unseen, phrases(), 40)),
        ("choice", "the corpus", partial(mean, corpus("choice"))),
        ("all four", "the whole corpus", partial(mean, corpus())),
    ]
    taken: list[list[float]] = [[] for _ in timed]
    fixed = []
    for _ in range(rounds + 1):
        fixed.append(yardstick())
        for index, (_, _, once) in enumerate(timed):
            taken[index].append(once())
    rows = []
    for (rule, name, _), times in zip(timed, taken, strict=True):
        one = statistics.quantiles(times[1:], n=4)[0]
        by = statistics.quantiles([at / work for at, work in zip(times[1:], fixed[1:], strict=True)], n=4)[0]
        rows.append(Row(rule, name, round(1 / one), round(1 / by, 1)))
    return rows


@click.command()
@click.option("--rounds", default=15, show_default=True, type=click.IntRange(2, 80))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def main(rounds: int, as_json: bool) -> None:
    """Measures the speed of the rules."""
    rows = measure(rounds)
    if as_json:
        click.echo(json.dumps([asdict(row) for row in rows], indent=2))
        return
    for row in rows:
        click.echo(f"{row.rule:14} {row.answer:32} {row.per_second:>9,}/s  {row.by_yardstick:>8} per yardstick")


if __name__ == "__main__":
    main()
