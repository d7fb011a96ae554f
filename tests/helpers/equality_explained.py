"""The page of equality's configurations, their samples imported and explained: planted causes are to be found.

`python tests/helpers/equality_explained.py [COUNT] [DONE.jsonl]` plays COUNT of the drawn configurations (all of them)
by the own command of lmms-eval, in which one cause of other results is planted. Its samples are imported, where the
own code of the task scores them anew, and `orchestrator explain` holds them against a run of ours. DONE.jsonl gets a
line for each that is played; those that it has are not played again.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from helpers import equality_draw, equality_lmms
from helpers.equality_lmms import MEDIA, Bench, Case, compare, metrics_of
from helpers.judge_server import JudgeServer
from lyncean_harnesses.library import harness
from lyncean_interop.lmms_eval_samples import is_ours
from orchestrator.cli import main as orchestrator

ROWS = 48

FOUND: Mapping[str, frozenset[str]] = {
    "model": frozenset({"prompt", "decoding", "limit"}),
    "limit": frozenset({"limit"}),
    "image": frozenset({"image"}),
    "reading": frozenset({"reading"}),
}
"""Planted cause -> causes that may be named for it: a model's dialect has its own prompts and decoding."""


@dataclass
class Explained:
    """The explanation of a configuration's samples.

    Attributes:
        case: The configuration with its planted cause.
        imported: The difference of the imported samples' metrics from lmms-eval's; "" if they agree.
        causes: Cause -> items attributed to it.
        failed: The error of `explain`, if it failed.
    """

    case: Case
    imported: str = ""
    causes: Counter[str] = field(default_factory=Counter)
    failed: str = ""

    @property
    def right(self) -> int:
        """Items that are attributed to the planted cause."""
        return sum(self.causes[cause] for cause in FOUND[self.case.plant])


def planted(cases: Sequence[Case]) -> list[Case]:
    """Returns every configuration with a cause that can be planted in it: its dialect, or one of the others in turn."""
    turns: Counter[str] = Counter()
    plants = []
    for case in cases:
        if case.answers:
            continue
        kinds = {*case.about["columns"].values()}
        can = ["image"] * bool(kinds & {"image", "images"})
        can += ["limit"] * (case.about["kind"] == "generate_until") + ["reading"]
        if case.about["stratum"] == "dice":  # chance reads the same answer otherwise: no file tells it from a reader
            can = ["reading"]
        plant = "model" if case.model else min(can, key=lambda candidate: turns[candidate])
        turns[plant] += 1
        limited = ["--gen_kwargs", "max_new_tokens=1"] * (plant == "limit")
        plants.append(replace(case, plant=plant, options=limited))
    return plants


def samples(case: Case, out: Path) -> dict[str, Path]:
    """Returns the samples files that lmms-eval's command wrote, by task."""
    files = {name: sorted((out / case.place).rglob(f"*_samples_{name}.jsonl")) for name in members(case)}
    return {name: paths[-1] for name, paths in files.items() if paths}


def members(case: Case) -> Sequence[str]:
    """Returns the tasks of a configuration."""
    return list(harness("lmms").members(case.name))


def typed(*arguments: object) -> Result:
    """Runs a command of `orchestrator`."""
    return CliRunner().invoke(orchestrator, [str(word) for word in arguments])


def imported(case: Case, run: Path, bench: Bench) -> str:
    """Imports the samples of a configuration, and returns why its metrics are not lmms-eval's; "" where they are.

    Where lmms-eval reads the answers otherwise, they are those of the run of ours, which has the same answers.
    """
    expected, problems = equality_lmms.numbers(case, bench.theirs.out), []
    if case.plant == "reading":
        metrics = {(metric["task"].removeprefix("lmms:"), metric["name"]): metric for metric in metrics_of(run)}
        expected = {key: value["value"] for key, value in metrics.items() if not value["labels"]}
    for name, path in samples(case, bench.theirs.out).items():
        taken = bench.folder / "imported" / case.place / name
        data = [] if is_ours(path, name) else ["--data", bench.stored(case)[name]]
        sets = [f"model_name={case.model}"] if case.model else []
        sets += ["process_with_media=true"] if MEDIA in case.options else []
        data += [word for setting in sets if data for word in ("--set", setting)]
        done = typed("import", "lmms-eval", path, "--task", name, *data, "--scorer", bench.scorer, "--run", taken)
        if not (taken / "results.json").exists():
            problems.append(f"{name}: {done.output.strip().splitlines()[-1:]} {done.exception!r}"[:300])
        elif data:
            theirs = {key: value for key, value in expected.items() if key[0] == name}
            compare(judged := replace(case, cause=""), theirs, metrics_of(taken))
            problems += [f"{name}: {judged.cause}"] if judged.cause else []
    return "; ".join(problems)


