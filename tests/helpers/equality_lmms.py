"""The page of equality: drawn configurations of lmms-eval beside its own command line, each in every model's dialect.

`python tests/helpers/equality_lmms.py [COUNT] [OUT.md]` plays COUNT of the drawn configurations (all of them) and
writes the table; `make equality` does so. What is drawn, by which seed, is in tests/fixtures/equality_lmms.json.
"""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from helpers import equality_draw, harness_rows
from helpers.engine_cluster import Server, environment, wait_for
from helpers.judge_server import JudgeServer
from lyncean_harnesses.benchmark import LMMS
from lyncean_harnesses.library import harness
from orchestrator import evaluate

ROOT = Path(__file__).parents[2]
FIXTURE = ROOT / "tests" / "fixtures" / "equality_lmms.json"
ROWS = 16
NAME = "hashing"
"""The served model's name."""
MEDIA = "--process_with_media"
DEFAULT = "lyncean"
"""The model's name for lmms-eval's command; none of its tasks knows it."""


@dataclass
class Case:
    """A configuration in a model's dialect, and what came of it.

    Attributes:
        name: The task or group.
        about: The fixture's entry.
        model: lmms-eval's name of the model, "" for the default prompts.
        answers: The model that is asked: "" or "readable70", which answers 30% unreadably.
        metrics: How many numbers were compared.
        in_order: How many of them are equal in the evaluator's order only.
        cause: Why it is not equal, "" where it is.
        stopped: What stopped lmms-eval's own command, "" where nothing did.
        plant: What is planted in lmms-eval's run, "" for nothing.
    """

    name: str
    about: Mapping[str, Any]
    model: str
    answers: str = ""
    metrics: int = 0
    in_order: int = 0
    cause: str = ""
    stopped: str = ""
    options: list[str] = field(default_factory=list)
    plant: str = ""

    @property
    def label(self) -> str:
        label = f"{self.name}-{self.model or 'default'}-{self.answers or 'hashing'}"
        return re.sub(r"\W", "_", f"{label}-{self.plant}" if self.plant else label)

    @property
    def simple(self) -> bool:
        """True if it is asked like a simple model: 0.7.3's chat models take the name of a sound for a video's path."""
        return str(self.about["kind"]) != "generate_until" or "audio" in self.about["columns"].values()


def cases(fixture: Mapping[str, Any], count: int | None = None) -> list[Case]:
    """Returns the first configurations of each stratum in turn, in every model's dialect."""
    strata: dict[str, list[str]] = {}
    for name, about in fixture["drawn"].items():
        strata.setdefault(about["stratum"], []).append(name)
    turns = [
        name
        for turn in range(max(map(len, strata.values())))
        for names in strata.values()
        for name in names[turn : turn + 1]
    ]
    drawn = fixture["drawn"]
    selected = [Case(name, drawn[name], model) for name in turns[:count] for model in ("", *drawn[name]["models"])]
    more = [Case("mmmu_val", MMMU, model, "readable70") for model in ("", "qwen3_vl")]
    return [*selected, *more]


MMMU: Mapping[str, Any] = {
    "stratum": "MMMU, 30% unreadable",
    "kind": "generate_until",
    "columns": equality_draw.KNOWN["mmmu_val"],
}


def stored(case: Case, folder: Path, count: int = ROWS) -> dict[str, str]:
    """Draws and stores the splits of a case's tasks, films beside them, once; returns the folders by task."""
    import datasets

    library, folders = harness("lmms"), {}
    for number, name in enumerate(library.members(case.name)):
        folders[name] = str(folder / name)
        task = LMMS.make(name, ())
        if not Path(folders[name]).exists():
            config = library.config(name)
            keys = ("training_split", "validation_split", "test_split", "fewshot_split")
            wanted = [config.get(key) for key in keys] + [(config.get("fewshot_config") or {}).get("split")]
            rows = rows_of(name, case.about["columns"], number, count)
            datasets.DatasetDict({split: rows for split in wanted if split}).save_to_disk(folders[name])
        task._task = library.load(name, (), datasets.load_from_disk(folders[name]))
        if task._media_read() and MEDIA not in case.options:  # type: ignore[attr-defined]
            case.options.append(MEDIA)
        for row in task._rows():
            context = row["context"] if isinstance(row["context"], str) else row["context"][0]
            harness_rows.completed(partial(harness_rows._asked, task, row["doc_id"], context))
    return folders


def rows_of(name: str, columns: Mapping[str, str], number: int, count: int) -> Any:
    """Returns the rows of a task."""
    if name == "ovo_forward":
        return harness_rows.forward(Path(os.environ["HF_HOME"]))
    return harness_rows.make(dict(columns), rows=60 if name == "mmmu_val" else count, seed=3 + number)


