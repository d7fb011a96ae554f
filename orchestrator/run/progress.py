"""Progress for people: live on a terminal, calm lines elsewhere."""

from __future__ import annotations

import asyncio
import time
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from lyncean.rpc.waits import Waits
from lyncean.vocabulary.outcomes import Outcome
from orchestrator.engine.accounting import Accounting, TaskCount
from orchestrator.run_folder.unreadable import Unreadable

_LINE_SECONDS = 10.0
_LINE_SHARE = 0.1
_RATE_SECONDS = 10.0
_MANY_CUT = 5
_MANY_UNREADABLE = 20
_LINE_TASKS, _PANEL_TASKS = 3, 12


class Progress:
    """Shows an accounting until it is left; use it as an async context manager.

    Args:
        console: Where; nothing is shown on a quiet one.
        accounting: What.
        waits: What the run waits for.
    """

    def __init__(self, console: Console, accounting: Accounting, waits: Waits | None = None) -> None:
        self._console = console
        self._accounting = accounting
        self._waits = waits or Waits()
        self._marks: list[tuple[float, int]] = []
        self._live: Live | None = None
        self._task: asyncio.Task[None] | None = None
        self._said = (time.monotonic(), 0.0)
        self._warned: set[str] = set()

    async def __aenter__(self) -> Progress:
        # A dumb terminal cannot go back over its lines: it gets those of a log.
        if self._console.is_terminal and not self._console.is_dumb_terminal and not self._console.quiet:
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._live:
            self._live.stop()
        self._warn()
        self._print_line()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(0.25)
            self._mark()
            self._warn()
            if self._live:
                self._live.update(self._panel(), refresh=True)
            else:
                self._say()

    def _mark(self) -> None:
        now = time.monotonic()
        self._marks.append((now, self._accounting.settled - self._accounting.resumed))
        while len(self._marks) > 2 and now - self._marks[0][0] > _RATE_SECONDS:
            self._marks.pop(0)

    def _warn(self) -> None:
        """Says once that many answers are lost: a run of hours need not end before it is seen."""
        if (cut := self._accounting.cut) >= _MANY_CUT:
            line = f"the output limit cut {cut:,} answers: raise --generation max_output_tokens=N, limit the reasoning "
            self._say_once("", f"{line}with --thinking N, or finish them with --finish-cut N")
        for task, count in self._accounting.tasks.items():
            unreadable = Unreadable(task, count.unreadable, count.answers, *count.example)
            if unreadable.count >= _MANY_UNREADABLE and unreadable.most:
                self._say_once(task, f"{unreadable}; orchestrator prompts --task {task} shows what is asked")

    def _say_once(self, about: str, line: str) -> None:
        if about not in self._warned:
            self._warned.add(about)
            self._console.print(f"warning: {line}", style="yellow", highlight=False, soft_wrap=True)

    @property
    def _rate(self) -> float:
        if len(self._marks) < 2:
            return 0.0
        (start, first), (end, last) = self._marks[0], self._marks[-1]
        return (last - first) / max(end - start, 1e-6)

    def _total(self) -> tuple[int | None, str, str]:
        """Returns the items that there will be, how that is written (~ for an estimate), and the time left."""
        accounting = self._accounting
        if accounting.complete:
            total, shown = accounting.planned, f"{accounting.planned:,}"
        elif accounting.expected is None:
            return None, "?", ""
        else:
            total = max(accounting.expected, accounting.planned)
            shown = f"~{total:,}"
        seconds = int((total - accounting.settled) / self._rate) if self._rate > 0 else 0
        hours, rest = divmod(max(0, seconds), 3600)
        left = f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60}:{rest % 60:02d}"
        return total, shown, f"{left} left" if self._rate > 0 else ""

    def _say(self) -> None:
        total, _, _ = self._total()
        share = self._accounting.settled / total if total else 0.0
        at, last = self._said
        if time.monotonic() - at > _LINE_SECONDS or share >= last + _LINE_SHARE:
            self._said = (time.monotonic(), share)
            self._print_line()

    def _print_line(self) -> None:
        self._console.print(self._line(), highlight=False, markup=False, soft_wrap=True)

    def _line(self) -> str:
        accounting = self._accounting
        total, shown, left = self._total()
        parts = [f"{accounting.settled:,}/{shown}"]
        if self._rate >= 0.05:
            parts.append(f"{self._rate:,.1f}/s")
        if left and accounting.settled < (total or 0):
            parts.append(left)
        before, tasks = self._tasks(_LINE_TASKS)
        if before:
            parts.append(before)
        parts.extend(f"{name} {_mean(count)}".strip() for name, count in tasks)
        parts.extend(
            f"{accounting.outcomes[o]:,} {o}" for o in Outcome if accounting.outcomes[o] and o != Outcome.SCORED
        )
        parts += filter(None, (accounting.calls, str(self._waits)))
        return "  ".join(parts)

    def _tasks(self, most: int) -> tuple[str, list[tuple[str, TaskCount]]]:
        """Returns the tasks that were begun last, and in words how many were begun before them."""
        tasks = list(self._accounting.tasks.items())
        before = max(0, len(tasks) - most)
        return f"{before} task{'s' if before > 1 else ''} before" if before else "", tasks[before:]

    def _panel(self) -> RenderableType:
        accounting = self._accounting
        total, shown, left = self._total()
        bar = ProgressBar(total=total or 1, completed=accounting.settled, width=30, pulse=total is None)
        head = Table.grid(padding=(0, 2))
        head.add_row(bar, f"{accounting.settled:,}/{shown}", f"{self._rate:,.1f}/s", left)
        rows = Table.grid(padding=(0, 2))
        before, tasks = self._tasks(_PANEL_TASKS)
        if before:
            rows.add_row(Text(before, "dim"))
        for name, count in tasks:
            outcomes = "  ".join(f"{count.outcomes[o]:,} {o}" for o in Outcome if count.outcomes[o])
            rows.add_row(Text(name, "bold"), Text(_mean(count)), Text(outcomes, "dim"))
        if accounting.calls:
            rows.add_row(Text(accounting.calls, "dim"))
        waiting = str(self._waits)
        return Group(head, rows, Text(waiting, "yellow")) if waiting else Group(head, rows)


def _mean(count: TaskCount) -> str:
    few = 2 * count.outcomes[Outcome.SCORED] < count.settled  # zeros of nothing must not look like a result
    scale = 100 if count.highest <= 1 else 1
    return "" if count.mean is None or few else f"{scale * count.mean:.1f}"
