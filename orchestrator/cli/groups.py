"""What the command and its groups share: subcommands that are imported when they are called for, and their examples."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Mapping
from typing import Any

import click


class LazyGroup(click.Group):
    """A group that imports a subcommand only when it is used: `--help` stays instant.

    Args:
        modules: Subcommand -> module whose `command` it is, and what `--help` says of it, in their order.
        heading: What stands over them in `--help`.
    """

    def __init__(
        self, *args: Any, modules: Mapping[str, tuple[str, str]], heading: str = "Commands", **attributes: Any
    ) -> None:
        super().__init__(*args, **attributes)
        self._modules = modules
        self._heading = heading

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Returns the names in the order given."""
        return list(self._modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports and returns one subcommand."""
        if cmd_name not in self._modules:
            return None
        command: click.Command = importlib.import_module(self._modules[cmd_name][0]).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Returns the subcommand that is called; of one that is mistyped the error names the closest."""
        word = args[0]
        if word not in self._modules and not word.startswith("-"):
            close = difflib.get_close_matches(word, self._modules, n=1, cutoff=0.5)
            hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(self._modules)}"
            ctx.fail(f"there is no command {word!r}: {hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Lists the subcommands without importing them."""
        with formatter.section(self._heading):
            formatter.write_dl([(name, text) for name, (_, text) in self._modules.items()])


def examples(*lines: str) -> str:
    """Returns what stands at the end of a command's `--help`: commands to be typed, as they are written here."""
    return "\n".join(("\b", "Examples:", *(f"  {line}" for line in lines)))
