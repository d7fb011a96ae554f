"""Image questions as tasks of Inspect, lmms-eval and lm-evaluation-harness, and their own command lines."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import subprocess
import sys
import tomllib
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image, ImageDraw

ROOT = Path(__file__).parents[2]
TOKENS = 12
CHOICES = ["A", "B", "C", "D"]
MODULES = {"inspect": "inspect_ai", "lmms-eval": "lmms_eval", "lm-eval": "lm_eval"}
"""Harness -> the package that it is."""

_TASK = """
task: {task}
dataset_path: parquet
dataset_kwargs: {{data_files: {{test: {data}}}}}
test_split: test
output_type: {kind}
doc_to_target: label
"""
_GENERATE = "generation_kwargs: {{{limit}: {tokens}, until: []}}\n"
_CHOICE = "doc_to_choice: [A, B, C, D]\n"
_FILES = {
    "lmms/functions.py": """
def visual(doc): return [doc["image"]]
def text(doc, lmms_eval_specific_kwargs=None): return doc["question"]
def results(doc, answers): return {"right": float(answers[0].strip() == doc["label"])}
""",
    "lmms/images_generate.yaml": _TASK
    + _GENERATE
    + """
doc_to_visual: !function functions.visual
doc_to_text: !function functions.text
process_results: !function functions.results
metric_list: [{{metric: right, aggregation: mean, higher_is_better: true}}]
""",
    "lmms/images_likelihood.yaml": _TASK
    + _CHOICE
    + """
doc_to_visual: !function functions.visual
doc_to_text: !function functions.text
metric_list: [{{metric: acc, aggregation: mean, higher_is_better: true}}]
""",
    "lm/images_generate.yaml": _TASK
    + _GENERATE
    + """
doc_to_image: [image]
doc_to_text: "<image>{{{{question}}}}"
metric_list: [{{metric: exact_match}}]
""",
    "lm/images_likelihood.yaml": _TASK
    + _CHOICE
    + """
doc_to_image: [image]
doc_to_text: "<image>{{{{question}}}}"
metric_list: [{{metric: acc}}]
""",
    "inspect/task.py": """
import base64
import pyarrow.parquet as pq
from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessageUser, ContentImage, ContentText
from inspect_ai.scorer import match
from inspect_ai.solver import generate
@task
def images():
    samples = []
    for number, row in enumerate(pq.read_table({data!r}).to_pylist()):
        url = "data:image/png;base64," + base64.b64encode(row["image"]["bytes"]).decode()
        content = [ContentImage(image=url), ContentText(text=row["question"])]
        samples.append(Sample(id=number, input=[ChatMessageUser(content=content)], target=row["label"]))
    return Task(dataset=samples, solver=generate(), scorer=match())
