"""A scorer service on loopback, and a certificate authority."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence

import pytest
from helpers.loopback import authority
from helpers.scorer_asking import Ask

from lyncean.rpc import ServerConfig, dial
from lyncean.scorer.v1 import scorer_pb2 as pb, scorer_pb2_grpc
from scorer.rules import rules
from scorer.scoring import Scorer
from scorer.service import server

__all__ = ["authority"]


@pytest.fixture
async def stub() -> AsyncIterator[scorer_pb2_grpc.ScorerServiceAsyncStub]:
    serving = server(ServerConfig(grace=1.0), Scorer(rules()))
    port = await serving.start()
    await serving.set_serving()
    async with dial(f"127.0.0.1:{port}") as channel:
        yield scorer_pb2_grpc.ScorerServiceStub(channel)
    await serving.stop()


@pytest.fixture
def ask(stub: scorer_pb2_grpc.ScorerServiceAsyncStub) -> Ask:
    """Returns a function that sends items in batches and returns verdicts and summary."""

    async def send(
        items: Sequence[pb.ScoreRequest], metrics: Iterable[pb.MetricSpec] = (), batch: int = 16
    ) -> tuple[list[pb.Verdict], pb.Summary | None]:
        async def messages() -> AsyncIterator[pb.ScorerServiceScoreRequest]:
            yield pb.ScorerServiceScoreRequest(items=items[:batch], metrics=metrics)
            for start in range(batch, len(items), batch):
                yield pb.ScorerServiceScoreRequest(items=items[start : start + batch])

        verdicts: list[pb.Verdict] = []
        summary = None
        async for response in stub.Score(messages(), timeout=300):
            assert summary is None, "the summary is the last message"
            verdicts += response.verdicts
            summary = response.summary if response.HasField("summary") else None
        return verdicts, summary

    return send
