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
from lyncean_interop.tool_logs import LMMS_EVAL
from orchestrator.cli import main as orchestrator
from orchestrator.compare.causes import Attributor, Cause, edit, prompt
from orchestrator.compare.explain import explain
from orchestrator.compare.items import pair
from orchestrator.compare.rows import matched
from orchestrator.compare.scores import read as read_scores

ROWS = 48

RIGHT_CAUSES: Mapping[str, frozenset[str]] = {
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
        causes: Cause -> items with another score attributed to it.
        answers: Cause -> items with another answer or score attributed to it.
        failed: The error of `explain`, if it failed.
    """

    case: Case
    imported: str = ""
    causes: Counter[str] = field(default_factory=Counter)
    answers: Counter[str] = field(default_factory=Counter)
    failed: str = ""

    def right(self, counted: Counter[str]) -> int:
        """Returns how many of the items counted by cause are attributed to the planted cause."""
        return sum(counted[cause] for cause in RIGHT_CAUSES[self.case.plant])


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
    files = {name: sorted((out / case.label).rglob(f"*_samples_{name}.jsonl")) for name in members(case)}
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
        taken = bench.folder / "imported" / case.label / name
        data = [] if is_ours(path, name) else ["--data", bench.stored(case)[name]]
        sets = [f"model_name={case.model}"] if case.model else []
        sets += ["process_with_media=true"] if MEDIA in case.options else []
        data += [word for setting in sets if data for word in ("--set", setting)]
        done = typed("import", "lmms-eval", path, "--task", name, *data, "--scorer", bench.scorer, "--run", taken)
        if not (taken / "results.json").exists():
            problems.append(f"{name}: {done.output.strip().splitlines()[-1:]} {done.exception!r}"[:300])
        elif data:
            reference = {key: value for key, value in expected.items() if key[0] == name}
            compare(judged := replace(case, cause=""), reference, metrics_of(taken))
            problems += [f"{name}: {judged.cause}"] if judged.cause else []
    return "; ".join(problems)


def explained(explanation: Explained, run: Path, path: Path, bench: Bench) -> None:
    """Holds samples with a planted cause against a run of ours, and notes the causes of the items.

    Where the samples have no scores, they are those of the task's own code in the imported folder.
    """
    live: list[object] = []
    if explanation.case.plant == "image":  # which no file of samples holds: a live server tells
        live = ["--endpoint", bench.models[""].address, "--scorer", bench.scorer]
    folder = bench.folder / "logs" / explanation.case.label / path.stem
    LMMS_EVAL.make_run(path, folder)
    for second in (path, bench.folder / "imported" / explanation.case.label / members(explanation.case)[0]):
        done = typed("explain", run, second, "--json", *live)
        if done.exit_code or done.exception:
            explanation.failed = f"{done.output.strip()[-200:]} {done.exception!r}"
            return
        report = json.loads(done.stdout)
        if report["tasks"] or not any("has no scores" in note for note in report["notes"]):
            break
    explanation.answers = attributed(run, folder if second == path else second)
    if "experiment" in report:
        explanation.causes.update(item["found"] for item in report["experiment"]["items"])
        return
    for task in report["tasks"]:
        for cause in task["causes"]:
            explanation.causes[cause["cause"]] += cause["items"]


def attributed(first: Path, second: Path) -> Counter[str]:
    """Returns cause -> items of another answer or score; images are the cause where nothing else is unknown."""
    causes: Counter[str] = Counter()
    explanation = explain(first, second)
    scores = matched(*map(read_scores, explanation.runs))
    for task in explanation.tasks:
        items = [side.items[task.task] for side in scores]
        rows = pair([side.keys.read() for side in items])
        places = [side.places.read()[row].tolist() for side, row in zip(items, rows, strict=True)]
        pairs = [*zip(*(side.run.at(place) for side, place in zip(task.sides, places, strict=True)), strict=True)]
        attribute = Attributor(*task.sides, Counter(edit(*both) for both in pairs if len({*map(prompt, both)}) > 1))
        for one, other in pairs:
            if (one.text, one.score or 0.0) != (other.text, other.score or 0.0):
                found = attribute(one, other)
                unknown = found.cause is Cause.UNRECORDED and found.unrecorded == (Cause.IMAGE,)
                causes[Cause.IMAGE if unknown and not {*found.also} - {Cause.READING} else found.cause] += 1
    return causes


def played(cases: Sequence[Case], folder: Path) -> Iterator[Explained]:
    """Plays every configuration without and with its planted cause, and yields what came of its samples."""
    with JudgeServer(equality_draw.judge()) as judge:
        bench = Bench(folder, judge, ROWS)
        try:
            before: list[Case] = []
            for case in [*cases, None]:  # one is explained while lmms-eval's command plays the next one
                if case:
                    bench.start(case)
                for started in before:
                    explanation, plain = Explained(started), replace(started, plant="", model="", options=[])
                    run = bench.ours(plain, {})
                    bench.theirs.wait(started)
                    explanation.imported = imported(started, run, bench)
                    if path := samples(started, bench.theirs.out).get(members(started)[0]):
                        explained(explanation, run, path, bench)
                    else:
                        explanation.failed = f"lmms-eval wrote no samples: {started.stopped}"
                    yield explanation
                before = [case] if case else []
        finally:
            bench.close()


def summary(entries: Sequence[Explained]) -> str:
    """Returns how much was imported and explained rightly, by what was planted."""
    lines = [f"imported with lmms-eval's metrics: {sum(not entry.imported for entry in entries)} of {len(entries)}"]
    for plant in dict.fromkeys(entry.case.plant for entry in entries):
        planted_here = [entry for entry in entries if entry.case.plant == plant]
        lines.append(f"{plant}: {_right(planted_here)} in {len(planted_here)} configurations")
    return "\n".join([*lines, f"put down to what was planted: {_right(entries)}"])


def _right(entries: Sequence[Explained]) -> str:
    """Returns how many items are attributed rightly, of those with another score and of those with another answer."""
    parts = []
    for name in ("causes", "answers"):
        counted = [(entry, getattr(entry, name)) for entry in entries]
        right, items = sum(entry.right(each) for entry, each in counted), sum(each.total() for _, each in counted)
        share = f"{100 * right / max(1, items):.1f}% ({right} of {items})"
        parts.append(f"{share} with another {'score' if name == 'causes' else 'answer or score'}")
    return ", ".join(parts)


def main(arguments: Sequence[str]) -> None:
    """Plays the drawn configurations and prints what came of them."""
    import datasets

    datasets.disable_progress_bars()
    fixture = json.loads(equality_lmms.FIXTURE.read_text())
    count = next((int(argument) for argument in arguments if argument.isdecimal()), None)
    file = next((Path(argument) for argument in arguments if not argument.isdecimal()), None)
    cases = planted(equality_lmms.cases(fixture, count))
    done = list(stored(file, cases)) if file and file.exists() else []
    labels = {entry.case.label for entry in done}
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"HF_HOME": f"{folder}/hub", "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
        for entry in played([case for case in cases if case.label not in labels], Path(folder)):
            print(entry.case.label, dict(entry.causes), dict(entry.answers), entry.failed, entry.imported, flush=True)
            done.append(entry)
            if file:
                with file.open("a") as lines:
                    lines.write(json.dumps(outcome(entry)) + "\n")
    print(summary(done))


def outcome(entry: Explained) -> dict[str, Any]:
    """Returns what came of a configuration, as its line in a file."""
    counts = {"causes": dict(entry.causes), "answers": dict(entry.answers)}
    return {"label": entry.case.label, "imported": entry.imported, **counts, "failed": entry.failed}


def stored(file: Path, cases: Sequence[Case]) -> Iterator[Explained]:
    """Yields what a file has of some configurations."""
    by_label = {case.label: case for case in cases}
    for line in file.read_text().splitlines():
        known = json.loads(line)
        if case := by_label.get(known.pop("label")):
            counts = {name: Counter(known.pop(name)) for name in ("causes", "answers")}
            yield Explained(case, **known, **counts)


if __name__ == "__main__":
    main(sys.argv[1:])
