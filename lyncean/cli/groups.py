"""Commands and groups: imports subcommands on use; turns a user's error into one line and an exit code."""

from __future__ import annotations

import atexit
import difflib
import functools
import gc
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from lyncean.errors import UserError, printable
from lyncean.plugins.registry import WORD, PluginError, Registry
from lyncean.rpc.addresses import shown_place, without_passwords
from lyncean.rpc.parent import tell_parent

_YOUNG_OBJECTS = 10_000
"""Threshold of the garbage collector's first generation; Python's own is 700."""
_THREADS = "OPENBLAS_NUM_THREADS"
_WORDS = "lyncean.cli.words"


class _Failure(click.ClickException):
    """A user's error as click's exception: click prints its line on stderr and exits with its code."""

    def __init__(self, error: UserError, arguments: Sequence[str]) -> None:
        super().__init__(" ".join(_shown(str(error), arguments).split()))
        self.exit_code = error.exit_code  # type: ignore[misc]


class _Stopped(click.ClickException):
    """Ctrl-C outside a command's work, such as during its imports; click's own `Aborted!` ends with 1."""

    exit_code = 3


class Command(click.Command):
    """A command that reports a user's error as one line on stderr and an exit code, without passwords."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Parses the command's arguments.

        Raises:
            click.ClickException: For wrong arguments.
        """
        arguments = tuple(args)
        try:
            context = super().make_context(info_name, args, parent, **extra)
        except click.ClickException as error:
            _tell(error, arguments)
            raise
        context.meta[_WORDS] = arguments
        return context

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command.

        Raises:
            click.ClickException: For a UserError, wrong arguments or Ctrl-C.
        """
        arguments = ctx.meta.get(_WORDS, ())
        try:
            return super().invoke(ctx)
        except UserError as error:
            failure = _Failure(error, arguments)
            tell_parent(failure.format_message())
            raise failure from error
        except click.ClickException as error:
            _tell(error, arguments)
            raise
        except (click.exceptions.Exit, click.Abort):
            raise
        except KeyboardInterrupt as error:
            raise _Stopped("stopped; run the same command again") from error
        except Exception as error:
            tell_parent(_shown(f"{type(error).__name__}: {error}", arguments))
            raise


def _tell(error: click.ClickException, arguments: Sequence[str]) -> None:
    """Removes passwords from an error's message, and sends it to the parent process."""
    error.message = _shown(error.message, arguments)  # type: ignore[misc]
    tell_parent(error.format_message())


def _shown(message: str, arguments: Sequence[str]) -> str:
    """Removes the passwords of a command's arguments from a message, which may quote them."""
    for argument in (*arguments, *(argument.partition("=")[2] for argument in arguments)):
        if (shown := shown_place(argument)) != argument:
            message = message.replace(argument, shown).replace(repr(argument)[1:-1], shown)
    return printable(without_passwords(message))


class LazyGroup(Command, click.Group):
    """A group that imports a subcommand on use: `--help` stays instant.

    Args:
        modules: Subcommand -> its module or `module:attribute` (default attribute `command`), and its line in
            `--help`; in their order. Those of an extension that is not installed are skipped.
        heading: Heading of the subcommands in `--help`.
        noun: Further subcommands come from the entry points `lyncean.<noun>s`; "" for none.
    """

    def __init__(
        self,
        *args: Any,
        modules: Mapping[str, tuple[str, str]],
        heading: str = "Commands",
        noun: str = "",
        **attributes: Any,
    ) -> None:
        super().__init__(*args, **attributes)
        ours = {name: module if ":" in module else f"{module}:command" for name, (module, _) in modules.items()}
        self._registry: Registry[click.Command] = Registry(noun, ours, (click.Command,), names=WORD)
        self._lines = {name: line for name, (_, line) in modules.items()}
        self._heading = heading
        self._open = bool(noun)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Returns the names in order: built-in ones, then plugins'."""
        return self._registry.names() if self._open else self._registry.ours()

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports and returns one subcommand.

        Raises:
            PluginError: If it is a plugin's and cannot be loaded.
        """
        known = cmd_name in self._registry.ours() or cmd_name in self.list_commands(ctx)
        return self._registry.get(cmd_name) if known else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Returns the called subcommand; the error for a mistyped one names the closest."""
        word = args[0]
        if word not in self._registry.ours() and not word.startswith("-"):
            names = self.list_commands(ctx)
            if word in self._lines:
                ctx.fail(str(self._registry.unknown(word)))
            if word not in names:
                close = difflib.get_close_matches(word, names, n=1, cutoff=0.5)
                hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(names)}"
                ctx.fail(f"unknown command {word!r}: {hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Lists the subcommands; built-in ones are not imported."""
        if names := self.list_commands(ctx):
            with formatter.section(self._heading):
                formatter.write_dl([(name, self._line(name)) for name in names])

    def _line(self, name: str) -> str:
        if name in self._lines:
            return self._lines[name]
        try:
            return self._registry.get(name).get_short_help_str(limit=80)
        except PluginError as error:
            return str(error)


def root(
    modules: Mapping[str, tuple[str, str]], *, noun: str = "", one_thread: bool = True, **attributes: Any
) -> Callable[[Callable[..., None]], LazyGroup]:
    """Returns a decorator that makes a function the root group of a command line, with `-h` and `--version`.

    Args:
        modules: As in `LazyGroup`.
        noun: As in `LazyGroup`.
        one_thread: Whether NumPy starts no threads for matrices.
        attributes: Of the group.
    """

    def decorate(function: Callable[..., None]) -> LazyGroup:
        @functools.wraps(function)
        def prepared() -> None:
            _prepare_process(one_thread)
            function()

        group = click.command(
            cls=LazyGroup,
            modules=modules,
            noun=noun,
            context_settings={"help_option_names": ["-h", "--help"]},
            **attributes,
        )
        return group(click.version_option(package_name="lyncean")(prepared))

    return decorate


def _prepare_process(one_thread: bool) -> None:
    """Takes a third off the processor time of a short command (decision 80)."""
    gc.set_threshold(_YOUNG_OBJECTS, *gc.get_threshold()[1:])
    # Frozen objects are not searched for garbage when the process ends.
    atexit.register(gc.freeze)
    if _THREADS not in os.environ:
        # putenv alone: OpenBLAS reads the process's environment, while children get `os.environ`, unchanged.
        if one_thread:
            os.putenv(_THREADS, "1")
        else:
            os.unsetenv(_THREADS)


def examples(*lines: str) -> str:
    """Returns the examples at the end of a command's `--help`, each line printed verbatim."""
    return "\n".join(("\b", "Examples:", *(f"  {line}" for line in lines)))
