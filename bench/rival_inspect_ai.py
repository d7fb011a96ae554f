"""Runs Inspect on the same rows, in its own interpreter: `PYTHON rival_inspect_ai.py JOB`, JOB in JSON.

A whole run is its own command line over this file as a task file. A core warms up with eight rows and times `eval`
alone.
"""

from __future__ import annotations

import base64
import json
import os
import resource
import sys
import time
from pathlib import Path


class Estimate:
    """Replaces tiktoken's encoding, which needs the internet: four characters per token."""

    def encode(self, text: str, **_: object) -> range:
        """Returns a sequence as long as the tokens of a text."""
        return range(len(text) // 4)


def _task(data: str) -> object:
    """Returns the task: each row's question after its image, answered by a letter."""
    import pyarrow.parquet as pq
    import tiktoken
    from inspect_ai import Task
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.model import ChatMessageUser, ContentImage, ContentText, GenerateConfig
    from inspect_ai.scorer import match

    tiktoken.get_encoding = tiktoken.encoding_for_model = lambda _: Estimate()
    samples = []
    for batch in pq.ParquetFile(data).iter_batches(64):
        for row in batch.to_pylist():
            image = row["image"]["bytes"]
            kind = "jpeg" if image[:2] == b"\xff\xd8" else "png"
            uri = f"data:image/{kind};base64,{base64.b64encode(image).decode()}"
            text = f"{row['text']}\nAnswer with the option's letter from the given choices directly."
            message = ChatMessageUser(content=[ContentImage(image=uri), ContentText(text=text)])
            samples.append(Sample(input=[message], target=row["label"], id=row["question_id"]))
    config = GenerateConfig(max_tokens=16, temperature=0)
    return Task(dataset=MemoryDataset(samples), scorer=match(location="begin"), config=config)


def main(job: dict) -> None:
    """Runs one evaluation; a core prints its seconds."""
    folder = Path(job["folder"])
    folder.mkdir(exist_ok=True)
    model = "openai/null" if job["way"] == "http" else "mockllm/model"
    url = f"http://127.0.0.1:{job['port']}/v1"
    if job["whole"]:
        file = folder / "bench_task.py"
        source = f"import sys\nsys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        source += "from inspect_ai import task\nfrom rival_inspect_ai import _task\n\n"
        source += f"@task\ndef bench():\n    return _task({job['data']!r})\n"
        file.write_text(source)
        arguments = ["-m", "inspect_ai", "eval", file.name, "--model", model, "--display", "none"]
        arguments += ["--log-dir", str(folder / "log"), "--max-connections", "32", "--max-samples", "32"]
        arguments += ["--model-base-url", url, "-M", "responses_api=false"] if job["way"] == "http" else []
        os.chdir(folder)  # the process becomes the command, which takes relative names only
        os.execv(sys.executable, [sys.executable, *arguments])  # noqa: S606
    core(job, folder, model, url)


def core(job: dict, folder: Path, model: str, url: str) -> None:
    """Times an evaluation in a process that is warm."""
    from inspect_ai import eval as evaluate

    address, arguments = (url, {"responses_api": False}) if job["way"] == "http" else (None, {})

    def run(limit: int | None) -> int:
        (log,) = evaluate(
            _task(job["data"]), model=model, model_base_url=address, model_args=arguments, display="none", limit=limit,
            log_dir=str(folder / "log"), max_connections=32, max_samples=32,
        )  # fmt: skip
        assert log.status == "success", log.error
        return log.results.completed_samples

    run(8)
    before, started = used(), time.perf_counter()
    count = run(None)
    seconds, cpu = time.perf_counter() - started, used() - before
    assert count == job["rows"], f"{count} samples logged"
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"seconds": seconds, "index": 0.0, "cpu": cpu, "rss": peak}))


def used() -> float:
    """Returns the CPU seconds of this process, threads and ended children included."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