def explained(explanation: Explained, run: Path, path: Path, bench: Bench) -> None:
    """Holds samples with a planted cause against a run of ours, and notes the causes of the items."""
    command = ["explain", run, path, "--json"]
    if explanation.case.plant == "image":  # which no file of samples holds: a live server tells
        command += ["--endpoint", bench.models[""].address, "--scorer", bench.scorer]
    done = typed(*command)
    if done.exit_code or done.exception:
        explanation.failed = f"{done.output.strip()[-200:]} {done.exception!r}"
        return
    report = json.loads(done.stdout)
    if "experiment" in report:
        explanation.causes.update(item["found"] for item in report["experiment"]["items"])
        return
    for task in report["tasks"]:
        for cause in task["causes"]:
            explanation.causes[cause["cause"]] += cause["items"]


def played(cases: Sequence[Case], folder: Path) -> Iterator[Explained]:
    """Plays every configuration without and with its planted cause, and yields what came of its samples."""
    with JudgeServer(equality_draw.judge()) as judge:
        bench = Bench(folder, judge, ROWS)
        try:
            before: list[Case] = []
            for case in [*cases, None]:  # one is explained while lmms-eval's command plays the next one
                if case:
                    bench.start(case)
                for each in before:
                    explanation, plain = Explained(each), replace(each, plant="", model="", options=[])
                    run = bench.ours(plain, {})
                    bench.theirs.wait(each)
                    explanation.imported = imported(each, run, bench)
                    if path := samples(each, bench.theirs.out).get(members(each)[0]):
                        explained(explanation, run, path, bench)
                    else:
                        explanation.failed = f"lmms-eval wrote no samples: {each.stopped}"
                    yield explanation
                before = [case] if case else []
        finally:
            bench.close()


def summary(entries: Sequence[Explained]) -> str:
    """Returns how much was imported and explained rightly, by what was planted."""
    lines = [f"imported with lmms-eval's metrics: {sum(not entry.imported for entry in entries)} of {len(entries)}"]
    for plant in dict.fromkeys(entry.case.plant for entry in entries):
        planted_here = [entry for entry in entries if entry.case.plant == plant]
        right, items = sum(entry.right for entry in planted_here), sum(entry.causes.total() for entry in planted_here)
        lines.append(f"{plant}: {right} of {items} items in {len(planted_here)} configurations")
    right, items = sum(entry.right for entry in entries), sum(entry.causes.total() for entry in entries)
    lines.append(f"put down to what was planted: {right} of {items} items, {100 * right / max(1, items):.1f}%")
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> None:
    """Plays the drawn configurations and prints what came of them."""
    import datasets

    datasets.disable_progress_bars()
    fixture = json.loads(equality_lmms.FIXTURE.read_text())
    count = next((int(argument) for argument in arguments if argument.isdecimal()), None)
    file = next((Path(argument) for argument in arguments if not argument.isdecimal()), None)
    cases = planted(equality_lmms.cases(fixture, count))
    done = list(stored(file, cases)) if file and file.exists() else []
    places = {entry.case.place for entry in done}
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"HF_HOME": f"{folder}/hub", "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
        for entry in played([case for case in cases if case.place not in places], Path(folder)):
            print(entry.case.place, dict(entry.causes), entry.failed, entry.imported, flush=True)
            done.append(entry)
            if file:
                with file.open("a") as lines:
                    lines.write(json.dumps(outcome(entry)) + "\n")
    print(summary(done))


def outcome(entry: Explained) -> dict[str, Any]:
    """Returns what came of a configuration, as its line in a file."""
    known = {"imported": entry.imported, "causes": dict(entry.causes), "failed": entry.failed}
    return {"place": entry.case.place, **known}


def stored(file: Path, cases: Sequence[Case]) -> Iterator[Explained]:
    """Yields what a file has of some configurations."""
    by_place = {case.place: case for case in cases}
    for line in file.read_text().splitlines():
        known = json.loads(line)
        if case := by_place.get(known.pop("place")):
            yield Explained(case, **{**known, "causes": Counter(known["causes"])})


if __name__ == "__main__":
    main(sys.argv[1:])
