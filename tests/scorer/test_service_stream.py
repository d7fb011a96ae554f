"""The Score stream over real gRPC."""

from __future__ import annotations

import grpc
import pytest
from helpers.scorer_asking import Ask, likelihood, passed

from lyncean.rpc import CallError
from lyncean.scorer.v1 import scorer_pb2 as pb, scorer_pb2_grpc


async def failure(ask: Ask, *args: object) -> CallError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await ask(*args)
    return CallError.from_rpc(caught.value)


async def test_each_item_gets_one_verdict_and_the_summary_comes_last(ask: Ask) -> None:
    items = [likelihood(f"t/{n}", chosen=n % 4, right=0) for n in range(100)]
    verdicts, summary = await ask(items, [pb.MetricSpec(name="acc", metric="accuracy")])
    assert sorted(v.key for v in verdicts) == sorted(item.key for item in items)
    assert summary is not None
    assert summary.counts.planned == summary.counts.scored == 100
    assert summary.metrics[0].value == 0.25


async def test_without_metrics_there_is_no_summary(ask: Ask) -> None:
    verdicts, summary = await ask([likelihood("t/1", 0, 0)])
    assert len(verdicts) == 1
    assert summary is None


async def test_verdicts_come_while_the_stream_is_open(stub: scorer_pb2_grpc.ScorerServiceAsyncStub) -> None:
    call = stub.Score()
    for n in range(3):
        await call.write(pb.ScorerServiceScoreRequest(items=[likelihood(f"t/{n}", 0, 0)]))
        response = await call.read()
        assert [v.key for v in response.verdicts] == [f"t/{n}"]
    await call.done_writing()
    assert await call.read() is grpc.aio.EOF


async def test_verdicts_reached_before_are_counted_and_not_sent_back(ask: Ask) -> None:
    items = [passed("a", "scored", 1.0), passed("b", "failed"), passed("c", "rejected"), likelihood("d", 1, 0)]
    verdicts, summary = await ask(items, [pb.MetricSpec(name="acc", metric="accuracy")])
    assert [v.key for v in verdicts] == ["d"]
    assert summary is not None
    assert (summary.counts.planned, summary.counts.scored, summary.counts.failed) == (4, 2, 1)
    assert (summary.metrics[0].value, summary.metrics[0].value_answered) == (0.25, 0.5)
    assert (summary.metrics[0].denominator, summary.metrics[0].denominator_answered) == (4, 2)


async def test_a_key_twice_counts_once_and_the_first_stands(ask: Ask) -> None:
    items = [passed("a", "scored", 1.0), passed("a", "scored", 0.0), passed("b", "scored", 0.0)]
    _, summary = await ask(items, [pb.MetricSpec(name="acc", metric="accuracy")], 1)
    assert summary is not None
    assert summary.counts.planned == 2
    assert summary.metrics[0].value == 0.5


async def test_empty_stream_has_an_empty_summary(ask: Ask) -> None:
    _, summary = await ask([], [pb.MetricSpec(name="acc", metric="accuracy")])
    assert summary is not None
    assert summary.counts.planned == 0
    assert not summary.metrics[0].HasField("value")


@pytest.mark.parametrize(
    ("item", "metrics", "reason", "parts"),
    [
        (pb.ScoreRequest(key="k", rule="nope", text="x"), [], "unknown_rule", ["k", "nope"]),
        (pb.ScoreRequest(rule="likelihood"), [], "missing_key", ["no key"]),
        (pb.ScoreRequest(key="k", rule="likelihood", text="x"), [], "wrong_answer", ["k", "likelihood", "scores"]),
        (pb.ScoreRequest(key="k", rule="contains_word"), [], "wrong_answer", ["k", "no answer"]),
        (passed("k", "great"), [pb.MetricSpec(name="a", metric="accuracy")], "invalid_verdict", ["k", "great"]),
        (passed("k", "scored"), [pb.MetricSpec(name="a", metric="accuracy")], "invalid_verdict", ["k", "score"]),
        (passed("k", "failed"), [pb.MetricSpec(name="a", metric="nope")], "unknown_metric", ["'a'", "nope"]),
        (passed("k", "failed"), [pb.MetricSpec(metric="accuracy")], "invalid_metric", ["name"]),
    ],
)
async def test_a_defect_of_the_request_is_named(
    ask: Ask, item: pb.ScoreRequest, metrics: list[pb.MetricSpec], reason: str, parts: list[str]
) -> None:
    error = await failure(ask, [item], metrics)
    assert error.code == grpc.StatusCode.INVALID_ARGUMENT
    assert error.reason == reason
    assert all(word in str(error) for word in parts), str(error)


async def test_unknown_params_are_refused(ask: Ask) -> None:
    item = likelihood("k", 0, 0)
    item.params.update({"reductoin": "mean"})
    error = await failure(ask, [item])
    assert (error.code, error.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "unknown_param")
    spec = pb.MetricSpec(name="a", metric="accuracy")
    spec.params.update({"levle": 0.9})
    error = await failure(ask, [likelihood("k", 0, 0)], [spec])
    assert (error.code, error.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "unknown_param")


async def test_too_many_items_in_a_message(ask: Ask) -> None:
    error = await failure(ask, [passed(str(n), "failed") for n in range(4097)], [], 5000)
    assert (error.code, error.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "too_many_items")


async def test_a_defect_does_not_take_back_what_was_answered(stub: scorer_pb2_grpc.ScorerServiceAsyncStub) -> None:
    call = stub.Score()
    await call.write(pb.ScorerServiceScoreRequest(items=[likelihood("good", 0, 0)]))
    response = await call.read()
    assert [v.key for v in response.verdicts] == ["good"]
    await call.write(pb.ScorerServiceScoreRequest(items=[pb.ScoreRequest(key="bad", rule="nope", text="x")]))
    with pytest.raises(grpc.aio.AioRpcError):
        await call.read()


async def test_list_rules(stub: scorer_pb2_grpc.ScorerServiceAsyncStub) -> None:
    known = await stub.ListRules(pb.ListRulesRequest())
    rule = {rule.name: rule for rule in known.rules}["likelihood"]
    assert len(rule.sha256) == 64
    assert "reduction" in rule.params
    assert "accuracy" in {metric.name for metric in known.metrics}
    assert known.scorer_version.startswith("lyncean ")
