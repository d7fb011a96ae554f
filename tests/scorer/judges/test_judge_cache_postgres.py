"""The judge cache in a real PostgreSQL: replicas share the replies that one of them paid for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from helpers.postgres import Postgres, running

from scorer.judges.base import JudgePrompt, Reply
from scorer.judges.cache import Cache, CacheError

pytest.importorskip("psycopg", reason="the extra postgres is not installed")


@pytest.fixture
def postgres() -> Iterator[Postgres]:
    with running() as server:
        yield server


PROMPT = JudgePrompt("p/1", "system", "user", {"type": "object"})


def test_replicas_share_replies_batches_and_calibrations(postgres: Postgres) -> None:
    first, second = Cache(postgres.address), Cache(postgres.address)
    assert second.get("judge", PROMPT) is None
    first.put("judge", PROMPT.sha256, Reply({"a": 1}, '{"a": 1}', "model"))
    second.put("judge", PROMPT.sha256, Reply({"a": 2}, '{"a": 2}', "model"))
    reply = second.get("judge", PROMPT)
    assert reply
    assert (reply.data, reply.cached) == ({"a": 1}, True)
    assert first.get("another", PROMPT) is None
    first.begin_batch("judge", "batch-1", ["x", "y"])
    assert second.batches("judge") == {"x": "batch-1", "y": "batch-1"}
    second.end_batch("judge", "batch-1")
    assert not first.batches("judge")
    first.calibrated("spec", "open_answer", 28, 30)
    first.calibrated("spec", "open_answer", 29, 30)
    assert second.calibrations("spec") == [("open_answer", 29, 30)]
    first.close()
    second.close()


def test_a_server_that_was_restarted_is_connected_to_again(postgres: Postgres) -> None:
    cache = Cache(postgres.address)
    cache.put("judge", PROMPT.sha256, Reply({}, "{}", "model"))
    postgres.stop()
    with pytest.raises(CacheError):
        cache.get("judge", PROMPT)
    postgres.start()
    assert cache.get("judge", PROMPT)
    postgres.stop()
    postgres.start()
    cache.begin_batch("judge", "batch-1", ["x", "y"])
    assert cache.batches("judge") == {"x": "batch-1", "y": "batch-1"}
    cache.close()
