"""How many answers a second each rule reads on one core, from a request to its verdict.

    python bench/bench_reading.py [--rounds 15] [--json]

CPU time, which a busy machine lengthens too: each figure is the lower quartile of the rounds, and
beside it stands what a fixed piece of work took in the same rounds, by which two runs compare.
"""

from __future__ import annotations

import json
import statistics
import time
from dataclasses import asdict, dataclass

import click

from lynceus.scorer.v1 import scorer_pb2 as pb
from scorer import reasoning
from scorer.rules import rules
from scorer.rules.base import Rule

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
    start = time.process_time()
    for number in range(20_000):
        str(number).encode().hex()
    return time.process_time() - start


def seconds(rule: str, text: str, times: int) -> float:
    """Returns the CPU seconds that reading an answer takes, the mean of so many readings."""
    found = rules().get(rule)
    if not isinstance(found, Rule):
        raise TypeError(f"{rule} asks a judge")
    read = found.read
    start = time.process_time()
    for _ in range(times):
        read(request(rule, text))
    return (time.process_time() - start) / times


def measure(rounds: int) -> list[Row]:
    """Times all loads in turn, so many rounds."""
    taken: list[list[float]] = [[] for _ in LOADS]
    fixed = []
    for _ in range(rounds + 1):
        fixed.append(yardstick())
        for place, (rule, _, text) in enumerate(LOADS):
            taken[place].append(seconds(rule, text, 40 if len(text) < 200 else 15))
    rows = []
    for (rule, name, _), times in zip(LOADS, taken, strict=True):
        one = statistics.quantiles(times[1:], n=4)[0]
        by = statistics.quantiles([at / work for at, work in zip(times[1:], fixed[1:], strict=True)], n=4)[0]
        rows.append(Row(rule, name, round(1 / one), round(1 / by, 1)))
    return rows


@click.command()
@click.option("--rounds", default=15, show_default=True, type=click.IntRange(4))
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
