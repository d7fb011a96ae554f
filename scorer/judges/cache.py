"""Replies that were paid for, kept across runs and shared by replicas; and batches under way."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from scorer.judges.base import JudgePrompt, Reply

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


class CacheError(Exception):
    """A cache that cannot be opened. A configuration mistake."""


class Cache:
    """A table of replies by judge identity and prompt hash.

    Args:
        place: Path of an SQLite file, shared by the scorers of one host, ":memory:", or a
            `postgresql://` address, shared by replicas on several.

    Raises:
        CacheError: If it cannot be opened.
    """

    def __init__(self, place: str) -> None:
        self._database: Any
        if place.startswith(("postgresql://", "postgres://")):
            try:
                import psycopg
            except ImportError:
                raise CacheError(
                    "a PostgreSQL cache needs the extra `postgres`: pip install 'lynceus[postgres]'"
                ) from None
            try:
                self._database = psycopg.connect(place, autocommit=True)
            except psycopg.OperationalError as error:
                # The address may hold a password, so it is not repeated.
                raise CacheError(f"cannot open the judge cache in PostgreSQL: {type(error).__name__}") from None
            self._mark = "%s"
        else:
            try:
                if place != ":memory:":
                    Path(place).parent.mkdir(parents=True, exist_ok=True)
                self._database = sqlite3.connect(place, isolation_level=None, timeout=30)
                self._database.execute("PRAGMA journal_mode=WAL")
            except (sqlite3.Error, OSError) as error:
                raise CacheError(f"cannot open the judge cache {place}: {error}") from None
            self._mark = "?"
        for table in _TABLES:
            self._database.execute(table)

    def _run(self, statement: str, values: Iterable[object]) -> list[tuple[Any, ...]]:
        done = self._database.execute(statement.replace("?", self._mark), tuple(values))
        return done.fetchall() if done.description else []

    def get(self, judge: str, prompt: JudgePrompt) -> Reply | None:
        """Returns the reply of this judge to this prompt, if it was ever given.

        Raises:
            JudgeError: If what is kept does not fit the prompt's schema (a batch's replies are
                kept before anybody has asked for them).
        """
        rows = self._run("SELECT words, model FROM replies WHERE judge = ? AND prompt = ?", (judge, prompt.sha256))
        if not rows:
            return None
        words, model = rows[0]
        return Reply(data=prompt.read(words), words=words, model=model, cached=True)

    def put(self, judge: str, prompt: str, reply: Reply) -> None:
        """Keeps a usable reply; the first one stands."""
        self._run(
            "INSERT INTO replies VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
            (judge, prompt, reply.words, reply.model, time.time()),
        )

    def begin_batch(self, judge: str, batch: str, prompts: Iterable[str]) -> None:
        """Remembers that a batch holds these prompts, so that a restart does not send them again."""
        now = time.time()
        for prompt in prompts:
            self._run(
                "INSERT INTO batches VALUES (?, ?, ?, ?) "
                "ON CONFLICT (judge, prompt) DO UPDATE SET batch = excluded.batch",
                (judge, prompt, batch, now),
            )

    def batches(self, judge: str) -> Mapping[str, str]:
        """Returns prompt -> batch for everything under way."""
        return dict(self._run("SELECT prompt, batch FROM batches WHERE judge = ?", (judge,)))

    def end_batch(self, judge: str, batch: str) -> None:
        """Forgets a batch that has ended."""
        self._run("DELETE FROM batches WHERE judge = ? AND batch = ?", (judge, batch))

    def calibrated(self, spec: str, cases: str, agreed: int, decisions: int) -> None:
        """Remembers how often a judge agreed with labelled cases; the last measurement stands."""
        self._run(
            "INSERT INTO calibrations VALUES (?, ?, ?, ?) ON CONFLICT (judge, cases) "
            "DO UPDATE SET agreed = excluded.agreed, decisions = excluded.decisions",
            (spec, cases, agreed, decisions),
        )

    def calibrations(self, spec: str) -> list[tuple[str, int, int]]:
        """Returns what was measured of a judge: cases, agreed, decisions."""
        return self._run("SELECT cases, agreed, decisions FROM calibrations WHERE judge = ? ORDER BY cases", (spec,))

    def close(self) -> None:
        """Closes the database."""
        self._database.close()
