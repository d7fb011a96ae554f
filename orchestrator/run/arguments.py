"""Words of a request, read: data, settings, stages and shard."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from lyncean.rpc.addresses import shown_place
from orchestrator.benchmarks import bundle
from orchestrator.benchmarks.base import Benchmark
from orchestrator.engine.deviations import config_of
from orchestrator.engine.resolve import Endpoint, parse_endpoints
from orchestrator.errors import ConfigError
from orchestrator.run import reason_then_score
from orchestrator.run.request import RunRequest

MOST_DIGITS = 20
"""Characters of `--shard`: no cluster has more shards, and Python refuses to read very long numbers."""


def words_of(value: str | Sequence[str]) -> list[str]:
    """Returns the words of a parameter that takes one or several."""
    return [value] if isinstance(value, str) else list(value)


def pairs_of(option: str, value: Sequence[str] | Mapping[str, Any], form: str) -> list[tuple[str, Any]]:
    """Returns (name, value) of a parameter that takes a mapping, or words NAME=VALUE.

    Raises:
        ConfigError: If a word is not a pair of `form`.
    """
    if isinstance(value, Mapping):
        return list(value.items())
    pairs = [word.partition("=") for word in value]
    for name, equals, text in pairs:
        if not (name and equals):
            raise ConfigError(f"{option} {name}{equals}{text}: give {form}")
    return [(name, text) for name, _, text in pairs]


_ADDRESS = re.compile(r"://|:[^@]*@|[?].*=")
"""Signs of an address with a scheme, user or parameters, which neither paths nor hub ids have."""
_GIVEN = {"backend", "model", "host", "port", "port-file", "help", "tls-cert", "tls-key", "tls-client-ca", "token-file"}
"""Options of a model server that a run gives it, or with which it could not reach it."""


def check_place(option: str, task: str, address: str) -> None:
    """Refuses an address in place of a path or hub id, before anything repeats its password.

    Raises:
        ConfigError: If it is one.
    """
    if _ADDRESS.search(address) and not Path(address).exists():
        named = f"{task}={shown_place(address)}" if task else shown_place(address)
        raise ConfigError(f"{option} {named} is a URL: download it, and give its path, or a hub id")


def data_of(
    value: str | Path | Sequence[str] | Mapping[str, str | Path] | None, benchmarks: Mapping[str, Benchmark]
) -> dict[str, str]:
    """Returns each task's data: PATH for all tasks, TASK=PATH or a mapping for one.

    Args:
        value: The request's `data`.
        benchmarks: Each task's benchmark.

    Raises:
        ConfigError: If it names no data, no task, or one task's data twice.
    """
    if isinstance(value, Mapping):
        value = [f"{task}={path}" for task, path in value.items()]
    paths: dict[str, str] = {}
    everywhere = ""
    for word in words_of(str(value) if isinstance(value, Path) else value or ()):
        task, equals, path = word.partition("=")
        named = bool(equals) and task in benchmarks
        check_place("--data", task if named else "", path if named else word)
        if not word or (task in benchmarks and equals and not path):
            raise ConfigError(f"--data {word!r} names no data: give a path or hub id, or leave it out")
        if equals and task in benchmarks:
            if task in paths:
                raise ConfigError(f"--data {word}: {task} has data already ({paths[task]}): leave one out")
            paths[task] = path
        elif equals and task.isidentifier() and "/" not in task and not Path(word).exists():
            raise ConfigError(f"--data {word}: {task} is none of the tasks {', '.join(benchmarks)}")
        elif everywhere:
            raise ConfigError(f"--data {everywhere} and --data {word}: give one for all tasks, others as TASK=PATH")
        else:
            everywhere = word
    if everywhere:
        paths = dict.fromkeys(benchmarks, everywhere) | paths
    return {name: bundle.resolve(path, name) for name, path in paths.items()}


def settings_of(value: Sequence[str] | Mapping[str, object] | None, benchmarks: Sequence[Benchmark]) -> dict[str, Any]:
    """Returns an instance of each benchmark's settings, by the benchmark's name.

    Raises:
        ConfigError: If no benchmark has such a setting, or it does not take the value.
    """
    fields = {b.name: _fields(b) for b in benchmarks}
    known = sorted(set().union(*fields.values()))
    form = f"one of the known settings, NAME=VALUE: {', '.join(known) or 'none for this task'}"
    pairs = pairs_of("--set", value or (), form)
    for name, text in pairs:
        if name not in known:
            there = f"known settings are {', '.join(known)}" if known else f"{', '.join(fields)} has no settings"
            raise ConfigError(f"--set {name}={text}: {there}")
    return {
        b.name: _instance(b.settings, {name: text for name, text in pairs if name in fields[b.name]})
        for b in benchmarks
    }


def _instance(kind: Any, values: Mapping[str, Any]) -> Any:
    """Returns the settings of these values, or words that are converted to their fields' types."""
    if not values:
        return kind()
    from pydantic import TypeAdapter, ValidationError

    try:
        settings = TypeAdapter(kind).validate_python(values)
    except ValidationError as error:
        first = error.errors()[0]
        if not first["loc"]:  # raised by the settings themselves, of all values together
            raise ConfigError(f"--set: {first['msg'].removeprefix('Value error, ')}") from error
        name = first["loc"][0]
        raise ConfigError(f"--set {name}={values[str(name)]}: {first['msg']}") from error
    for name in values:
        allowed = kind.__dataclass_fields__[name].metadata.get("range")
        if allowed is not None and getattr(settings, name) not in allowed:
            raise ConfigError(f"--set {name}={values[name]}: give {allowed[0]} to {allowed[-1]}")
    return settings


