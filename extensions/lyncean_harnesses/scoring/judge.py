"""Judges for code that asks them itself: our judge replies at an OpenAI-compatible address in the code's process.

Foreign code runs one piece at a time (`run`, in a cell). A question without a reply yet is refused at once and
recorded; the judge is then asked (`answered`, in the scorer), with its cache, budget and patience and beside the
questions of other items, and the code runs again from its start. Its random numbers are seeded, so it repeats the
question and gets the reply.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import cache, partial
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

from lyncean_harnesses.scoring.judge_address import TextAndModel, serve
from scorer.judges import CURRENT, Judge, JudgeError, JudgePrompt, Reply, prompt_of

T = TypeVar("T")

Known = Mapping[str, TextAndModel]
"""Hash of a question -> the reply to it."""

MOST_ROUNDS = 200
"""Maximum number of successive questions of one piece of code."""

NO_JUDGE = "the task's code asks a judge: give --judge"


@dataclass(slots=True)
class Round(Generic[T]):
    """The outcome of one run of foreign code.

    Attributes:
        value: Its return value; None if it failed or was aborted.
        error: The exception that it raised.
        missing: Bodies of the questions without a reply yet.
        used: Hashes of the questions whose replies it read.
        problem: Reason why one of its questions cannot be answered.
    """

    value: T | None = None
    error: Exception | None = None
    missing: Sequence[Any] = ()
    used: Sequence[str] = ()
    problem: JudgeError | None = None


Runs = Callable[[Known], Round[T]]
"""Runs foreign code once with the known replies; it may be called several times."""


class Answered(Generic[T]):
    """The result of foreign code: its value, and the judge's replies in the order of its questions."""

    def __init__(self, value: T, replies: Sequence[tuple[JudgePrompt, Reply]]) -> None:
        self.value = value
        self.replies = replies


MOST_REFUSALS = 50
"""Refusals of one question, per answer, after which a run is aborted: some code asks until it gets a reply."""


MOST_READINGS = 50
"""Readings of one reply in a row, per answer, after which a run fails: some code asks until it can parse the reply."""


class _Abandoned(BaseException):
    """Aborts a run of foreign code that cannot succeed; `except Exception` does not catch it."""


class _Questions:
    """The questions of one piece of code, which scores `answers` answers."""

    def __init__(self, known: Known, answers: int = 1) -> None:
        self._most = max(1, answers)
        self.refused: Counter[str] = Counter()
        self.thread = 0
        self.known = known
        self.missing: dict[str, Any] = {}
        self.used: set[str] = set()
        self.problem: JudgeError | None = None
        self._last, self._readings = "", 0
        self._lock = threading.Lock()

    def start(self) -> None:
        self.thread = threading.get_ident()

    def answer(self, body: Any) -> TextAndModel | None:
        """Returns the reply to a request's body, None if there is none yet."""
        with self._lock:
            try:
                prompt = prompt_of(body)
            except JudgeError as error:
                self.problem = self.problem or error
                self._refuse("")
                return None
            if prompt.sha256 in self.known:
                self.used.add(prompt.sha256)
                return self._reread(prompt.sha256)
            self.missing.setdefault(prompt.sha256, body)
            self._refuse(prompt.sha256)
            return None

    def _reread(self, name: str) -> TextAndModel | None:
        """Returns a known reply; aborts code that requests the same reply without end, since it cannot parse it."""
        self._readings = self._readings + 1 if name == self._last else 1
        self._last = name
        if self._readings < MOST_READINGS * self._most:
            return self.known[name]
        excerpt = f"{self.known[name][0][:80]!r}"
        message = f"the task's code cannot read the judge's reply {excerpt}: it asks the same question without an end"
        self.problem = self.problem or JudgeError("judge_error", message)
        if self._readings % MOST_READINGS == 0:
            self._abandon()
        return None

    def _refuse(self, name: str) -> None:
        self.refused[name] += 1
        if self.refused[name] == MOST_REFUSALS * self._most:
            self._abandon()

    def _abandon(self) -> None:
        if self.thread:
            kind, thread = ctypes.py_object(_Abandoned), ctypes.c_ulong(self.thread)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, kind)

    def end(self) -> None:
        """Prevents late refusals from aborting later code."""
        with self._lock:
            self.thread = 0


