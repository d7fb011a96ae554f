"""A console on which nothing that a peer says is a control sequence."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from lyncean.errors import printable


class Terminal(Console):
    """A rich console that shows control characters of names, answers and messages as what they are."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Renders as `Console.render` does; only rich's own control sequences stay."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)