def _fields(benchmark: Benchmark) -> set[str]:
    kind = benchmark.settings
    return {field.name for field in dataclasses.fields(kind)} if dataclasses.is_dataclass(kind) else set()


def deviations_of(request: RunRequest) -> dict[str, Any]:
    """Returns how a run's decoding deviates from the benchmark's own, as the manifest records it; empty if it does not.

    Raises:
        ConfigError: If a setting is none, or its value is out of range, or nothing would be generated with it.
    """
    options = {
        "answer": request.answer if request.answer != "free" else None,
        "generation": _generation(request.generation),
        "thinking": _thinking(request.thinking),
        "chat_template": {
            name: _json(text) for name, text in pairs_of("--chat-template", request.chat_template, "KEY=VALUE")
        },
        "extra_body": _object(request.extra_body),
    }
    options = {name: value for name, value in options.items() if value is not None and value != {}}
    try:
        config_of(options)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"--chat-template and --extra-body take what JSON has, and this is not: {error}") from error
    if options and request.method != "generate":
        flag = "--" + next(iter(options)).replace("_", "-")
        raise ConfigError(f"{flag} is for --method generate, and this run scores continuations: leave it out")
    if request.finish_cut and request.method != "generate":
        raise ConfigError("--finish-cut is for --method generate, and this run scores continuations: leave it out")
    if request.finish_cut and request.until is not None:
        raise ConfigError("--finish-cut is for a run without --until, whose looks are at answers as they came")
    if request.answer == reason_then_score.NAME and request.parity:
        raise ConfigError("--parity asks and scores as the reference does: drop it, or drop --answer")
    return options


def _generation(value: str | Sequence[str] | Mapping[str, object]) -> dict[str, float]:
    if not isinstance(value, Mapping):
        value = [word for advice in words_of(value) for word in advice.split(",")]
    settings: dict[str, float] = {}
    for name, text in pairs_of("--generation", value, f"NAME=VALUE with one of {', '.join(_RANGES)}"):
        if name not in _RANGES:
            raise ConfigError(f"--generation {name}={text}: known settings are {', '.join(_RANGES)}")
        if name in settings:
            raise ConfigError(f"--generation {name}={text}: {name} is set already: leave one out")
        kind, allowed, advice = _RANGES[name]
        try:
            number = kind(str(text))
        except (TypeError, ValueError):
            number = None
        if number is None or not allowed(number):
            raise ConfigError(f"--generation {name}={text}: give {advice}")
        settings[name] = number
    return settings


