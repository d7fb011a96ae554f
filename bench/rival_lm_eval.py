"""Runs lm-evaluation-harness on the same rows, in its own interpreter: `PYTHON rival_lm_eval.py JOB`, JOB in JSON.

A whole run is its own command line. A core warms up with eight rows and times `simple_evaluate` alone.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path

import yaml

NAME = "bench"
QUESTION = "{{text}}\nAnswer with the option's letter from the given choices directly."


def main(job: dict) -> None:
    """Runs one evaluation; a core prints its seconds."""
    folder = Path(job["folder"])
    folder.mkdir(exist_ok=True)
    task = {
        "task": NAME,
        "dataset_path": "parquet",
        "dataset_kwargs": {"data_files": {"test": job["data"]}},
        "test_split": "test",
        "output_type": "generate_until",
        "doc_to_text": QUESTION,
        "doc_to_image": ["image"],
        "doc_to_target": "label",
        "generation_kwargs": {"until": ["\n\n"], "max_gen_toks": 16, "do_sample": False},
        "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}],
    }
    (folder / f"{NAME}.yaml").write_text(yaml.safe_dump(task))
    url = f"http://127.0.0.1:{job['port']}/v1/chat/completions"
    model_arguments = f"model=null,base_url={url},num_concurrent=32,tokenizer_backend=None,max_retries=1,max_images=1"
    model, arguments = ("local-chat-completions", model_arguments) if job["way"] == "http" else ("dummy", "")
    from lm_eval.models.dummy import DummyLM

    DummyLM.MULTIMODAL = True  # without it tasks with images are rejected; it never opens the images
    if job["whole"]:
        from lm_eval.__main__ import cli_evaluate

        chat = ["--apply_chat_template"] if arguments else []
        model_options = ["--model", model, *(["--model_args", arguments] if arguments else []), *chat]
        paths = ["--tasks", NAME, "--include_path", str(folder), "--output_path", str(folder / "log")]
        sys.argv = ["lm_eval", "run", *model_options, *paths, "--log_samples"]
        cli_evaluate()
        return
    core(job, folder, model, arguments)


def core(job: dict, folder: Path, model: str, arguments: str) -> None:
    """Times an evaluation in a process that is warm."""
    from lm_eval import simple_evaluate
    from lm_eval.loggers import EvaluationTracker
    from lm_eval.tasks import TaskManager

    started = time.perf_counter()
    manager = TaskManager(include_path=str(folder))
    index = time.perf_counter() - started

    def evaluate(output: Path, limit: int | None) -> int:
        tracker = EvaluationTracker(output_path=str(output))
        results = simple_evaluate(
            model=model,
            model_args=arguments,
            tasks=[NAME],
            task_manager=manager,
            limit=limit,
            log_samples=True,
            bootstrap_iters=0,
            apply_chat_template=bool(arguments),
            evaluation_tracker=tracker,
        )
        samples = results.pop("samples")
        tracker.save_results_aggregated(results=results, samples=samples)
        tracker.save_results_samples(task_name=NAME, samples=samples[NAME])
        return len(samples[NAME])

    evaluate(folder / "warm", 8)
    before, started = used(), time.perf_counter()
    count = evaluate(folder / "log", None)
    seconds, cpu = time.perf_counter() - started, used() - before
    assert count == job["rows"], f"{count} samples logged"
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"seconds": seconds, "index": index, "cpu": cpu, "rss": peak}))


def used() -> float:
    """Returns the CPU seconds of this process, threads and ended children included."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
