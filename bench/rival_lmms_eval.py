"""lmms-eval on the same rows, run by its own interpreter: `PYTHON rival_lmms_eval.py JOB`, JOB in JSON.

A whole run is its own command line. Of a core everything that its user cannot leave out is timed and nothing else: the
data set's opening (its Arrow cache is warm), the requests, the scoring and the log of samples; and apart from them the
index of its task files, which every start makes anew. Interpreter and imports are not timed.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from datetime import datetime
from pathlib import Path

# As good as the files' own: its default, PNG, costs a tenth of a second an image.
os.environ |= {"LMMS_IMAGE_ENCODE_FORMAT": "JPEG", "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}

import yaml
from lmms_eval import evaluator
from lmms_eval.api.instance import GenerationResult
from lmms_eval.loggers.evaluation_tracker import EvaluationTracker
from lmms_eval.models.simple.dummy import Dummy
from lmms_eval.tasks import TaskManager

NAME = "bench"
TASK = {
    "task": NAME,
    "dataset_path": "parquet",
    "test_split": "test",
    "output_type": "generate_until",
    "doc_to_target": "label",
    "generation_kwargs": {"max_new_tokens": 16, "temperature": 0, "do_sample": False},
    "lmms_eval_specific_kwargs": {
        "default": {
            "pre_prompt": "",
            "post_prompt": "\nAnswer with the option's letter from the given choices directly.",
        }
    },
}
FUNCTIONS = """
doc_to_visual: !function functions.vstar_doc_to_visual
doc_to_text: !function functions.vstar_doc_to_text
process_results: !function functions.vstar_process_results
metric_list:
  - metric: vstar_overall_acc
    aggregation: !function functions.vstar_aggregate_results
    higher_is_better: true
"""


class Null(Dummy):
    """Its own null model, which looks at no image, made to take each image as every model has to."""

    def generate_until(self, requests: list) -> list:
        """Answers "B"."""
        answers = []
        for request in requests:
            _, _, visual, number, task, split = request.args
            assert visual(self.task_dict[task][split][number])
            answers.append(GenerationResult(text="B"))
        return answers


def main(job: dict) -> None:
    """Runs one evaluation; a core prints its seconds."""
    folder = Path(job["folder"])
    folder.mkdir(exist_ok=True)
    (folder / "functions.py").write_text("from lmms_eval.tasks.vstar_bench.utils import *\n")
    task = {**TASK, "dataset_kwargs": {"data_files": {"test": job["data"]}}}
    file = folder / f"{NAME}.yaml"
    file.write_text(yaml.safe_dump(task) + FUNCTIONS)
    url = f"http://127.0.0.1:{job['port']}/v1"
    openai = "openai", f"model_version=null,base_url={url},api_key=none,num_concurrent=32"
    if job["whole"]:
        if job["way"] == "null":
            Dummy.generate_until = Null.generate_until
        model, arguments = openai if job["way"] == "http" else ("dummy", "response=B")
        command(folder, model, arguments)
        return
    started = time.perf_counter()
    manager = TaskManager("ERROR", include_path=str(folder))
    index = time.perf_counter() - started
    model, arguments = {"blind": ("dummy", "response=B"), "null": (Null(), ""), "http": openai}[job["way"]]
    evaluate(model, arguments, manager, folder / "warm", limit=8)
    started, before = time.perf_counter(), used()
    accuracy = evaluate(model, arguments, manager, folder / "log", limit=None)
    seconds, cpu = time.perf_counter() - started, used() - before
    (log,) = (folder / "log").rglob(f"*_samples_{NAME}.jsonl")
    with log.open() as lines:
        logged = sum(1 for _ in lines)
    assert logged == job["rows"], f"{logged} samples logged"
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"seconds": seconds, "index": index, "cpu": cpu, "accuracy": accuracy, "rss": peak}))


def command(folder: Path, model: str, arguments: str) -> None:
    """Its command line, to its end."""
    from lmms_eval.__main__ import cli_evaluate

    sys.argv = ["lmms_eval", "--model", model, "--model_args", arguments, "--tasks", NAME, "--batch_size", "1"]
    sys.argv += ["--include_path", str(folder), "--output_path", str(folder / "log"), "--log_samples"]
    cli_evaluate()


def used() -> float:
    """CPU seconds of this process, threads and ended children included."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def evaluate(model: str | Dummy, arguments: str, manager: TaskManager, output: Path, limit: int | None) -> float:
    """One evaluation with its log, as its command line with --log_samples makes it."""
    tracker = EvaluationTracker(output_path=str(output))
    results = evaluator.simple_evaluate(
        model=model,
        model_args=arguments,
        tasks=[NAME],
        task_manager=manager,
        batch_size=1,
        limit=limit,
        log_samples=True,
        evaluation_tracker=tracker,
        bootstrap_iters=0,
        verbosity="ERROR",
    )
    samples = results.pop("samples")
    tracker.save_results_aggregated(results=results, samples=samples, datetime_str=datetime.now().isoformat())
    tracker.save_results_samples(task_name=NAME, samples=samples[NAME])
    return results["results"][NAME]["vstar_overall_acc,none"]


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
