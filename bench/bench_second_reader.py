"""Replays and simulates a judge as second reader: `python bench/bench_second_reader.py [--answers N]`.

The answers of the corpus with a judge's reply (`judged`) are replayed: the rules read them, the judge reads those again
that `--judge-reads` hands to it, and both are compared with the reading of the answer's author.

Simulated: each answer has a class and a truth drawn from the measured rates of the rules
(`lyncean.vocabulary.reasons.ERRORS`): firm and doubtful readings that are right or wrong, and unparsed answers in which
a person does or does not read an option. The judge reads like a person in a given share of the cases; in the others it
names another of four options or none, equally often. A reading that differs from the judge's is unparsed. Seeded: the
same flags give the same numbers. docs/judges.md quotes those of 1,000,000 answers and seed 75.
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
    """Returns the readings of a person and of the rules for an answer of a class."""
    measured = ERRORS[kind]
    failed = draw.random() < measured.wrong / measured.read
    truth = draw.choice(_OPTIONS)
    if kind is Confidence.UNPARSED:
        return (truth if failed else _NONE), _NONE
    return truth, (other(draw, truth) if failed else truth)


def judged(draw: random.Random, truth: str, right: float) -> str:
    """Returns the judge's reading."""
    if draw.random() < right:
        return truth
    return _NONE if truth and draw.random() < 0.5 else other(draw, truth)


def measured(draw: random.Random, reads: str, right: float, answers: int) -> dict[str, float]:
    """Returns agreement with a person, and the shares read wrongly and missed, in percent."""
    counts: Counter[str] = Counter()
    kinds = list(ERRORS)
    for kind in draw.choices(kinds, [ERRORS[one].read for one in kinds], k=answers):
        truth, read = answer(draw, kind)
        if kind in _READ[reads]:
            second = judged(draw, truth, right)
            read = second if not read else read if second == read else _NONE
        counts["agreement" if read == truth else "wrong" if read else "missed"] += 1
    return {name: round(100 * counts[name] / answers, 2) for name in ("agreement", "wrong", "missed")}


def replayed(reads: str, batches: tuple[int, ...]) -> dict[str, float]:
    """Returns the results of `measured` for the corpus answers with a judge's reply, and the share handed to it."""
    counts: Counter[str] = Counter()
    known = rules()
    for case in (case for path in CORPUS.glob("blind*.jsonl") for case in cases(path) if case["batch"] in batches):
        rule, request = known.get(case["rule"]), request_of(case)
        verdict = rule.read(request)
        read = verdict.extracted if verdict.outcome == "scored" else verdict.outcome
        if rereadable(rule, verdict, reads):
            counts["handed"] += 1
            read = after_judge(verdict, case["judged"])
        right, silent = read == case["expected"], read in ("unparsed", "refused")
        counts["agreement" if right else "missed" if silent else "wrong"] += 1
    answers = counts["agreement"] + counts["wrong"] + counts["missed"]
    return {"answers": answers} | {
        name: round(100 * counts[name] / answers, 2) for name in ("agreement", "wrong", "missed", "handed")
    }


def after_judge(verdict: Any, choice: str) -> str:
    """Returns the reading of an answer after a judge has read it."""
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
    results: dict[str, object] = {"replayed": replays, "answers": flags.answers, "seed": flags.seed}
    for reads in _READ:
        for right in (0.9, 0.95, 0.99, 1.0) if reads != "none" else (0.0,):
            draw = random.Random(f"{flags.seed} {reads} {right}")
            results[f"{reads} {right}"] = measured(draw, reads, right, flags.answers)
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
