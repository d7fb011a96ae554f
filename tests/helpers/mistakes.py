"""Error messages of commands."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
import orjson
from click.testing import CliRunner
from PIL import Image

FILES = {
    "empty": b"",
    "torn": b'{"doc_id": ',
    "words": b"hello world",
    "bytes": b"\xff\xfe\x00\x01",
    "other": b'{"a": 1}',
    "list": b"[1, 2]",
    "number": b"3",
}


def one_line(output: str) -> str:
    """Returns the one line of an error."""
    errors = [line for line in output.splitlines() if line.startswith("Error:")]
    assert len(errors) == 1, output
    assert "Traceback" not in output
    return errors[0]


def mistake(command: click.Command, *arguments: str) -> str:
    """Returns the one line with which a command refuses these words."""
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 2, (result.output, result.exception)
    assert isinstance(result.exception, SystemExit)
    return one_line(result.output)


def error(path: Path, arguments: tuple[str, ...]) -> str:
    """Returns the one line with which `orchestrator` refuses a path."""
    from orchestrator.cli import main  # not for tests of a service alone

    return mistake(main, *(word.format(path=path) for word in arguments))


def refuses_no_folder(arguments: tuple[str, ...], folder: Path) -> None:
    """Makes sure that a command refuses an absent folder, a file and an empty folder."""
    assert "nothing" in error(folder / "nothing", arguments)
    file = folder / "file"
    file.write_text("x")
    assert "is a file" in error(file, arguments)
    empty = folder / "folder"
    empty.mkdir()
    assert "folder" in error(empty, arguments)


LISTED = Path(__file__).parent.parent / "fixtures" / "mistakes.toml"
"""Typical mistakes, and what is said of each."""
_PHOTOS = """id,image,question,A,B,C,answer
1,photos/1.png,Which colour?,red,green,blue,A
2,photos/2.png,Which colour?,red,green,blue,C
"""
_TASK = """task: photos
data: photos.csv
id: id
image: image
options: [A, B, C]
question: question
answer: answer
answer_is: letter
"""


def listed(*, extension: bool, weekly: bool = False) -> list[dict[str, Any]]:
    """Returns the typical mistakes of the core or of extensions, those of which a server starts for the weekly job."""
    entries = tomllib.loads(LISTED.read_text())["mistake"]
    return [
        entry
        for entry in entries
        if entry.get("extension", False) is extension and entry.get("weekly", False) <= weekly
    ]


def playground(folder: Path) -> Path:
    """Makes the folder in which they are typed: tables, task files, runs, and what is none of these."""
    from helpers.report_runs import Writer, accuracy

    (folder / "empty").mkdir()
    (folder / "photos").mkdir()
    for number in (1, 2):
        Image.new("RGB", (8, 8), "red").save(folder / "photos" / f"{number}.png")
    texts = {
        **{
            "photos.csv": _PHOTOS,
            "photos.yaml": _TASK,
            "bad.yaml": "task: [\n",
            "empty.csv": "",
            "notes.txt": "hello\n",
        },
        **{"torn.json": '{"id": ', "torn.parquet": "PAR1xxxx", "typo.yaml": "task: t\ndata: photos.csv\nfoo: 1\n"},
        "lost.csv": "id,image,question,answer\n1,photos/9.png,What?,A\n",
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    for name, task in (("run", "photos"), ("other", "marvel")):
        writer = Writer(folder / name, tasks=[task])
        for number in range(4):
            writer.item(f"{task}/{number}", answer="A", score=float(number % 2))
        run = writer.close({task: [accuracy("accuracy", writer.verdicts)]})
        texts_of_run = {"command": f"orchestrator eval --task {task}", "scorer": "0.1.0"}
        manifest = orjson.loads((run / "manifest.json").read_bytes())
        (run / "manifest.json").write_bytes(orjson.dumps({"metrics": {}, "shard": None, **manifest, **texts_of_run}))
    return folder


def wrong(outcomes: Iterable[tuple[dict[str, Any], int, str]]) -> list[str]:
    """Returns the mistakes of which something else is said, or a traceback, or more than one error."""
    lines = []
    for entry, code, output in outcomes:
        errors = [line for line in output.splitlines() if line.startswith("Error:")]
        accepted = (entry["says"], entry.get("without_extra", entry["says"]))
        good = len(errors) == 1 and any(word in errors[0] for word in accepted) and "Traceback" not in output
        if not good or code != entry.get("code", 2):
            lines.append(f"{entry['type']}\n  says {code}: {output.strip()[-500:]}\n  and not: {entry['says']}")
    return lines