_RANGES: Mapping[str, tuple[Callable[[Any], Any], Callable[[Any], bool], str]] = {
    "max_output_tokens": (int, lambda value: 1 <= value < 2**32, "a whole number from 1 to 4294967295"),
    "temperature": (float, lambda value: 0 <= value <= 1e6, "a number from 0 to 1000000"),
    "top_p": (float, lambda value: 0 < value <= 1, "a number above 0 and at most 1"),
    "top_k": (int, lambda value: 0 <= value < 2**32, "a whole number from 0 to 4294967295"),
}
"""Settings of `--generation`: how each is read, which values it may have, and that in words."""


def _thinking(value: str | bool | int | None) -> str | int | None:
    if value is None or isinstance(value, bool):
        return value if value is None else ("on" if value else "off")
    word = str(value)
    if word in ("on", "off"):
        return word
    if not (word.isascii() and word.isdecimal() and len(word) <= MOST_DIGITS and 0 < int(word) < 2**32):
        raise ConfigError(f"--thinking {word}: give on, off, or the most tokens of reasoning as a whole number from 1")
    return int(word)


def _object(value: str | Mapping[str, object] | None) -> Mapping[str, object] | None:
    fields = _json(value) if isinstance(value, str) else value
    if fields is not None and not isinstance(fields, Mapping):
        raise ConfigError(f"--extra-body {value}: give a JSON object, for example '{{\"min_p\": 0.1}}'")
    return fields


def _json(value: object) -> Any:
    """Parses a word as JSON, else returns it unchanged: a template's `true` is not a string."""
    try:
        return orjson.loads(value) if isinstance(value, str) else value
    except orjson.JSONDecodeError:
        return value


def stages_of(value: Sequence[str] | Mapping[str, str]) -> dict[str, list[Endpoint]]:
    """Returns the model servers of further stages, by stage.

    Raises:
        ConfigError: If a word is not NAME=H:P.
    """
    stages: dict[str, list[Endpoint]] = {}
    for name, address in pairs_of("--stage", value, "NAME=H:P"):
        stages.setdefault(name, []).extend(parse_endpoints([address]))
    return stages


def one_endpoint(word: str | None) -> Endpoint | None:
    """Returns the address of `--scorer`.

    Raises:
        ConfigError: If it is not one H:P.
    """
    if word is None:
        return None
    endpoints = parse_endpoints([word])
    if len(endpoints) != 1:
        raise ConfigError(f"--scorer takes one H:P, not {word!r}")
    return endpoints[0]


def shard_of(word: str | None) -> tuple[int, int] | None:
    """Returns (index from 0, number of shards) of `I/N`, or of `N` with I from $JOB_COMPLETION_INDEX.

    Raises:
        ConfigError: If it is neither.
    """
    if word is None:
        return None
    first, slash, count = word.rpartition("/")
    index = first if slash else os.environ.get("JOB_COMPLETION_INDEX", "")
    short = len(word) <= MOST_DIGITS
    if not (short and index.isdecimal() and count.isdecimal() and int(index) < int(count)):
        raise ConfigError(f"--shard {word}: give I/N with I from 0 to N-1, or N where $JOB_COMPLETION_INDEX is set")
    return int(index), int(count)


READS = "unparsed"
"""Default of the answers that a judge reads."""


