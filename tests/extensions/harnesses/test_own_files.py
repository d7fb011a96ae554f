"""A foreign task shows files of its own data alone: what rows, code or configuration name elsewhere stays here."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers import clips
from helpers.engine_cluster import Server
from helpers.toy_harness import ToyHarness, write
from PIL import Image

from lyncean.plugins import OwnFiles
from lyncean_harnesses.library.own_files import outside

PRIVATE, OWN = (201, 7, 99), (9, 90, 200)
"""Colours of an image that nobody is to see, and of the task's own."""
KEY = "-----BEGIN OPENSSH PRIVATE KEY-----"

_SERVER = """
import json, sys
from model_server.kit import Model, Request, main

class Seeing(Model):
    name, revision, max_context_tokens, multi_image, audio_input = "seeing", "1", 1 << 16, True, True

    def generate(self, request: Request) -> str:
        seen = {"text": request.text, "pixels": [image.convert("RGB").getpixel((0, 0)) for image in request.images],
                "audio": len(request.audio)}
        with open("/proc/self/cwd/seen.jsonl", "a") as file:
            file.write(json.dumps(seen) + "\\n")
        return "3"

main(Seeing)
"""
_TASK = """
task: {name}
dataset_path: {path}
{more}
test_split: test
output_type: generate_until
process_results: !function showing.results
metric_list: [{{metric: right}}]
"""
_SHOWS = "doc_to_image: !function showing.image"
_CODE = """
def image(doc): return [doc["picture"]]
def results(doc, answers): return {"right": float(answers[0].strip() == doc.get("answer", "3"))}
"""


def picture(colour: tuple[int, int, int]) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8), colour).save(buffer, "PNG")
    return buffer.getvalue()


class Machine:
    """A user's home with what is private in it, a task's data beside it, and a model server that notes what it sees."""

    def __init__(self, folder: Path) -> None:
        self.toy = ToyHarness(folder / "toy")
        task = self.toy.site / "lm_eval" / "api" / "task.py"
        text = task.read_text().replace("doc_to_image(self, doc): return []", "doc_to_image(self, doc): return "
                                        "self.config.doc_to_image(doc)")  # fmt: skip
        kwargs = "datasets.load_dataset(self.config.dataset_path, **(dataset_kwargs or {}))"
        task.write_text(text.replace("datasets.load_dataset(self.config.dataset_path)", kwargs))
        write(self.toy.tasks, {"showing.py": _CODE, "shows.yaml": self.task("shows", "nobody/none", _SHOWS)})
        self.home, self.data = folder / "home", folder / "data"
        self.cache = Path(self.toy.environment["HF_HOME"])
        for path in (self.home / ".ssh", self.data / ".ssh", self.cache / "pictures", folder / "model"):
            path.mkdir(parents=True)
        for path in (self.home / "private.png", self.cache / "token", self.data / ".ssh" / "private.png"):
            path.write_bytes(picture(PRIVATE))
        for path in (self.data / "own.png", self.cache / "pictures" / "own.png"):
            path.write_bytes(picture(OWN))
        (self.home / ".ssh" / "id_rsa").write_text(KEY)
        (self.home / "private.wav").write_bytes(clips.audio())
        (self.data / "link.png").symlink_to(self.home / "private.png")
        (self.data / "link.wav").symlink_to(self.home / ".ssh" / "id_rsa")
        server = [sys.executable, "-c", _SERVER]
        self.server = Server(folder / "model", ["env", "-C", str(folder / "model"), *server]).start()
        self.seen_file = folder / "model" / "seen.jsonl"

    @staticmethod
    def task(name: str, path: str, more: str) -> str:
        return _TASK.format(name=name, path=path, more=more)

    def seen(self) -> list[dict[str, Any]]:
        return list(map(json.loads, self.seen_file.read_text().splitlines())) if self.seen_file.exists() else []

    def run(self, task: str, *more: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "orchestrator", "eval", "--task", f"lm-eval:{task}", "--include-path"]
        command += [str(self.toy.tasks), "--endpoint", self.server.address, "--patience", "30", *more]
        return subprocess.run(
            command, env=self.toy.environment, cwd=self.home, capture_output=True, text=True, check=False
        )


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    started = Machine(tmp_path)
    yield started
    started.server.kill()


def test_paths_of_rows_are_shown_from_the_task_s_own_data_alone(machine: Machine, tmp_path: Path) -> None:
    allowed = [machine.data / "own.png", machine.cache / "pictures" / "own.png", machine.data / "no" / ".." / "own.png"]
    private = [
        machine.home / "private.png", machine.home / "private.wav", machine.home / ".ssh" / "id_rsa",
        machine.cache / "token", machine.data / "link.png", machine.data / "link.wav",
        machine.data / ".ssh" / "private.png", machine.data / ".." / "home" / "private.png",
        Path("private.png"), Path("/etc/passwd"),
    ]  # fmt: skip
    rows = [{"question": f"What is {n}?", "answer": "3", "picture": str(p)} for n, p in enumerate(allowed + private)]
    data = machine.data / "rows.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = machine.run("shows", "--data", str(data), "--run", str(tmp_path / "run"), "--max-rejected", "100%")
    assert done.returncode == 0, done.stderr
    seen = machine.seen()
    assert sorted(request["text"] for request in seen) == [f"What is {n}?" for n in range(len(allowed))]
    assert [(request["pixels"], request["audio"]) for request in seen] == [([list(OWN)], 0)] * len(allowed)
    rejected = [line for line in (tmp_path / "run" / "responses.jsonl").open() if '"outside_data"' in line]
    assert len(rejected) == len(private)
    assert all("--include-path" in line for line in rejected)


