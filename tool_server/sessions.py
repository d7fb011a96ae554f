"""Keeps sessions by the hash of their history; a lost session is rebuilt by replaying it."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

from lyncean.rpc.errors import Aborted, InternalFailure, StatusError
from lyncean.vocabulary.tool_results import REPLAY_DIFFERS, result_sha256
from tool_server.arguments import Checked
from tool_server.results import checked_output
from tool_server.types import Output, Session, Toolset

log = logging.getLogger(__name__)

IDLE_SECONDS = 600.0
"""Age at which an idle session is closed."""
_CLOSED_AT_A_TIME = 16


class CallRecord(NamedTuple):
    """A call: name, arguments, number of images at that time, and the hash of its result once there is one."""

    name: str
    arguments: str
    images: int
    result: bytes = b""


@dataclass(frozen=True, slots=True)
class Work:
    """A call with everything that its result may depend on.

    Attributes:
        call: The call.
        images: The images of the conversation.
        digests: Their SHA-256.
        history: Earlier calls.
        abandoned: Set once nobody waits for the result.
    """

    call: CallRecord
    images: Sequence[bytes]
    digests: Sequence[bytes]
    history: Sequence[CallRecord]
    abandoned: threading.Event


class Sessions:
    """Runs calls in sessions. Safe to use from several threads; each session serves one at a time.

    Args:
        toolset: The tools.
        most: Maximum open sessions, those in use included: at least the number of calling threads.
    """

    def __init__(self, toolset: Toolset, most: int) -> None:
        self._toolset, self._most = toolset, most
        self._checked = Checked(list(toolset.tools()))
        self._idle: OrderedDict[int, tuple[Session, bytes, float]] = OrderedDict()  # by identity
        self._busy = 0
        self._lock = threading.Lock()

    def call(self, work: Work) -> tuple[Output, int]:
        """Makes a call; returns its output, and the number of earlier calls replayed for it.

        Raises:
            StatusError: The tool failed, or a replayed call gave another result.
        """
        history = work.history if self._toolset.stateful else ()
        session, replayed = self._taken(_key(history, work.digests)), 0
        try:
            if session is None:
                session = self._opened()
                for earlier in history:
                    self._replay(session, earlier, work.images)
                    replayed += 1
            output = self._run(session, work.call, work.images)
        except BaseException:
            self._end(session)
            raise
        result = result_sha256(output.content, output.is_error)
        if work.abandoned.is_set():
            self._end(session)
        else:
            after = (*history, work.call._replace(result=result)) if self._toolset.stateful else ()
            self._keep(session, _key(after, work.digests))
        return output, replayed

    def close_idle(self, seconds: float = IDLE_SECONDS) -> None:
        """Closes the sessions that were not used for so many seconds."""
        before = time.monotonic() - seconds
        with self._lock:
            old = [session for session, _, since in self._idle.values() if since <= before]
            for session in old:
                del self._idle[id(session)]
        if old:
            with ThreadPoolExecutor(min(len(old), _CLOSED_AT_A_TIME)) as threads:
                list(threads.map(_close, old))

    def _taken(self, key: bytes) -> Session | None:
        """Returns an idle session of this history, or None; counts one more session as in use either way."""
        with self._lock:
            self._busy += 1
            for session, idle_key, _ in self._idle.values():
                if idle_key == key:
                    del self._idle[id(session)]
                    return session
        return None

    def _opened(self) -> Session:
        old: Session | None = None
        with self._lock:
            if self._idle and len(self._idle) + self._busy > self._most:
                _, (old, _, _) = self._idle.popitem(last=False)
        if old is not None:
            _close(old)
        try:
            return self._toolset.open()
        except StatusError:
            raise
        except Exception as error:
            raise _failed("a new session", error) from error

    def _replay(self, session: Session, earlier: CallRecord, images: Sequence[bytes]) -> None:
        output = self._run(session, earlier, images)
        if result_sha256(output.content, output.is_error) != earlier.result:
            raise Aborted(
                REPLAY_DIFFERS,
                f"an earlier call of {earlier.name} gave another result when it was made again: the conversation "
                "cannot go on",
            )

    def _run(self, session: Session, call: CallRecord, images: Sequence[bytes]) -> Output:
        arguments = call.arguments.strip() or "{}"
        if problem := self._checked.problem(call.name, arguments):
            return Output((problem,), is_error=True)
        try:
            output = session.call(call.name, arguments, images[: call.images])
        except StatusError:
            raise
        except Exception as error:
            raise _failed(f"the tool {call.name}", error) from error
        return checked_output(output, call.name)

    def _keep(self, session: Session, key: bytes) -> None:
        with self._lock:
            self._busy -= 1
            self._idle[id(session)] = session, key, time.monotonic()

    def _end(self, session: Session | None) -> None:
        with self._lock:
            self._busy -= 1
        if session is not None:
            _close(session)


def _key(history: Sequence[CallRecord], digests: Sequence[bytes]) -> bytes:
    """Returns the hash of earlier calls and of the images that they had."""
    if not history:
        return b""
    digest = hashlib.sha256()
    for call in history:
        for text in (call.name.encode(), call.arguments.encode()):
            digest.update(len(text).to_bytes(8) + text)
        digest.update(call.images.to_bytes(8) + call.result)
    for image in digests[: max(call.images for call in history)]:
        digest.update(image)
    return digest.digest()


def _failed(subject: str, error: Exception) -> InternalFailure:
    log.error("%s failed", subject, exc_info=error)
    return InternalFailure(
        "tool_failed", f"{subject} failed: {type(error).__name__}; the server's log has the traceback"
    )


def _close(session: Session) -> None:
    with contextlib.suppress(Exception):
        session.close()