""",
}
_LIMITS = {"lmms": "max_new_tokens", "lm": "max_gen_toks"}


def installed(harness: str) -> None:
    """Skips where a harness is absent."""
    if importlib.util.find_spec(MODULES[harness]) is None:
        pytest.skip(f"{harness} is not installed")


class Questions:
    """Questions with images of several sizes and formats, as one task for each harness.

    Args:
        folder: Where their files go.
        count: How many.
    """

    def __init__(self, folder: Path, count: int) -> None:
        self.folder = folder
        self.rows = [_row(number) for number in range(count)]
        features = json.dumps({"info": {"features": {"image": {"_type": "Image"}, **_strings("question", "label")}}})
        image = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
        schema = pa.schema([("image", image), ("question", pa.string()), ("label", pa.string())])
        table = pa.Table.from_pylist(self.rows, schema).replace_schema_metadata({"huggingface": features})
        data = str(folder / "questions.parquet")
        pq.write_table(table, data)
        for name, text in _FILES.items():
            path = folder / name
            path.parent.mkdir(exist_ok=True)
            if name.endswith(".yaml"):
                kind = "generate_until" if "generate" in name else "multiple_choice"
                limit = _LIMITS.get(path.parent.name, "")
                text = text.format(task=path.stem, data=data, kind=kind, tokens=TOKENS, limit=limit)
            path.write_text(text.format(data=data) if name.endswith("task.py") else text)
        # As an installed package would have them; the environment of the tests may be older than pyproject.toml.
        points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
        info = folder / "site" / "lyncean_entry_points-0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lyncean_entry_points\nVersion: 0\n")
        lines = [
            f"[{group}]\n{name} = {value}\n" for group, entries in points.items() for name, value in entries.items()
        ]
        (info / "entry_points.txt").write_text("\n".join(lines))

    def ask(
        self, harness: str, output: Path, address: str, method: str = "generate", **arguments: str
    ) -> subprocess.CompletedProcess[str]:
        """Runs a harness's own command line on one of its tasks."""
        model_arguments = ",".join(f"{name}={value}" for name, value in {"endpoint": address, **arguments}.items())
        command = {
            "inspect": [
                *("inspect_ai", "eval", "inspect/task.py", "--model", f"lyncean/{address}", "--log-dir", str(output)),
                *("--max-tokens", str(TOKENS), "--log-format", "json", "--display", "plain"),
                *(word for name, value in arguments.items() for word in ("-M", f"{name}={value}")),
            ],
            "lmms-eval": ["lmms_eval", "--include_path", "lmms", *(["--force_simple"] * (method == "likelihood"))],
            "lm-eval": ["lyncean_harnesses.library.models.lm_eval", "run", "--include_path", "lm"],
        }[harness]
        if harness != "inspect":
            command += [
                "--model",
                "lyncean",
                "--model_args",
                model_arguments,
                "--tasks",
                f"images_{method}",
                "--log_samples",
            ]
            command += ["--output_path", str(output)]
        environment = {name: value for name, value in os.environ.items() if name != "LYNCEAN_TOKEN"}
        environment |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "COLUMNS": "1000"}
        environment |= {"HF_HOME": str(self.folder / "hf"), "PYTHONPATH": str(self.folder / "site")}
        return subprocess.run(
            [sys.executable, "-m", *command],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=170,
        )


def samples(harness: str, output: Path) -> list[Any]:
    """Returns what a harness's log of samples has for each question: the answer, or the continuations' scores."""
    if harness == "inspect":
        (log,) = output.glob("*.json")
        samples = sorted(json.loads(log.read_text())["samples"], key=lambda sample: int(sample["id"]))
        return [sample["output"]["choices"][0]["message"]["content"] for sample in samples]
    (log,) = output.rglob("*samples_*.jsonl")
    lines = sorted((json.loads(line) for line in log.read_text().splitlines()), key=lambda line: int(line["doc_id"]))
    return [_response(line.get("resps", line["filtered_resps"])) for line in lines]


def failure(log: Path) -> str:
    """Returns the error of the newest of Inspect's logs."""
    newest = max(log.glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
    return str(json.loads(newest.read_text())["error"]["message"])


def _response(value: Any) -> Any:
    """Returns an answer, or the first number of each continuation's score, however deep the log has them."""
    while isinstance(value, list) and len(value) == 1:
        (value,) = value
    return value if isinstance(value, str) else [float((pair[0] if len(pair) == 1 else pair)[0]) for pair in value]


def _strings(*names: str) -> dict[str, Any]:
    return {name: {"dtype": "string", "_type": "Value"} for name in names}


def _row(number: int) -> dict[str, Any]:
    draw = random.Random(number)
    image = Image.new("RGB", (draw.randrange(40, 240), draw.randrange(40, 200)), _color(draw))
    canvas = ImageDraw.Draw(image)
    for _ in range(4):
        x, y = draw.randrange(image.width), draw.randrange(image.height)
        canvas.ellipse((x, y, x + 30, y + 30), fill=_color(draw))
    buffer = BytesIO()
    (image if number % 4 else image.convert("L")).save(buffer, ("PNG", "JPEG", "WEBP")[number % 3])
    question = f"Question {number}: which colour has the largest shape?\nA. red\nB. green\nC. blue\nD. yellow"
    return {"image": {"bytes": buffer.getvalue(), "path": None}, "question": question, "label": CHOICES[number % 4]}


def _color(draw: random.Random) -> tuple[int, int, int]:
    return (draw.randrange(256), draw.randrange(256), draw.randrange(256))