class Theirs:
    """lmms-eval's own command, run for one case after the other beside ours.

    Args:
        judge: The judge's base URL.
        out: Where it writes.
    """

    def __init__(self, judge: str, out: Path) -> None:
        out.mkdir()
        self.out = out
        command = [sys.executable, str(ROOT / "tests" / "helpers" / "lmms_command.py"), judge]
        nothing = subprocess.DEVNULL
        self._process = subprocess.Popen(
            command, env=environment(), stdin=subprocess.PIPE, stdout=nothing, stderr=nothing, text=True
        )

    def start(self, case: Case, folders: Mapping[str, str], address: str) -> None:
        """Has a case run after those before it."""
        job = {
            "name": case.name,
            "folders": folders,
            "model": case.model or DEFAULT,
            "endpoint": address,
            # By default it scores with four threads: what they draw depends on which comes first.
            "options": [*case.options, *["--force_simple"] * case.simple, "--process_docs_parallel", "1"],
            "plant": case.plant,
            "out": str(self.out / case.label / NAME),  # where its own models' names stand
        }
        assert self._process.stdin
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()

    def wait(self, case: Case) -> None:
        """Waits until a case has run."""
        done = self.out / case.label / f"{NAME}.done"
        wait_for(lambda: done.exists() or self._process.poll() is not None, seconds=1000)

    def close(self) -> None:
        """Ends it."""
        self._process.kill()
        self._process.wait()


def numbers(case: Case, out: Path) -> dict[tuple[str, str], Any]:
    """Returns lmms-eval's metrics by task and name, as its command wrote them."""
    written = sorted((out / case.label).rglob("*results.json"))
    if not written:
        log = (out / case.label / f"{NAME}.log").read_text(errors="replace")
        reasons = re.findall(r"Error during evaluation: (.*?)\. Please set", log)
        case.stopped = reasons[-1][:160] if reasons else "ended without results"
        return {}
    results = json.loads(written[0].read_text())["results"]
    return {
        (name, metric.removesuffix(",none")): value
        for name, metrics in results.items()
        for metric, value in metrics.items()
        if "," in metric and "_stderr" not in metric
    }


def compare(case: Case, expected: Mapping[tuple[str, str], Any], ours: Iterable[Mapping[str, Any]]) -> None:
    """Notes what of a case is equal, and the cause where it is not."""
    names = {match.name.rpartition("::")[2]: match.name for match in harness("lmms").groups(case.name)}
    computed = {(metric["task"], metric["name"]): metric for metric in ours if not metric["labels"]}
    differ = []
    for (name, metric), value in expected.items():
        match = computed.get((f"lmms:{names.get(name, name)}", metric))
        if not isinstance(value, (int, float)) or math.isnan(value):
            if match is not None and match["value"] is not None:
                differ.append(f"{metric} is {value!r}, here {match['value']}")
            continue
        case.metrics += 1
        if match is not None and match["value"] == float(value):
            continue
        if match is not None and match["details"].get("in_harness_order") == float(value):
            case.in_order += 1
            continue
        differ.append(_difference(metric, value, match))
    case.cause = "; ".join(differ)


def _difference(metric: str, value: float, computed: Mapping[str, Any] | None) -> str:
    if computed is None:
        return f"{metric} is {value}, here there is none"
    why = computed["details"].get("no_harness_order") or computed["details"].get("not_computed") or ""
    return f"{metric} is {value}, here {computed['value']}" + (f" ({why})" if why else "")


class Bench:
    """The servers and the command of a play, in a folder.

    Args:
        folder: Where rows, runs and results are written.
        judge: The judge's base URL.
        rows: Rows of each task.
    """

    def __init__(self, folder: Path, judge: str, rows: int = ROWS) -> None:
        import datasets

        datasets.disable_caching()  # what a task's code draws for its data would be drawn here, for both
        self.folder, self.rows = folder, rows
        self._stored: dict[str, tuple[dict[str, str], bool]] = {}
        model = ROOT / "tests" / "helpers" / "harness_model.py"
        self.models = {
            name: Server(folder / f"model{name}", ["env", f"ANSWERS={name}", sys.executable, str(model)]).start()
            for name in ("", "readable70")
        }
        options = ["--foreign-tasks", "--trust-task-code", "--judge", f"openai:judge@{judge}"]
        self._scorer = Server(folder / "scorer", [sys.executable, "-m", "scorer", "serve", *options]).start()
        self.scorer = self._scorer.address
        self.theirs = Theirs(judge, folder / "theirs")

    def close(self) -> None:
        """Ends them."""
        self.theirs.close()
        for server in (self._scorer, *self.models.values()):
            server.kill()

    def stored(self, case: Case) -> dict[str, str]:
        """Draws and stores a case's rows, once; returns their folders by task."""
        if case.name not in self._stored:
            self._stored[case.name] = stored(case, self.folder / "rows", self.rows), MEDIA in case.options
        folders, media = self._stored[case.name]
        if media and MEDIA not in case.options:
            case.options.append(MEDIA)
        return folders

    def start(self, case: Case) -> None:
        """Has lmms-eval's command run a case after those before it."""
        self.theirs.start(case, self.stored(case), self.models[case.answers].address)

    def ours(self, case: Case, expected: Mapping[tuple[str, str], Any]) -> Path:
        """Runs a case here, notes what is equal to lmms-eval's metrics, and returns the run folder."""
        run = self.folder / "ours" / case.label
        _ours(case, expected, self.stored(case), self.models[case.answers].address, self.scorer, run)
        return run


