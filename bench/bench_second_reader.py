"""What a judge as second reader brings, simulated: `python bench/bench_second_reader.py [--answers N]`.

Each answer has a class and a truth drawn from the measured rates of the rules (`lyncean.reasons.ERRORS`): firm and
doubtful readings that are right or wrong, and unparsed answers in which a person does or does not read an option. A
judge reads again what `--judge-reads` hands to it. It reads as a person would in so many of the cases; in the others
it names another of four options or none, equally often. A reading with which it differs is unparsed. Seeded: the same
flags give the same numbers. docs/judges.md quotes those of 1,000,000 answers and seed 75.
"""

from __future__ import annotations

import argparse
import json
import random
from collections import Counter

from lyncean.reasons import ERRORS, Confidence

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


def main() -> None:
    """Prints one JSON object."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--answers", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=75)
    flags, _ = parser.parse_known_args()
    found: dict[str, object] = {"answers": flags.answers, "seed": flags.seed}
    for reads in _READ:
        for right in (0.9, 0.95, 0.99, 1.0) if reads != "none" else (0.0,):
            draw = random.Random(f"{flags.seed} {reads} {right}")
            found[f"{reads} {right}"] = measured(draw, reads, right, flags.answers)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