def test_a_first_row_that_names_a_private_file_is_refused_in_one_line(machine: Machine) -> None:
    data = machine.data / "rows.jsonl"
    data.write_text(json.dumps({"question": "?", "answer": "3", "picture": str(machine.home / "private.png")}) + "\n")
    done = machine.run("shows", "--data", str(data))
    assert done.returncode == 2
    assert f"it names a file outside of its data ({machine.home}/private.png), which is not read" in done.stderr
    assert "Traceback" not in done.stderr
    assert machine.seen() == []


def test_images_of_a_table_that_are_paths_are_its_own(machine: Machine, tmp_path: Path) -> None:
    import datasets
    import pyarrow.parquet

    paths = [machine.data / "own.png", machine.home / "private.png", machine.data / "link.png"]
    rows = {"question": list("012"), "answer": ["3"] * 3, "picture": [{"path": str(p), "bytes": None} for p in paths]}
    table = datasets.Dataset.from_dict(rows).cast_column("picture", datasets.Image())
    file = machine.data / "table.parquet"
    pyarrow.parquet.write_table(table.data.table, file)  # as it is: `datasets` would put the files into the table
    done = machine.run("shows", "--data", str(file), "--max-rejected", "100%")
    assert done.returncode == 0, done.stderr
    assert [(request["text"], request["pixels"]) for request in machine.seen()] == [("0", [list(OWN)])]


def test_a_configuration_reads_no_private_file_as_its_rows(machine: Machine) -> None:
    kwargs = f"dataset_kwargs: {{data_files: {{test: '{machine.home}/.ssh/id_*'}}}}"
    (machine.toy.tasks / "leaks.yaml").write_text(machine.task("leaks", "text", kwargs))
    done = machine.run("leaks")
    assert done.returncode == 2, done.stderr
    key = f"{machine.home}/.ssh/id_rsa"
    assert (
        f"its configuration names data outside of its own ({key}): if they are to be read, give --data" in done.stderr
    )
    assert "Traceback" not in done.stderr
    assert machine.seen() == []


@pytest.mark.parametrize(
    ("path", "data_files", "data_dir"),
    [
        ("text", {"test": "{home}/.ssh/id_rsa"}, None),
        ("text", ["{tasks}/own.txt", "{home}/.ssh/id_*"], None),
        ("text", {"test": ["file://{home}/.ssh/id_rsa"]}, None),
        ("text", ".ssh/id_rsa", None),
        ("text", "{tasks}/link.txt", None),
        ("text", "{tasks}/*.txt", None),
        ("text", "{tasks}/../home/.ssh/id_rsa", None),
        ("text", None, "{home}/.ssh"),
        ("text", "id_rsa", "{home}/.ssh"),
        ("text", "zip://key.txt::{home}/key.zip", None),
        ("text", "zip://key.txt::file://{home}/key.zip", None),
        ("{home}/.ssh", "id_rsa", None),
        ("{home}/.ssh/id_rsa", None, None),
        ("someone/some", "{home}/.ssh/id_rsa", None),
    ],
)
def test_no_argument_of_load_dataset_leads_outside(
    path: str, data_files: Any, data_dir: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, tasks = tmp_path / "home", tmp_path / "tasks"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "id_rsa").write_text(KEY)
    (home / "key.zip").write_bytes(b"")
    write(tasks, {"own.txt": "What?"})
    files = OwnFiles([tasks])
    assert outside(files, "text", {"test": [f"{tasks}/*.txt"]}) == ""
    (tasks / "link.txt").symlink_to(home / ".ssh" / "id_rsa")
    monkeypatch.chdir(home)

    def named(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: named(part) for name, part in value.items()}
        return [*map(named, value)] if isinstance(value, list) else value and value.format(home=home, tasks=tasks)

    assert outside(files, named(path), named(data_files), named(data_dir))
    for mine in ("rows.txt", "hf://datasets/someone/some/rows.txt", "https://example.com/rows.txt"):
        assert outside(files, "someone/some", mine) == ""


def test_a_configuration_reads_the_files_beside_it(machine: Machine) -> None:
    (machine.toy.tasks / "own.jsonl").write_text(json.dumps({"question": "What is 1 + 2?", "answer": "3"}) + "\n")
    kwargs = f"dataset_kwargs: {{data_files: {{test: '{machine.toy.tasks}/own.js*'}}}}"
    (machine.toy.tasks / "reads.yaml").write_text(machine.task("reads", "json", kwargs))
    done = machine.run("reads")
    assert done.returncode == 0, done.stderr
    assert [request["text"] for request in machine.seen()] == ["What is 1 + 2?"]


def test_the_usual_cache_is_one_of_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_HOME", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "huggingface" / "datasets").mkdir(parents=True)
    assert OwnFiles().resolved(tmp_path / "huggingface" / "datasets" / "a.png")
    assert OwnFiles().resolved(tmp_path / "huggingface" / "token") is None


def test_what_cannot_be_resolved_is_outside(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    files = OwnFiles([tmp_path])
    assert files.resolved(tmp_path / "a") is None
    assert files.resolved("x\0y") is None
    assert files.resolved(tmp_path / "c") == (tmp_path / "c").resolve()
