"""What the modules of the harnesses share: their index, their quiet, their errors, and tasks without data."""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import importlib.util
import inspect
import json
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from lyncean.caches import cache_folder
from lyncean.harness import HarnessError

Index = Mapping[str, Mapping[str, Any]]
"""Name -> `type` ("task", "group", "tag" or another kind), `yaml_path`, and a tag's `task`."""

LOADING = threading.RLock()
"""Held while foreign code is loaded, which changes what is global."""


class Library:
    """One installed harness.

    Args:
        package: The name to import.
        title: Its name for people.
        prefix: What its tasks' names begin with here, before the colon.
        install: The command that installs it.
    """

    def __init__(self, package: str, title: str, prefix: str, install: str) -> None:
        self.package = package
        self.title = title
        self.prefix = prefix
        self.install = install

    def version(self) -> str:
        """Returns the installed version.

        Raises:
            HarnessError: It is not installed.
        """
        try:
            return metadata.version(self.package)
        except metadata.PackageNotFoundError:
            why = f"tasks {self.prefix}:NAME need {self.title}, which is not installed"
            raise HarnessError(why, fix=self.install) from None

    def folder(self) -> Path:
        """Returns the folder of its tasks, without importing it."""
        installed = self.version()
        spec = importlib.util.find_spec(self.package)
        if spec is None or spec.origin is None:
            raise HarnessError(f"{self.title} {installed} cannot be imported", fix=self.install)
        return Path(spec.origin).parent / "tasks"

    def index(self, include: Sequence[str], read: Callable[[str], dict[str, dict[str, Any]]]) -> Index:
        """Returns the index of its tasks and of further folders, which give way to its own.

        Its own is kept from one command to the next, under its version and place.
        """
        folder = f"{self.folder()}/"
        place = cache_folder() / "harness" / f"{self.package}-{self.version()}-{sha256(folder)[:16]}.json"
        found: dict[str, dict[str, Any]] | None = None
        with contextlib.suppress(OSError, ValueError):
            found = json.loads(place.read_text())
        if found is None:
            found = read(folder)
            with contextlib.suppress(OSError):
                place.parent.mkdir(parents=True, exist_ok=True)
                partial = place.with_suffix(f".{os.getpid()}")
                partial.write_text(json.dumps(found))
                partial.replace(place)
        for further in include:
            if not Path(further).is_dir():
                why = f"--include-path {further} is no folder"
                raise HarnessError(why, fix=f"give one with configurations of {self.title}")
            found = {**read(further), **found}
        return found

    def unknown(self, name: str, known: Index) -> HarnessError:
        """Returns the error of a name that nothing has."""
        close = [f"{self.prefix}:{each}" for each in difflib.get_close_matches(name, known, n=3, cutoff=0.5)]
        hint = f"did you mean {' or '.join(close)}?" if close else "look at its list of tasks"
        return HarnessError(f"{self.title} {self.version()} has no task {name!r}", fix=hint)

    def lacking(self, name: str, error: BaseException) -> HarnessError:
        """Returns one line on why a task cannot be loaded."""
        if isinstance(error, KeyboardInterrupt):
            raise error
        if isinstance(error, HarnessError):
            return error
        where = f"task {self.prefix}:{name} of {self.title} {self.version()}"
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, ModuleNotFoundError) and cause.name:
                package = cause.name.partition(".")[0]
                return HarnessError(f"{where} needs the package {package}", fix=f"install it beside {self.title}")
            if isinstance(cause, ConnectionError):
                return HarnessError(f"{where}: its data cannot be reached ({line(cause)})", fix="give --data")
            cause = cause.__cause__ or cause.__context__
        return HarnessError(f"{where} cannot be loaded: {line(error)}")

    def code(self, name: str, path: str) -> str:
        """Returns the sha256 of a task's configuration and of the code beside it."""
        folder = Path(path).parent
        files = sorted(file for file in folder.iterdir() if file.suffix in (".py", ".yaml") or file.name[0] == "_")
        words = "".join(f"{sha256(file.read_bytes())}  {file.name}\n" for file in files if file.is_file())
        return sha256(f"{self.version()}\n{name}\n{words}")