def played(selected: Sequence[Case], folder: Path) -> Iterator[Case]:
    """Plays every case in both ways, and yields it with what came of it."""
    with JudgeServer(equality_draw.judge()) as judge:
        bench = Bench(folder, judge)
        try:
            before: list[Case] = []
            for case in [*selected, None]:  # one case is played here while the next one is played there
                if case:
                    bench.start(case)
                for started in before:
                    bench.theirs.wait(started)
                    bench.ours(started, numbers(started, bench.theirs.out))
                    yield started
                before = [case] if case else []
        finally:
            bench.close()


def _ours(
    case: Case,
    expected: Mapping[tuple[str, str], Any],
    folders: Mapping[str, str],
    address: str,
    scorer: str,
    run: Path,
) -> None:
    settings = {"model_name": case.model} if case.model else {}
    settings |= {"messages": "simple"} if case.simple else {}
    settings |= {"process_with_media": "true"} if MEDIA in case.options else {}
    data = {f"lmms:{name}": folders[name] for name in harness("lmms").members(case.name)}
    likelihood = case.about["kind"] in ("multiple_choice", "loglikelihood")
    try:
        evaluate(
            f"lmms:{case.name}",
            data=data,
            method="likelihood" if likelihood else "generate",
            endpoint=address,
            scorer=scorer,
            settings=settings,
            trust_task_code=True,
            run=run,
        )
    except Exception as error:
        if not (run / "results.json").exists():
            case.cause = f"here: {type(error).__name__}: {error}"[:200]
            return
    compare(case, expected, metrics_of(run))


def metrics_of(run: Path) -> list[dict[str, Any]]:
    """Returns the metrics of tasks and groups of a run, those too that are no result in the report."""
    results = json.loads((run / "results.json").read_text())
    parts = {**results["tasks"], **results.get("groups", {})}
    return [{"details": {}, **metric, "task": name} for name, part in parts.items() for metric in part["metrics"]]


def table(selected: Sequence[Case], fixture: Mapping[str, Any]) -> str:
    """Returns the page's table, and what is not equal with its cause."""
    lines = [
        "| stratum | configurations | in all dialects | equal | metrics equal | of them in the evaluator's order |",
        "|---|---|---|---|---|---|",
    ]
    for stratum in dict.fromkeys(case.about["stratum"] for case in selected):
        members = [case for case in selected if case.about["stratum"] == stratum]
        equal = [case for case in members if not case.cause and not case.stopped]
        metrics = f"{sum(case.metrics for case in equal)} of {sum(case.metrics for case in members)}"
        ordered = sum(case.in_order for case in members)
        names = {case.name for case in members}
        lines.append(f"| {stratum} | {len(names)} | {len(members)} | {len(equal)} | {metrics} | {ordered} |")
    lines += ["", "Not equal:", ""]
    for case in selected:
        if cause := case.cause or (f"lmms-eval stops: {case.stopped}" if case.stopped else ""):
            lines.append(f"- `{case.name}`{f' as {case.model}' if case.model else ''}: {cause}")
    lines += ["", "Drawn:", ""]
    for stratum, count in Counter(about["stratum"] for about in fixture["drawn"].values()).items():
        names = [name for name, about in fixture["drawn"].items() if about["stratum"] == stratum]
        lines.append(f"- {stratum} ({count}): {', '.join(f'`{name}`' for name in names)}")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str]) -> None:
    """Plays the drawn configurations and writes the table."""
    import datasets

    datasets.disable_progress_bars()
    fixture = json.loads(FIXTURE.read_text())
    count = next((int(argument) for argument in arguments if argument.isdecimal()), None)
    file = next((argument for argument in arguments if not argument.isdecimal()), None)
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"HF_HOME": f"{folder}/hub", "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
        done = []
        for case in played(cases(fixture, count), Path(folder)):
            print(
                case.about["stratum"],
                case.name,
                case.model,
                case.metrics,
                case.in_order,
                case.cause or case.stopped or "equal",
                flush=True,
            )
            done.append(case)
    text = table(done, fixture)
    Path(file).write_text(text) if file else sys.stdout.write(text)


if __name__ == "__main__":
    main(sys.argv[1:])
