"""What a judge as second reader brings, replayed and simulated: `python bench/bench_second_reader.py [--answers N]`.

Replayed are the answers of the corpus that have a judge's reply (`judged`): the rules read them, the judge reads again
what `--judge-reads` hands to it, and both are held against what the answer's author says that it states.

Simulated: each answer has a class and a truth drawn from the measured rates of the rules
(`lyncean.vocabulary.reasons.ERRORS`): firm and doubtful readings that are right or wrong, and unparsed answers in which
a person does or does not read an option. The judge reads as a person would in so many of the cases; in the others it
names another of four options or none, equally often. A reading with which it differs is unparsed. Seeded: the same
flags give the same numbers. docs/judges.md quotes those of 1,000,000 answers and seed 75.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from lyncean.vocabulary.reasons import ERRORS, Confidence
from scorer.judges.reread import READS, rereadable
from scorer.rules import rules

TESTS = Path(__file__).resolve().parents[1] / "tests"
sys.path.append(str(TESTS))
from helpers.corpus import CORPUS, cases, request_of  # noqa: E402

BATCHES = ((32,), (33,), (32, 33))
"""Batches of the corpus with a judge's replies."""
_OPTIONS = "ABCD"
_NONE = ""
_READ = {
    "none": (),
    "unparsed": (Confidence.UNPARSED,),
    "doubtful": (Confidence.UNPARSED, Confidence.DOUBTFUL),
    "all": tuple(Confidence),
}


def other(draw: random.Random, truth: str) -> str:
    """Returns an option other than the truth."""
    return draw.choice([option for option in _OPTIONS if option != truth])


def answer(draw: random.Random, kind: Confidence) -> tuple[str, str]:
    """Returns what a person reads in an answer of a class, and what the rules read."""
    measured = ERRORS[kind]
    failed = draw.random() < measured.wrong / measured.read
    truth = draw.choice(_OPTIONS)
    if kind is Confidence.UNPARSED:
        return (truth if failed else _NONE), _NONE
    return truth, (other(draw, truth) if failed else truth)


def judged(draw: random.Random, truth: str, right: float) -> str:
    """Returns what the judge reads."""
    if draw.random() < right:
        return truth
    return _NONE if truth and draw.random() < 0.5 else other(draw, truth)


def measured(draw: random.Random, reads: str, right: float, answers: int) -> dict[str, float]:
    """Returns agreement with a person, and the shares read wrongly and missed, in percent."""
    told: Counter[str] = Counter()
    kinds = list(ERRORS)
    for kind in draw.choices(kinds, [ERRORS[each].read for each in kinds], k=answers):
        truth, read = answer(draw, kind)
        if kind in _READ[reads]:
            second = judged(draw, truth, right)
            read = second if not read else read if second == read else _NONE
        told["agreement" if read == truth else "wrong" if read else "missed"] += 1
    return {name: round(100 * told[name] / answers, 2) for name in ("agreement", "wrong", "missed")}


def replayed(reads: str, batches: tuple[int, ...]) -> dict[str, float]:
    """Returns what `measured` does, of answers of the corpus whose judge has replied, and how many it was handed."""
    told: Counter[str] = Counter()
    known = rules()
    for case in (case for path in CORPUS.glob("blind*.jsonl") for case in cases(path) if case["batch"] in batches):
        rule, request = known.get(case["rule"]), request_of(case)
        verdict = rule.read(request)
        read = verdict.extracted if verdict.outcome == "scored" else verdict.outcome
        if rereadable(rule, verdict, reads):
            told["handed"] += 1
            read = after_judge(verdict, case["judged"])
        right, silent = read == case["expected"], read in ("unparsed", "refused")
        told["agreement" if right else "missed" if silent else "wrong"] += 1
    answers = told["agreement"] + told["wrong"] + told["missed"]
    return {"answers": answers} | {
        name: round(100 * told[name] / answers, 2) for name in ("agreement", "wrong", "missed", "handed")
    }


def after_judge(verdict: Any, choice: str) -> str:
    """Returns what is read of an answer once a judge has read it."""
    if verdict.outcome == "unparsed":
        return "unparsed" if choice == "none" else choice
    return str(verdict.extracted) if choice == verdict.extracted else "unparsed"


def main() -> None:
    """Prints one JSON object."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--answers", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=75)
    flags, _ = parser.parse_known_args()
    replays = {
        f"{reads}, {' and '.join(f'batch {one}' for one in batches)}": replayed(reads, batches)
        for batches in BATCHES
        for reads in READS
    }
    found: dict[str, object] = {"replayed": replays, "answers": flags.answers, "seed": flags.seed}
    for reads in _READ:
        for right in (0.9, 0.95, 0.99, 1.0) if reads != "none" else (0.0,):
            draw = random.Random(f"{flags.seed} {reads} {right}")
            found[f"{reads} {right}"] = measured(draw, reads, right, flags.answers)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