class Scored:
    """The scoring half of a task; see `lyncean.harness.ScoredTask`.

    Args:
        task: The harness's task.
        mean: The harness's own mean of a list.
    """

    def __init__(self, task: Any, mean: Callable[..., Any]) -> None:
        self._task = task
        self._mean = mean
        self._folder = tempfile.TemporaryDirectory(prefix="lyncean-")

    def results(self, doc: Mapping[str, Any], responses: Sequence[Sequence[Any]]) -> dict[str, dict[str, Any]]:
        """Returns what its filters and `process_results` make of one document."""
        instances = [self.instance(doc, place, list(repeats)) for place, repeats in enumerate(responses)]
        with quiet(), no_judge_of_its_own():
            self.filter(instances, doc)
            return {
                key: dict(self.process(doc, [instance.filtered_resps[key] for instance in instances]))
                for key in instances[0].filtered_resps
            }

    def instance(self, doc: Mapping[str, Any], place: int, responses: list[Any]) -> Any:
        """Returns the harness's object for a request and its responses."""
        raise NotImplementedError

    def filter(self, instances: list[Any], doc: Mapping[str, Any]) -> None:
        """Applies the task's filters."""
        raise NotImplementedError

    def process(self, doc: Mapping[str, Any], filtered: list[Any]) -> Mapping[str, Any]:
        """Returns what the task's `process_results` returns."""
        raise NotImplementedError

    def aggregate(self, metric: str, values: list[Any]) -> Any:
        """Returns its aggregation of a metric's values; files that it writes go to a folder that is deleted."""
        function = self._task.aggregation()[metric]
        with quiet(), no_judge_of_its_own():
            if "args" in inspect.signature(function).parameters:
                return function(values, args=arguments(self._folder.name))
            return function(values)

    def is_mean(self, metric: str) -> bool:
        """Whether a metric's aggregation is the harness's own mean."""
        return self._task.aggregation().get(metric) is self._mean


def state(task: Any) -> dict[str, Any]:
    """Returns what a harness learns of a task from its data, for the half that scores without them."""
    return {
        "features": list(task.features),
        "multiple_target": task.multiple_target,
        "multiple_input": task.multiple_input,
    }


def arguments(folder: str) -> Any:
    """Returns what stands for a harness's command line where an aggregation asks for it."""
    return SimpleNamespace(
        output_path=folder,
        process_with_media=False,
        reasoning_tags=None,
        agentic_trace_mode="basic",
        tasks="",
        model="",
    )


class Docs(list[Any]):
    """Documents as a harness reads them of a data set."""

    features: Mapping[str, Any] = {}


class NoData(dict[str, Docs]):
    """The data of a task that is only scored: any split has one empty document."""

    def __missing__(self, split: str) -> Docs:
        return Docs([{}])


@contextlib.contextmanager
def replaced_data(module: Any, data: Any | None) -> Iterator[None]:
    """Has a harness's module read other data where its name `datasets` would load its own."""
    if data is None:
        yield
        return
    real = module.datasets

    def given(*_: Any, **__: Any) -> Any:
        return real.DatasetDict(data)

    module.datasets = SimpleNamespace(
        **{name: getattr(real, name) for name in ("DatasetDict", "DownloadMode", "Dataset", "__version__")},
        load_dataset=given,
        load_from_disk=given,
    )
    try:
        yield
    finally:
        module.datasets = real


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keeps what foreign code prints off standard output, which belongs to our commands."""
    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
        yield


@contextlib.contextmanager
def no_judge_of_its_own() -> Iterator[None]:
    """Raises where a task's code asked a server although no key was given for one: many then score 0 in silence.

    Raises:
        RuntimeError: It did; names the server.
    """
    if os.environ.get("OPENAI_API_KEY") != NO_KEY:
        yield
        return
    _audit()
    asked: list[str] = []
    _asked.append(asked)
    try:
        yield
    finally:
        _asked.remove(asked)
        if asked:
            raise RuntimeError(f"it asks a server of its own ({asked[0]}): set OPENAI_API_KEY for the scorer")


NO_KEY = "none"
"""The key of clients that tasks make of judges when they are imported, where no other is given."""

CLOSED = ("127.0.0.1", 9)
"""Where such clients would connect to: nobody answers, and no request leaves the machine."""

_asked: list[list[str]] = []


@cache
def _audit() -> None:
    """Notes the servers that Python code of this process looks up or connects to, the hub's aside."""

    def note(event: str, details: tuple[Any, ...]) -> None:
        if not _asked or event not in ("socket.getaddrinfo", "socket.connect"):
            return
        host = str(details[0] if event == "socket.getaddrinfo" else "")
        if (host and host != CLOSED[0] and "huggingface" not in host) or details[1] == CLOSED:
            for asked in _asked:
                asked.append(host or "a judge")

    sys.addaudithook(note)


def line(error: BaseException) -> str:
    """Returns an error in one line."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0][:200]}" if text else type(error).__name__


def sha256(content: str | bytes) -> str:
    """Returns the sha256 in hex."""
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()
