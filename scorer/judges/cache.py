"""The cache of paid replies, kept across runs and shared by replicas; and of batches under way."""

from __future__ import annotations

import contextlib
import os
import socket
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from lyncean.errors import UserError
from scorer.judges.base import JudgeError, JudgePrompt, Reply

_TABLES = (
    """CREATE TABLE IF NOT EXISTS replies (
        judge TEXT NOT NULL, prompt TEXT NOT NULL, words TEXT NOT NULL, model TEXT NOT NULL,
        created DOUBLE PRECISION NOT NULL, PRIMARY KEY (judge, prompt))""",
    """CREATE TABLE IF NOT EXISTS batches (
        judge TEXT NOT NULL, prompt TEXT NOT NULL, batch TEXT NOT NULL, created DOUBLE PRECISION NOT NULL,
        PRIMARY KEY (judge, prompt))""",
    """CREATE TABLE IF NOT EXISTS calibrations (
        judge TEXT NOT NULL, cases TEXT NOT NULL, agreed INTEGER NOT NULL, decisions INTEGER NOT NULL,
        PRIMARY KEY (judge, cases))""",
)

_T = TypeVar("_T")

_KEEP = "INSERT INTO replies VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"


BUSY_SECONDS = 4
"""Most seconds to connect, and to wait for a file that another process has locked."""


class CacheError(UserError):
    """A cache that cannot be opened, read or written; at the start of a process a configuration mistake."""


class Cache:
    """A table of replies by judge identity and prompt hash.

    Args:
        address: Path of an SQLite file, shared by the scorers of one host, ":memory:", or a
            `postgresql://` address, shared by replicas on several.
        create: Whether to create its tables now; otherwise the caller calls `create`.

    Raises:
        CacheError: If it cannot be opened; in later calls, if it cannot be read or written.
    """

    def __init__(self, address: str, *, create: bool = True) -> None:
        self._address = address
        remote = address.startswith(("postgresql://", "postgres://"))
        self._mark = "%s" if remote else "?"
        self._lost: tuple[type[Exception], ...] = ()
        self._errors: tuple[type[Exception], ...] = (sqlite3.Error,)
        self._database = self._postgres() if remote else self._sqlite()
        if create:
            self.create()

    def create(self) -> None:
        """Creates missing tables."""
        for table in _TABLES:
            self._run(table, ())

    def _sqlite(self) -> Any:
        try:
            if self._address != ":memory:":
                Path(self._address).parent.mkdir(parents=True, exist_ok=True)
            database = sqlite3.connect(self._address, isolation_level=None, timeout=BUSY_SECONDS)
            database.execute("PRAGMA journal_mode=WAL")
        except (sqlite3.Error, OSError) as error:
            raise CacheError(f"cannot open the judge cache {self._address}: {error}") from None
        return database

    def _postgres(self) -> Any:
        try:
            import psycopg
        except ImportError:
            raise CacheError("a PostgreSQL cache needs the extra `postgres`: pip install 'lyncean[postgres]'") from None
        self._lost, self._errors = (psycopg.OperationalError,), (psycopg.Error,)
        try:
            return psycopg.connect(self._address, autocommit=True, connect_timeout=BUSY_SECONDS)
        except psycopg.OperationalError as error:
            # The address may hold a password, so it is not repeated.
            raise CacheError(f"cannot open the judge cache in PostgreSQL: {type(error).__name__}") from None

    def _done(self, work: Callable[[], _T]) -> _T:
        """Runs statements, and repeats them on a new connection if the server has dropped the old one.

        Every statement of this module is idempotent, so that a repetition is safe.
        """
        try:
            try:
                return work()
            except self._lost:
                if not self._database.closed:
                    raise
            self._database = self._postgres()
            return work()
        except self._errors as error:
            cause = type(error).__name__ if self._lost else str(error)
            raise CacheError(f"the judge cache cannot be used: {cause}") from error

    def _run(self, statement: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        def work() -> list[tuple[Any, ...]]:
            done = self._database.execute(statement.replace("?", self._mark), tuple(values))
            return done.fetchall() if done.description else []

        return self._done(work)

    def _run_all(self, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        """Runs a statement for all rows in one transaction: a failure or a crash leaves none of them."""

        def work() -> None:
            self._database.execute("BEGIN")
            try:
                self._database.cursor().executemany(statement.replace("?", self._mark), rows)
            except BaseException:
                self._database.execute("ROLLBACK")
                raise
            self._database.execute("COMMIT")

        self._done(work)

    def get(self, judge: str, prompt: JudgePrompt) -> Reply | None:
        """Returns the kept reply of this judge to this prompt.

        Raises:
            JudgeError: If the kept reply does not fit the prompt's schema (a batch's replies may be
                kept unvalidated). It is then deleted, so that scoring the item again asks the judge.
        """
        rows = self._run("SELECT words, model FROM replies WHERE judge = ? AND prompt = ?", (judge, prompt.sha256))
        if not rows:
            return None
        text, model = rows[0]
        try:
            return Reply(data=prompt.read(text), text=text, model=model, cached=True)
        except JudgeError:
            self._run("DELETE FROM replies WHERE judge = ? AND prompt = ?", (judge, prompt.sha256))
            raise

    def put(self, judge: str, prompt: str, reply: Reply) -> None:
        """Keeps a usable reply; the first reply to a prompt stays."""
        self._run(_KEEP, (judge, prompt, reply.text, reply.model, time.time()))

    def put_all(self, judge: str, replies: Iterable[tuple[str, Reply]]) -> None:
        """Keeps usable replies, in pairs with the hashes of their prompts, in one transaction."""
        now = time.time()
        self._run_all(_KEEP, [(judge, prompt, reply.text, reply.model, now) for prompt, reply in replies])

    def begin_batch(self, judge: str, batch: str, prompts: Iterable[str]) -> None:
        """Records the prompts of a batch, so that a restart does not send them again."""
        now = time.time()
        self._run_all(
            "INSERT INTO batches VALUES (?, ?, ?, ?) ON CONFLICT (judge, prompt) DO UPDATE SET batch = excluded.batch",
            [(judge, prompt, batch, now) for prompt in prompts],
        )

    def batches(self, judge: str) -> Mapping[str, str]:
        """Returns the batches under way: hash of a prompt -> id of its batch."""
        return dict(self._run("SELECT prompt, batch FROM batches WHERE judge = ?", (judge,)))

    def end_batch(self, judge: str, batch: str) -> None:
        """Deletes the record of a batch that has ended."""
        self._run("DELETE FROM batches WHERE judge = ? AND batch = ?", (judge, batch))

    def calibrated(self, spec: str, cases: str, agreed: int, decisions: int) -> None:
        """Records a judge's agreement with labelled cases; the last measurement replaces earlier ones."""
        self._run(
            "INSERT INTO calibrations VALUES (?, ?, ?, ?) ON CONFLICT (judge, cases) "
            "DO UPDATE SET agreed = excluded.agreed, decisions = excluded.decisions",
            (spec, cases, agreed, decisions),
        )

    def calibrations(self, spec: str) -> list[tuple[str, int, int]]:
        """Returns the calibrations of a judge: cases, agreed, decisions."""
        return self._run("SELECT cases, agreed, decisions FROM calibrations WHERE judge = ? ORDER BY cases", (spec,))

    def abandon(self) -> None:
        """Ends a call that hangs in another thread by shutting down its socket; an SQLite call times out by itself."""
        with contextlib.suppress(Exception):
            with socket.socket(fileno=os.dup(self._database.pgconn.socket)) as connection:
                connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Closes the database."""
        self._database.close()
