"""Options of a command: those that follow from the request of a run, and those that a command would not use."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import click
import orjson
from annotated_types import Interval
from click.core import ParameterSource

from lyncean.cli.options import Decorated, FiniteRange
from orchestrator.cli.folders import WrittenRun
from orchestrator.run.request import RunRequest

if TYPE_CHECKING:
    from orchestrator.engine import Endpoint

T = TypeVar("T")

OF_CODE = ("include_path", "trust_task_code")
"""Fields of a request that say which code of other harnesses runs in a scorer that a command starts."""

_DIALLING = ("tls", "tls_ca", "tls_cert", "tls_key", "tls_server_name", "token_file")
"""Parameters of `client_options`, which concern servers that run elsewhere."""


class _Number(click.Option):
    """A number whose range `--help` leaves out; errors name it. Its metavar is N or SECONDS."""

    def __init__(self, *args: Any, **attributes: Any) -> None:
        if not attributes.get("metavar"):
            attributes["metavar"] = "N" if isinstance(attributes["type"], click.IntRange) else "SECONDS"
        super().__init__(*args, **attributes)

    def get_help_extra(self, ctx: click.Context) -> Any:
        """Returns the parts of the brackets after the help."""
        extra = super().get_help_extra(ctx)
        extra.pop("range", None)
        return extra


number = functools.partial(click.option, cls=_Number)
"""As `click.option`, for a number with a range."""


def request_options(*names: str, **changed: dict[str, Any]) -> Callable[[Decorated], Decorated]:
    """Adds options of a run to a command, which gets their values under the names of the request's fields.

    Args:
        names: Fields of `RunRequest`; all of them without any.
        changed: Attributes of single options that differ from the request's, by field.
    """
    options = _options()

    def decorate(command: Decorated) -> Decorated:
        for name in reversed(names or tuple(options)):
            flags, attributes = options[name]
            command = click.option(*flags, name, **attributes | changed.get(name, {}))(command)
        return command

    return decorate


@functools.cache
def _options() -> dict[str, tuple[tuple[str, ...], dict[str, Any]]]:
    hints = get_type_hints(RunRequest, include_extras=True)
    return {
        field.name: _option(field, hints[field.name])
        for field in fields(RunRequest)
        if "api_only" not in field.metadata
    }


def _option(field: Any, hint: Any) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Returns flags and attributes of one field's option: its kind follows from the field's type."""
    attributes = dict(field.metadata)
    flags = attributes.pop("flags") or ("--" + field.name.replace("_", "-"),)
    kinds = [hint, *get_args(hint)]
    interval = next((one for kind in kinds for one in getattr(kind, "__metadata__", ())), None)
    if interval is not None:
        integral = any(int in (kind, getattr(kind, "__origin__", None)) for kind in kinds)
        attributes |= {"cls": _Number, "type": _range(interval, integral=integral)}
    elif get_origin(hint) is Literal:
        attributes["type"] = click.Choice(kinds[1:])
    elif hint is bool:
        return flags, attributes | {"is_flag": True}
    elif field.name == "tasks":
        return flags, attributes | {"multiple": True, "required": True}
    elif field.name == "run":
        attributes["type"] = WrittenRun()
    elif field.default == () or attributes.get("multiple"):
        return flags, attributes | {"multiple": True}
    return flags, attributes | {"default": field.default, "show_default": field.default is not None}


def _range(interval: Interval, *, integral: bool) -> click.ParamType[Any]:
    low: Any = interval.ge if interval.gt is None else interval.gt
    high: Any = interval.le
    return click.IntRange(low, high) if integral else FiniteRange(low, high, above_low=interval.gt is not None)


def as_given(request: RunRequest) -> dict[str, Any]:
    """Returns the values of a request's options as a command line has them: a mapping is NAME=VALUE for each.

    The inverse of parsing, so that a request from elsewhere can be written as flags.
    """
    values: dict[str, Any] = {}
    for name, (_, attributes) in _options().items():
        value = getattr(request, name)
        if attributes.get("multiple"):
            values[name] = tuple(_words(value))
        elif isinstance(value, Mapping) or (isinstance(value, bool) and not attributes.get("is_flag")):
            values[name] = ("off", "on")[value] if isinstance(value, bool) else orjson.dumps(value).decode()
        else:
            values[name] = str(value) if isinstance(value, Path) else value
    return values


def _words(value: Any) -> list[str]:
    """Returns the values of a repeated option; values of a mapping other than text are written as JSON."""
    if isinstance(value, Mapping):
        return [f"{name}={one if isinstance(one, str) else orjson.dumps(one).decode()}" for name, one in value.items()]
    return [str(one) for one in ([value] if isinstance(value, str | Path) else value or ())]


match_option = click.option(
    "--match",
    type=click.Choice(["key", "row"]),
    help="Pair items by key, or by row across tasks of one benchmark. Default: by key, and by row where the runs have "
    "no task of a benchmark in common.",
)
"""Ways to pair the items of two runs."""


def refuse(names: Iterable[str], why: str) -> None:
    """Ends the command where one of these parameters stands on its command line and would not be used.

    Args:
        names: Parameters, by the names that the command's function has for them.
        why: The rest of the error, after the option's name.

    Raises:
        click.UsageError: If one does.
    """
    context = click.get_current_context()
    flags = {param.name: max(param.opts, key=len) for param in context.command.params}
    for name in names:
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{flags[name]} {why}")


@contextlib.contextmanager
def written(output: Path | None) -> Iterator[None]:
    """Ends a command with one line where its output cannot be written; None is standard output."""
    try:
        yield
    except BrokenPipeError:
        # The reader, `head` for example, has what it wanted.
        sys.stderr.close()
    except OSError as error:
        where = error.filename or output or "the standard output"
        raise click.UsageError(f"{where} cannot be written: {error.strerror}") from error


def refuse_dialling(*options: str) -> None:
    """Ends the command where it says how to dial and has none of the options that name a server.

    Raises:
        click.UsageError: If it does.
    """
    refuse(_DIALLING, f"is for servers that run already: give {' or '.join(options)}, or leave it out")


def refuse_code() -> None:
    """Refuses to say what code a scorer runs that runs already.

    Raises:
        click.UsageError: If the command does.
    """
    refuse(OF_CODE, "is for a scorer that is started here: give it to the `scorer serve` that --scorer names")


def scorer_at(word: str | None) -> Endpoint | None:
    """Returns the endpoint of a command's --scorer, None where the command starts one.

    Raises:
        click.UsageError: If the command says how to dial and has no --scorer.
        ConfigError: If it is not one H:P.
    """
    from orchestrator.run.arguments import one_endpoint

    if word:
        refuse_code()
    else:
        refuse_dialling("--scorer")
    return one_endpoint(word)


def run_to_end(work: Coroutine[Any, Any, T]) -> T:
    """Runs a command's work and returns its result; SIGTERM is taken for Ctrl-C.

    Raises:
        StoppedError: On Ctrl-C.
    """
    import asyncio
    import signal
    import threading

    from orchestrator.errors import StoppedError

    main = threading.current_thread() is threading.main_thread()  # where alone signals can be handled
    before = signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT)) if main else None
    try:
        return asyncio.run(work)
    except KeyboardInterrupt as error:
        raise StoppedError("stopped; run the same command again") from error
    finally:
        if main:
            signal.signal(signal.SIGTERM, before)
