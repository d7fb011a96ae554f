"""An extension with one of each kind that the orchestrator and the model server take.

Rule and metric are in `lyncean_colours_scoring`: a scorer has no orchestrator beside it.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import TextIO

import click
from PIL import Image

from lyncean.cli import Command
from lyncean.errors import UserError
from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import Credentials, ServerConfig
from lyncean.scorer.v1 import scorer_pb2 as scorer
from orchestrator import Format
from orchestrator.benchmarks import Benchmark, TaskGroup
from orchestrator.data import Row, RowSource
from orchestrator.run_folder import Run, open_run
from orchestrator.samples import Call, Sample, Scoring, Variant, image_part, metric, single, text_part, user

COLOURS = ("red", "green", "blue", "grey")


def _row(number: int) -> Row:
    def picture(_: str) -> bytes:
        buffer = io.BytesIO()
        Image.new("RGB", (8, 8), COLOURS[number % 4]).save(buffer, "PNG")
        return buffer.getvalue()

    return Row({"id": str(number), "colour": COLOURS[number % 4]}, picture)


def _samples(row: Row, variant: Variant) -> Iterator[Sample]:
    def ask() -> Call:
        image = row.image()
        assert image is not None
        config = model.GenerationConfig(max_output_tokens=8, temperature=0.0)
        return Call((user(image_part(image), text_part("Which colour?")),), config)

    yield single(variant.key(row["id"]), ask, Scoring("same_colour", (row["colour"],)))


def _metrics(_: Variant) -> Sequence[scorer.MetricSpec]:
    return [metric("accuracy", "accuracy"), metric("share", "share_of_colours")]


class Tasks:
    """Tasks `colours:N`: N images of one colour each."""

    name = "colours"

    def find(self, name: str, include: Sequence[str]) -> Mapping[str, Benchmark]:
        """Returns the benchmark of N images."""
        if not name.isdecimal():
            raise UserError(f"task colours:{name}: give a number of images, for example colours:20")
        rows = RowSource("drawn", name, int(name), lambda: map(_row, range(int(name))))
        task = f"colours:{name}"
        benchmark = Benchmark(
            name=task,
            tasks={task: f"The colours of {name} images"},
            data="none",
            rows=lambda *_: rows,
            samples=_samples,
            metrics=_metrics,
            synthetic=lambda *_: map(_row, range(int(name))),
            methods=("generate",),
        )
        return {task: benchmark}

    def groups(self, name: str, include: Sequence[str]) -> Mapping[str, TaskGroup]:
        """Returns nothing: there are no groups."""
        return {}

    def scored_by_code(self, settings: Mapping[str, str]) -> bool:
        """Returns False: the rule is an entry point, which the scorer's owner installed."""
        return False

    def runs_text(self, name: str, include: Sequence[str]) -> str:
        """Returns "": no text is run."""
        return ""

    def why_absent(self) -> str:
        """Returns "": nothing else has to be installed."""
        return ""


@click.command("colours", cls=Command)
@click.argument("run", type=click.Path(exists=True, path_type=Path))
def count(run: Path) -> None:
    """Count the colours that a model named."""
    answers = [item.text.strip() for item in open_run(run)]
    click.echo(", ".join(f"{colour}: {answers.count(colour)}" for colour in COLOURS))


@click.command("colours", cls=Command)
@click.argument("path", type=click.Path(exists=True, path_type=Path))
def import_answers(path: Path) -> None:
    """Import a file with one answer per line."""
    click.echo(f"{len(path.read_text().splitlines())} answers")


def write(runs: Sequence[Run], file: TextIO) -> None:
    """Writes one line per item."""
    file.writelines(f"{item.key}\t{item.text.strip()}\n" for run in runs for item in run)


class Logs:
    """Logs that end in .colours; a real reader writes a run folder by `orchestrator.run_folder`."""

    name = "colours"

    def is_log(self, path: Path) -> bool:
        """Returns True for the suffix of a log."""
        return path.suffix == ".colours"

    def make_run(self, path: Path, folder: Path) -> None:
        """Raises an error, as an example of a reader's error."""
        raise UserError(f"{path.name} holds {len(path.read_text().splitlines())} answers and no questions")


class Beside:
    """An HTTP server that reports the name of its model."""

    def __init__(self, host: str, port: int, tell: str) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.end_headers()
                self.wfile.write(json.dumps({"front": "colours", "of": tell}).encode())

        self._server = ThreadingHTTPServer((host, port), Handler)
        self.port = self._server.server_port

    def start(self) -> None:
        """Answers in a thread."""
        Thread(target=self._server.serve_forever, daemon=True).start()

    def drain(self) -> None:
        """Has nothing in flight."""

    async def stop(self) -> None:
        """Takes no more requests."""
        self._server.shutdown()
        self._server.server_close()

    def run(self) -> None:
        """Answers until Ctrl-C."""
        self._server.serve_forever()


class Front:
    """The front `colours`."""

    name = "colours"

    def run(self, endpoint: str, config: ServerConfig, credentials: Credentials, timeout: float) -> None:
        """Serves in front of a model server."""
        front = Beside(config.host, config.port, endpoint)
        if config.port_file:
            config.port_file.write_text(str(front.port))
        front.run()

    def beside(self, servicer: object, config: ServerConfig, port: int) -> Beside:
        """Serves in the model server's process."""
        return Beside(config.host, port, "this process")


TASKS, LOGS, FRONT = Tasks(), Logs(), Front()
EXPORT = Format("colours", "a line an item: key and answer", "lyncean_colours:write", "text")