def rule_arguments(rules: str | Sequence[str], scorer: str | None) -> list[str]:
    """Returns the arguments of the `scorer serve` that a run starts, to give it rules in YAML.

    Raises:
        ConfigError: If the scorer is not started here, or the file does not exist.
    """
    files = words_of(rules)
    if files and scorer:
        raise ConfigError(f"the scorer at {scorer} has rules of its own: give --rules to its `scorer serve`")
    if missing := [file for file in files if not Path(file).is_file()]:
        raise ConfigError(f"--rules {missing[0]}: there is no such file")
    return [word for file in files for word in ("--rules", str(Path(file).absolute()))]


def judge_arguments(judges: Sequence[str], cache: str | None, reads: str, scorer: str | None) -> list[str]:
    """Returns the arguments of the `scorer serve` that a run starts, to give it its judges.

    Raises:
        ConfigError: If the scorer is not ours to start, or something is said of a judge and there is none.
    """
    if scorer and (judges or cache or reads != READS):
        raise ConfigError(f"the scorer at {scorer} has a judge of its own: give --judge to its `scorer serve`")
    if cache and not judges:
        raise ConfigError("--judge-cache keeps what a judge said, and there is none: give --judge, or leave it out")
    if reads != READS and not judges:
        raise ConfigError("--judge-reads says what a judge reads, and there is none: give --judge, or leave it out")
    arguments = [word for judge in judges for word in ("--judge", judge)]
    arguments += ["--judge-cache", cache] if cache else []
    return [*arguments, "--judge-reads", reads] if reads != READS else arguments


_API_KINDS = {"openai": ("openai",), "responses": ("openai", "--api", "responses"), "litellm": ("litellm",)}
"""Prefix of an API model -> the backend, and the API if it is not the default."""


def _api_arguments(kind: str, name_and_url: str) -> list[str]:
    """Returns the arguments of the server of NAME[@URL].

    Raises:
        ConfigError: If the name is missing, or the URL is invalid.
    """
    name, _, url = name_and_url.partition("@http")
    if not name:
        raise ConfigError(f"--model {kind}: names no model: give {kind}:NAME or {kind}:NAME@URL")
    if not url and "@" in name and ":" in name.partition("@")[2]:
        shown = shown_place(name.partition("@")[2])
        raise ConfigError(f"--model {kind}:{name.partition('@')[0]}@{shown}: give the URL with http:// or https://")
    options = ["--backend", *_API_KINDS[kind], "--model", name]
    return [*options, "--base-url", f"http{url}"] if url else options


def model_arguments(model: str, options: Sequence[str] | Mapping[str, object]) -> list[str]:
    """Returns the arguments of `model-server serve` for a run's model; the server itself checks its options.

    Args:
        model: The request's `model`.
        options: The request's `model_options`: NAME=VALUE or NAME each; in a mapping True is a name alone, False none.

    Raises:
        ConfigError: If one is unknown, or set by the run itself.
    """
    kind, _, argument = model.partition(":")
    if kind in _API_KINDS:
        options_of_server = _api_arguments(kind, argument)
    elif kind == "demo" and argument:
        options_of_server = ["--backend", "demo", "--model", argument]
    else:
        options_of_server = ["--backend", "transformers", "--model", model]
    return [*options_of_server, *server_options(options)]


def server_options(options: Sequence[str] | Mapping[str, object]) -> list[str]:
    """Returns a request's `model_options` as arguments of `model-server serve`.

    Raises:
        ConfigError: If one is unknown, or set by the run itself.
    """
    if isinstance(options, Mapping):
        enabled = {name: value for name, value in options.items() if value is not False}
        options = [name if value is True else f"{name}={value}" for name, value in enabled.items()]
    arguments = []
    for word in options:
        name, equals, value = word.partition("=")
        name = name.strip().removeprefix("--").replace("_", "-")
        if not re.fullmatch("[a-z][a-z-]*", name):
            raise ConfigError(f"--model-option {word!r} is not NAME or NAME=VALUE, for example dtype=bfloat16")
        if name in _GIVEN:
            raise ConfigError(f"--model-option {word}: the run itself decides --{name} of the server that it starts")
        arguments.append(f"--{name}{equals}{value}")
    return arguments
