"""Judges for code that asks them itself: an OpenAI-compatible address on loopback, behind which our judge replies.

Foreign code runs in one thread, one piece at a time. A question that the judge has not answered yet is refused at
once and noted; the judge is then asked, with its cache, budget and patience and beside the questions of other items,
and the code runs again from its start. Its random numbers are seeded, so it asks the same again and gets the reply.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, Generic, TypeVar

from lyncean_harnesses.scoring.judge_address import serve
from scorer.judges import CURRENT, ChatPrompt, Judge, JudgeError, JudgePrompt, Reply, prompt_of

T = TypeVar("T")

MOST_ROUNDS = 200
"""Questions that one piece of code may ask one after the other."""

NO_JUDGE = "the task's code asks a judge: give --judge"

_THREADS = ("foreign", "ThreadPoolExecutor")
"""Names of the thread that runs foreign code, and of those that such code starts."""


class Answered(Generic[T]):
    """What came of foreign code: its value, and what a judge replied to it, in the order of its questions."""

    def __init__(self, value: T, replies: Sequence[tuple[JudgePrompt, Reply]]) -> None:
        self.value = value
        self.replies = replies


MOST_REFUSALS = 50
"""Refusals of one question after which a run is ended: some code asks until it gets a reply."""


class _Abandoned(BaseException):
    """Ends a run of foreign code that can come to nothing, through its `except Exception`."""


class _Questions:
    """The questions of one piece of code."""

    def __init__(self) -> None:
        self.refused: Counter[str] = Counter()
        self.thread = 0
        self.known: dict[str, tuple[JudgePrompt, Reply]] = {}
        self.missing: dict[str, ChatPrompt] = {}
        self.used: set[str] = set()
        self.problem: JudgeError | None = None
        self._lock = threading.Lock()

    def start(self) -> None:
        self.missing, self.used, self.problem = {}, set(), None
        self.refused.clear()
        self.thread = threading.get_ident()

    def answer(self, body: Any) -> Reply | None:
        """Returns the reply to a request's body, None where there is none yet."""
        with self._lock:
            try:
                prompt = prompt_of(body)
            except JudgeError as error:
                self.problem = self.problem or error
                self._refuse("")
                return None
            if prompt.sha256 in self.known:
                self.used.add(prompt.sha256)
                return self.known[prompt.sha256][1]
            self.missing.setdefault(prompt.sha256, prompt)
            self._refuse(prompt.sha256)
            return None

    def _refuse(self, name: str) -> None:
        self.refused[name] += 1
        if self.refused[name] == MOST_REFUSALS and self.thread:
            kind, thread = ctypes.py_object(_Abandoned), ctypes.c_ulong(self.thread)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, kind)

    def end(self) -> None:
        """Lets no late refusal end anything else."""
        with self._lock:
            self.thread = 0


async def answered(work: Callable[[], T], judge: Judge | None, *, together: bool = False) -> Answered[T]:
    """Runs foreign code until every question that it puts to a judge is answered.

    Args:
        work: The code. It may run several times.
        judge: Who replies; None is nobody.
        together: Whether all questions of a round are asked at once, as of code that looks at many items. Otherwise
            the first one is, since what follows a refused question may be another try at it.

    Raises:
        JudgeError: The judge gave no usable reply, or the code did not take it.
        Exception: What the code raises.
    """
    questions, must = _Questions(), set[str]()
    for _ in range(MOST_ROUNDS):
        run = asyncio.get_running_loop().run_in_executor(_thread(), _run, work, questions)
        done, error = await run
        if questions.problem is not None:
            raise questions.problem
        if not questions.missing:
            if must - questions.used:
                raise JudgeError("judge_error", "the task's code asked a judge and did not read the reply")
            if error is not None:
                raise error
            return Answered(done, [questions.known[name] for name in questions.known if name in questions.used])
        if judge is None:
            raise JudgeError("no_judge", NO_JUDGE)
        prompts = list(questions.missing.values())
        must.add(prompts[0].sha256)
        prompts = prompts if together else prompts[:1]
        for prompt, reply in zip(prompts, await asyncio.gather(*map(judge.ask, prompts)), strict=True):
            questions.known[prompt.sha256] = prompt, reply
    raise JudgeError("judge_error", f"the task's code asks a judge more than {MOST_ROUNDS} questions")


def answered_here(work: Callable[[], T]) -> T:
    """Runs foreign code of a metric, in a thread beside the loop, with the judge of `CURRENT`; see `answered`."""
    current = CURRENT.get()
    if current is None:
        questions = _Questions()
        done, error = _thread().submit(_run, work, questions).result()
        if questions.missing or questions.problem:
            raise questions.problem or JudgeError("no_judge", NO_JUDGE)
        if error is not None:
            raise error
        return done  # type: ignore[no-any-return]
    judge, loop = current
    return asyncio.run_coroutine_threadsafe(answered(work, judge, together=True), loop).result().value


@contextlib.contextmanager
def unanswered() -> Iterator[Callable[[], bool]]:
    """Has questions of foreign code that runs in it refused and not asked later; yields whether there were any."""
    questions = _Questions()
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
    """Returns the base URL of the judge for foreign code; serves it from then on. Called before that is imported."""
    _unpausing()
    return serve(lambda body: _asking[0].answer(body) if _asking else None)


@cache
def _thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, thread_name_prefix=_THREADS[0])


_asking: list[_Questions] = []
"""The questions of the code that runs; those of a part of it stand first."""


def _run(work: Callable[[], T], questions: _Questions) -> tuple[Any, Exception | None]:
    try:
        questions.start()
        _asking.append(questions)
        try:
            return work(), None
        finally:
            questions.end()
    except _Abandoned:
        return None, None
    except Exception as error:
        return None, error
    except SystemExit as error:
        return None, RuntimeError(f"it ends the process: {error}")
    finally:
        _asking.clear()


def _unpausing() -> None:
    """Has foreign code that was refused a reply not wait before it tries again: there is none in this run."""
    slept, awaited = time.sleep, asyncio.sleep

    def refused() -> bool:
        return bool(_asking and _asking[0].missing) and threading.current_thread().name.startswith(_THREADS)

    def sleep(seconds: float) -> None:
        if not refused():
            slept(seconds)

    async def sleep_async(delay: float, result: Any = None) -> Any:
        return await awaited(0 if refused() else delay, result)

    time.sleep, asyncio.sleep = sleep, sleep_async  # type: ignore[assignment]
