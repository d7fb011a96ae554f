"""A judge and its cache in a world: the scorer's own rules and cache, with the world's clock in place of a thread."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from lyncean.rpc.waits import Wait
from scorer.judges import keeping as keeping_module
from scorer.judges.asking import Cached
from scorer.judges.base import JudgeError, JudgePrompt, Reply
from scorer.judges.cache import Cache, CacheError
from scorer.judges.keeping import SILENCE_SECONDS, KeptReplies
from scorer.metrics import metrics
from scorer.rules import rules
from scorer.scoring import Scorer
from scorer.service import Servicer
from scorer.telemetry import Telemetry
from simulation.loop import replaced

JUDGES = ["openai:judge (not calibrated)"]
_REASONS = ("judge_unreachable", "judge_rate_limited", "judge_error", "judge_timeout", "judge_bad_json")


class Court:
    """The judge of a world's scorer, and what goes wrong with it and with its cache.

    Args:
        draw: The seed's draws.
        place: The cache's file, which outlives every command and every scorer.

    Attributes:
        violations: Promises that were not kept.
        failed: How often the judge failed in this world: so many items may be unjudged.
        failing: Share of questions that fail.
        wrong: Share of the cache's calls that fail.
        silent: Whether the cache does not answer.
        stuck: What goes on once it answers again.
        seconds: How long a call of the cache takes.
    """

    def __init__(self, draw: random.Random, place: Path) -> None:
        self.draw, self.place = draw, str(place)
        self.violations: list[str] = []
        self.failed = 0
        self.cache = Cache(self.place)
        self._begun: Counter[str] = Counter()
        self.calm()

    def calm(self) -> None:
        """Ends all that goes wrong."""
        self.failing = self.wrong = self.seconds = 0.0
        self.silent = False
        self.stuck: list[Callable[[], None]] = []
        self._begun.clear()

    def speak(self) -> None:
        """Ends the cache's silence."""
        self.silent, stuck, self.stuck = False, self.stuck, []
        for each in stuck:
            each()

    def disturb(self, loop: Any, trace: Callable[[str], None], silenced: Callable[[], None]) -> None:
        """Draws what goes wrong in a command; `silenced` is told where the cache keeps silent for good."""
        self.failing = self.draw.choice([0.0, 0.0, 0.2])
        self.wrong = self.draw.choice([0.0, 0.0, 0.1, 0.5])
        self.seconds = self.draw.choice([0.0, 0.01, 0.5])

        def fall_silent() -> None:
            trace(f"{loop.time():.2f}: the judge cache is silent")
            self.silent = True
            if self.draw.random() < 0.6:
                loop.call_later(self.draw.uniform(0.1, 60.0), self.speak)
            else:
                silenced()

        if self.draw.random() < 0.3:
            loop.call_later(self.draw.uniform(0.0, 12.0), fall_silent)

    @contextmanager
    def sitting(self) -> Iterator[Servicer]:
        """Makes the scorer of one command; what it has under way ends with it."""
        with replaced((keeping_module, "_Worker", partial(_Worker, self))):
            judge = Cached(_Judge(self), KeptReplies(self.place))
            yield Servicer(Scorer(rules(), judge), metrics(), JUDGES, Telemetry())

    def begin(self, prompt: JudgePrompt) -> None:
        """Counts a question that is put to the judge, and holds it against what is paid for."""
        self._begun[prompt.sha256] += 1
        if self._begun[prompt.sha256] > 1:
            self.violations.append(f"one scorer asks the judge twice: {prompt.user!r}")
        if self.cache.get("judge", prompt):
            self.violations.append(f"the judge is asked what the cache holds: {prompt.user!r}")

    def fail(self, prompt: JudgePrompt) -> JudgeError:
        """Returns the failure of a question, which may then be asked again."""
        self._begun[prompt.sha256] -= 1
        self.failed += 1
        return JudgeError(self.draw.choice(_REASONS), "not now")


class _Judge:
    identity = "judge"
    waits_for = ""

    def __init__(self, court: Court) -> None:
        self._court = court

    async def prepare(self) -> None:
        """Nobody has to be asked who it is."""

    async def ask(self, prompt: JudgePrompt) -> Reply:
        court = self._court
        court.begin(prompt)
        await asyncio.sleep(court.draw.uniform(0.05, 3.0))
        if court.draw.random() < court.failing:
            raise court.fail(prompt)
        # As the prompt has it, whoever asks: verdicts of two runs are the same.
        data = {"explanation": "", "correct": bool(random.Random(prompt.user).getrandbits(1))}
        return Reply(data, json.dumps(data), "judge", 5, 5)

    async def close(self) -> None:
        """Holds nothing."""


class _Worker:
    """Works off calls of the cache one by one, as `keeping._Worker` does in its thread."""

    def __init__(self, court: Court, place: str) -> None:
        assert place == court.place
        self.wait = Wait("the judge cache", SILENCE_SECONDS)
        self._court = court
        self._jobs: deque[tuple[Callable[[Cache], Any], Future[Any]]] = deque()
        self._busy = self._abandoned = False

    def submit(self, work: Callable[[Cache], Any]) -> Future[Any]:
        """Returns the future result of a call; at once where nothing else runs yet."""
        done: Future[Any] = Future()
        self._jobs.append((work, done))
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            self._finish()
        else:
            self._next()
        return done

    def stop(self) -> None:
        """Holds no thread."""

    def abandon(self) -> None:
        """Drops what was not done."""
        self._abandoned = True

    def _next(self) -> None:
        if self._jobs and not self._busy:
            self._busy = True
            self.wait.begin()
            asyncio.get_running_loop().call_later(self._court.seconds, self._try)

    def _try(self) -> None:
        if self._abandoned:
            return
        if self._court.silent:
            self._court.stuck.append(self._try)
            return
        self._finish()
        self.wait.end()
        self._busy = False
        self._next()

    def _finish(self) -> None:
        work, done = self._jobs.popleft()
        if not done.set_running_or_notify_cancel():
            return
        try:
            if self._court.draw.random() < self._court.wrong:
                raise CacheError("the judge cache cannot be used: not now")
            done.set_result(work(self._court.cache))
        except BaseException as error:
            done.set_exception(error)
