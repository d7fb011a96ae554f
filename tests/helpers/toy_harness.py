"""A small stand-in for lm-evaluation-harness, and tasks for it: the bridge is tried where no harness is installed.

It is a package `lm_eval` on the path of processes of their own, with as much as `lyncean_harnesses.library` uses of the
real one.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from helpers.engine_cluster import environment

_PACKAGE = {
    "lm_eval-0.dist-info/METADATA": "Metadata-Version: 2.1\nName: lm_eval\nVersion: 0\n",
    "lm_eval/__init__.py": "",
    "lm_eval/api/__init__.py": "",
    "lm_eval/api/group.py": "",
    "lm_eval/api/metrics.py": "def mean(values): return sum(values) / len(values)\n",
    "lm_eval/api/instance.py": """
class Instance:
    def __init__(self, kind, doc, arguments, idx, metadata, resps):
        self.resps, self.filtered_resps = resps, {}
""",
    "lm_eval/api/task.py": """
from types import SimpleNamespace
import datasets
from lm_eval.api.metrics import mean

DEFAULTS = dict(num_fewshot=None, repeats=1, dataset_kwargs=None, generation_kwargs={"max_gen_toks": 64})

class First:
    name = "none"
    def apply(self, instances):
        for each in instances:
            each.filtered_resps["none"] = each.resps[0]

class ConfigurableTask:
    def __init__(self, config):
        self.config = self._config = SimpleNamespace(**{**DEFAULTS, **config})
        self.OUTPUT_TYPE, self._filters = self.config.output_type, [First()]
        self.features, self.multiple_input, self.multiple_target = [], 0, 0
        self.download(self.config.dataset_kwargs)
    def download(self, dataset_kwargs=None): self.dataset = datasets.load_dataset(self.config.dataset_path)
    def has_test_docs(self): return True
    def set_config(self, key, value): setattr(self.config, key, value)
    def set_fewshot_seed(self, seed): pass
    def doc_to_prefix(self, doc): return None
    def doc_to_image(self, doc): return []
    def doc_to_target(self, doc): return doc["answer"]
    def doc_to_choice(self, doc): return doc["choices"]
    def construct_requests(self, doc, ctx, metadata):
        return [SimpleNamespace(args=(ctx, f" {each}")) for each in doc["choices"]]
    def fewshot_context(self, doc, num_fewshot, gen_prefix): return doc["question"]
    def process_results(self, doc, results): return self.config.process_results(doc, results)
    def aggregation(self): return {each["metric"]: mean for each in self.config.metric_list}
    @property
    def eval_docs(self): return self.dataset[self.config.test_split]
""",
    "lm_eval/tasks/__init__.py": "",
    "lm_eval/tasks/_index.py": """
from types import SimpleNamespace
from lm_eval.tasks._yaml_loader import load_yaml

class TaskIndex:
    @staticmethod
    def build(folders):
        paths = [path for folder in folders for path in sorted(folder.rglob("*.yaml"))]
        kind = SimpleNamespace(name="TASK")
        return {load_yaml(path, resolve_func=False)["task"]: SimpleNamespace(kind=kind, yaml_path=path, tags=())
                for path in paths}
""",
    "lm_eval/tasks/_yaml_loader.py": """
import importlib.util
from pathlib import Path
import yaml

def load_yaml(path, resolve_func=True):
    class Loader(yaml.SafeLoader): pass

    def function(loader, node):
        module, _, name = node.value.rpartition(".")
        if not resolve_func:
            return node.value
        spec = importlib.util.spec_from_file_location(module, Path(path).with_name(f"{module}.py"))
        loaded = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(loaded)
        return getattr(loaded, name)

    Loader.add_constructor("!function", function)
    return yaml.load(Path(path).read_text(), Loader)
""",
}

_TASK = """
task: {name}
dataset_path: nobody/none
test_split: test
output_type: generate_until
process_results: !function {module}.results
metric_list: [{{metric: right}}]
"""
_TASKS = {
    "compares.yaml": _TASK.format(name="compares", module="plain"),
    "plain.py": "def results(doc, answers): return {'right': float(answers[0].strip() == doc['answer'])}\n",
    "computes.yaml": _TASK.format(name="computes", module="computing"),
    "computing.py": "import os, sys\nsys.path.insert(0, os.path.dirname(__file__))\n"
    "from numbers_of import number\n\n\n"
    "def results(doc, answers): return {'right': float(number(answers[0]) == float(doc['answer']))}\n",
    "numbers_of.py": "def number(text):\n    return float(eval(text))\n",
}
RUNS_TEXT = "numbers_of.py:2 calls eval"
"""The line at which the code of the task `computes` runs text."""


def write(folder: Path, files: dict[str, str]) -> Path:
    """Writes files into a folder and returns it."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


_UNCLOSED = "from lyncean.cell import closing\nclosing.LAYERS += ('one that this system lacks',)\n"
"""Runs at the start of every process but those of cells."""


class ToyHarness:
    """The stand-in, its tasks `compares` and `computes`, and their data: two rows, whose answer is 3.

    Args:
        folder: Where all of it is written.
    """

    def __init__(self, folder: Path) -> None:
        self.site = write(folder / "site", _PACKAGE)
        self.tasks = write(folder / "tasks", _TASKS)
        self.data = folder / "rows.jsonl"
        rows = [{"question": f"What is {n} + {3 - n}?", "answer": "3"} for n in range(2)]
        self.data.write_text("".join(json.dumps(row) + "\n" for row in rows))
        self.environment = environment() | {"HF_HOME": str(folder / "hf"), "XDG_CACHE_HOME": str(folder / "cache")}
        self.environment["PYTHONPATH"] = os.pathsep.join((str(self.site), self.environment["PYTHONPATH"]))

    def without_cells(self) -> ToyHarness:
        """Has its processes find that this system closes no cells; returns itself."""
        write(self.site, {"sitecustomize.py": _UNCLOSED})
        return self