async def answered(runs: Runs[T], judge: Judge | None, *, together: bool = False) -> Answered[T]:
    """Runs foreign code until the judge has answered all its questions.

    Args:
        runs: The code.
        judge: The judge; None if there is none.
        together: Whether to ask all questions of a round at once, for code that reads many items. Otherwise only the
            first is asked, since the next one may be a retry of a refused question.

    Raises:
        JudgeError: The judge gave no usable reply, or the code did not read it.
        Exception: The code raises it.
    """
    known: dict[str, tuple[JudgePrompt, Reply]] = {}
    must = set[str]()
    for _ in range(MOST_ROUNDS):
        replies: Known = {name: (str(reply.data["text"]), reply.model) for name, (_, reply) in known.items()}
        done = await _beside(partial(runs, replies))
        if done.problem is not None:
            raise done.problem
        if not done.missing:
            return Answered(_value(done, must), [known[name] for name in known if name in done.used])
        if judge is None:
            raise JudgeError("no_judge", NO_JUDGE)
        prompts = [prompt_of(body) for body in done.missing]
        must.add(prompts[0].sha256)
        prompts = prompts if together else prompts[:1]
        for prompt, reply in zip(prompts, await asyncio.gather(*map(judge.ask, prompts)), strict=True):
            known[prompt.sha256] = prompt, reply
    raise JudgeError("judge_error", f"the task's code asks a judge more than {MOST_ROUNDS} questions")


def _value(done: Round[T], must: set[str]) -> T:
    if must.difference(done.used):
        raise JudgeError("judge_error", "the task's code asked a judge and did not read the reply")
    if done.error is not None:
        raise done.error
    return done.value  # type: ignore[return-value]


def answered_here(runs: Runs[T]) -> T:
    """Runs foreign code of a metric, in a thread other than the loop's, with the judge of `CURRENT`; see `answered`."""
    current = CURRENT.get()
    if current is None:
        done = runs({})
        if done.missing or done.problem:
            raise done.problem or JudgeError("no_judge", NO_JUDGE)
        return _value(done, set())
    judge, loop = current
    return asyncio.run_coroutine_threadsafe(answered(runs, judge, together=True), loop).result().value


@contextlib.contextmanager
def unanswered() -> Iterator[Callable[[], bool]]:
    """Refuses the questions of foreign code in this context; yields a function that tells if there were any."""
    questions = _Questions({})
    questions.start()
    _asking.insert(0, questions)
    try:
        try:
            yield lambda: bool(questions.missing or questions.problem)
        finally:
            questions.end()
    except _Abandoned:
        pass
    finally:
        _asking.remove(questions)


@cache
def address() -> str:
    """Serves the judge to foreign code, which is imported later, and returns its base URL."""
    _unpausing()
    return serve(lambda body: _asking[0].answer(body) if _asking else None)


@dataclass(slots=True)
class _Job:
    work: Callable[[], Any]
    future: Future[Any] = field(default_factory=Future)


async def _beside(work: Callable[[], T]) -> T:
    """Runs work in the one thread for foreign code, which does not keep the process alive."""
    job = _Job(work)
    _jobs().put(job)
    return await asyncio.wrap_future(job.future)


@cache
def _jobs() -> SimpleQueue[_Job]:
    jobs: SimpleQueue[_Job] = SimpleQueue()

    def run() -> None:
        while True:
            job = jobs.get()
            if job.future.set_running_or_notify_cancel():
                try:
                    job.future.set_result(job.work())
                except BaseException as error:
                    job.future.set_exception(error)

    threading.Thread(target=run, name="foreign", daemon=True).start()
    return jobs


_asking: list[_Questions] = []
"""The questions of the running code; those of an inner context come first."""


def asked() -> bool:
    """Returns True if the running code has asked a judge."""
    return any(questions.missing or questions.used or questions.problem for questions in _asking)


def run(work: Callable[[], T], known: Known, answers: int = 1) -> Round[T]:
    """Runs foreign code once in this thread and returns the outcome.

    Args:
        work: The code.
        known: The known replies.
        answers: Number of answers that it scores; the limits of equal questions grow with it.
    """
    questions = _Questions(known, answers)
    done: Round[T] = Round()
    try:
        questions.start()
        _asking.append(questions)
        try:
            done.value = work()
        finally:
            questions.end()
    except _Abandoned:
        pass
    except Exception as error:
        done.error = error
    except SystemExit as error:
        done.error = RuntimeError(f"it ends the process: {error}")
    finally:
        _asking.clear()
    done.missing, done.used = list(questions.missing.values()), sorted(questions.used)
    done.problem = questions.problem
    return done


def _unpausing() -> None:
    """Skips the sleeps of code that has asked a judge: its retries are useless, as replies are fixed within a run."""
    slept, awaited = time.sleep, asyncio.sleep

    def sleep(seconds: float) -> None:
        if not asked():
            slept(seconds)

    async def sleep_async(delay: float, result: Any = None) -> Any:
        return await awaited(0 if asked() else delay, result)

    time.sleep, asyncio.sleep = sleep, sleep_async  # type: ignore[assignment]
