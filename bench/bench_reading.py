"""How many answers a second each rule reads on one core, from a request to its verdict.

    python bench/bench_reading.py [--rounds 15] [--json]

CPU time, which a busy machine lengthens too: each figure is the lower quartile of the rounds, and
beside it stands what a fixed piece of work took in the same rounds, by which two runs compare.

Beside single answers, each read again and again, the answers of the corpus that the tests hold are
read one after the other: their mean is the figure for a mix.
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
    """One measured load: its rate, and the rate by the fixed piece of work's own."""

    rule: str
    answer: str
    per_second: int
    by_yardstick: float


def request(rule: str, text: str) -> pb.ScoreRequest:
    """Returns the request that an answer makes, reasoning tags taken off as the service does."""
    answer = reasoning.split(text).answer
    return pb.ScoreRequest(key="k", rule=rule, text=answer, options=_OPTIONS.get(rule, []), targets=[_TARGETS[rule]])


def yardstick() -> float:
    """Returns the CPU seconds of a fixed piece of work."""
    start = time.thread_time()
    for number in range(20_000):
        str(number).encode().hex()
    return time.thread_time() - start


def reader(rule: str) -> Callable[[pb.ScoreRequest], pb.Verdict]:
    """Returns what reads an answer by a rule."""
    found = rules().get(rule)
    if not isinstance(found, Rule):
        raise TypeError(f"{rule} asks a judge")
    return found.read


def seconds(rule: str, text: str, times: int) -> float:
    """Returns the CPU seconds that reading an answer takes, the mean of so many readings."""
    read = reader(rule)
    start = time.thread_time()
    for _ in range(times):
        read(request(rule, text))
    return (time.thread_time() - start) / times


def corpus(rule: str = "") -> list[tuple[Callable[[pb.ScoreRequest], pb.Verdict], pb.ScoreRequest]]:
    """Returns every answer of the corpus, or those that one rule reads, with what reads it."""
    cases = [
        json.loads(line) for path in sorted(CORPUS.glob("*.jsonl")) for line in path.read_text("utf-8").splitlines()
    ]
    read = {name: reader(name) for name in _TARGETS}
    asked = []
    for case in cases:
        if rule in ("", case["rule"]):
            labels = case["params"].get("labels", ["A"])
            target = {"choice": labels[0], "two_way": (case["options"] or [""])[0]}.get(case["rule"], "1")
            text = reasoning.split(case["text"]).answer
            one = pb.ScoreRequest(key="k", rule=case["rule"], text=text, options=case["options"], targets=[target])
            one.params.update(case["params"])
            asked.append((read[case["rule"]], one))
    return asked


def mean(asked: list[tuple[Callable[[pb.ScoreRequest], pb.Verdict], pb.ScoreRequest]]) -> float:
    """Returns the CPU seconds that reading an answer takes on average."""
    start = time.thread_time()
    for read, one in asked:
        read(one)
    return (time.thread_time() - start) / len(asked)


def phrases() -> Iterator[list[str]]:
    """Yields the options of one question after the other, four phrases each, no two of them the same."""
    every = itertools.product(range(7), _WHAT, _THING, _THING)
    for shift, what, thing, other in every:
        yield [f"The {_WHO[shift + place]} {what} the {thing} near the {other}" for place in range(4)]


def unseen(options: Iterator[list[str]], times: int) -> float:
    """Returns the CPU seconds that an answer to a question takes whose options were not met before."""
    read = reader("choice")
    every = [
        pb.ScoreRequest(rule="choice", text=LOADS[1][2], options=next(options), targets=["B"]) for _ in range(times)
    ]
    return mean([(read, one) for one in every])


def measure(rounds: int) -> list[Row]:
    """Times all loads in turn, so many rounds."""
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
        for place, (_, _, once) in enumerate(timed):
            taken[place].append(once())
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
    """Measures how fast the rules read."""
    rows = measure(rounds)
    if as_json:
        click.echo(json.dumps([asdict(row) for row in rows], indent=2))
        return
    for row in rows:
        click.echo(f"{row.rule:14} {row.answer:32} {row.per_second:>9,}/s  {row.by_yardstick:>8} per yardstick")


if __name__ == "__main__":
    main()
