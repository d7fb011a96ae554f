"""The imports of a scorer: packages that only some runs need are imported on use."""

from __future__ import annotations

import subprocess
import sys

SERVED = """
import asyncio, sys
from lyncean.rpc import ServerConfig, dial
from lyncean.scorer.v1 import scorer_pb2 as pb, scorer_pb2_grpc
from scorer.rules import rules
from scorer import service
from scorer.scoring import Scorer

service.PREPARE_SECONDS = 1e6  # on a busy machine an item may take as long as what is prepared beside it waits

NEVER = {"scipy", "statsmodels", "pandas", "pyarrow", "httpx", "openai", "pydantic", "rich", "PIL", "yaml"}

def check(*more):
    loaded = {*NEVER, *more} & sys.modules.keys()
    assert not loaded, loaded

async def main():
    serving = service.server(ServerConfig(), Scorer(rules()))
    port = await serving.start()
    await serving.set_serving()
    item = pb.ScoreRequest(key="a/1", rule="choice", targets=["B"], options=["cat", "dog"], text="The answer is B.")
    accuracy = pb.MetricSpec(name="accuracy", metric="accuracy")

    async def replies(**message):
        async def requests():
            yield pb.ScorerServiceScoreRequest(**message)
        return [reply async for reply in stub.Score(requests())]

    async with dial(f"127.0.0.1:{port}") as channel:
        stub = scorer_pb2_grpc.ScorerServiceStub(channel)
        assert len((await stub.ListRules(pb.ListRulesRequest())).rules) > 10
        [tried] = await replies(metrics=[accuracy])
        assert [metric.unit for metric in tried.summary.metrics] == ["fraction"]
        [scored] = await replies(items=[item])
        assert [verdict.score for verdict in scored.verdicts] == [1.0]
        check("numpy")
        *_, counted = await replies(items=[item], metrics=[accuracy])
        assert counted.summary.metrics[0].value == 1.0
        check()
    await serving.stop()

asyncio.run(main())
"""


def test_a_scorer_imports_numpy_for_metrics_of_items_alone_and_nothing_heavier() -> None:
    done = subprocess.run([sys.executable, "-c", SERVED], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
