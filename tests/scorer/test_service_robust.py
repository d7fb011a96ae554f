"""A stream survives judges, slow readers, drains and resubmission; TLS and tokens."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from helpers.scorer_asking import likelihood, passed, spec

from lyncean.rpc import CallError, Credentials, Server, ServerConfig, Tls, dial
from lyncean.scorer.v1 import scorer_pb2 as pb, scorer_pb2_grpc
from scorer.errors import RequestError
from scorer.rule import JudgedRule, Rule, scored, unparsed
from scorer.rules import rules
from scorer.scoring import JUDGED_AT_ONCE as MOST_JUDGED, Scorer
from scorer.service import server

Stub = scorer_pb2_grpc.ScorerServiceStub


class Gate:
    """A judge that answers when its gate opens; counts the callers that wait at once."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.waiting = 0
        self.most = 0
        self.keys: list[str] = []

    async def ask(self, key: str) -> None:
        self.keys.append(key)
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        try:
            await self.open.wait()
        finally:
            self.waiting -= 1


async def read_judged(request: pb.ScoreRequest, judge: Gate) -> pb.Verdict:
    if request.text == "defect":
        raise RequestError("the judged item is bad")
    if request.text == "crash":
        raise ZeroDivisionError
    await judge.ask(request.key)
    at = request.text.index("x")
    return scored("x", 1.0, span=(at, at + 1))


def read_plain(request: pb.ScoreRequest) -> pb.Verdict:
    if request.text == "crash":
        raise ZeroDivisionError
    at = request.text.find("x")
    return unparsed("no_x") if at < 0 else scored("x", 1.0, span=(at, at + 1))


RULES = [
    JudgedRule(name="judge_x", description="x, by judge", read=read_judged),
    Rule(name="plain_x", description="x, by hand", read=read_plain),
    Rule(name="raw_x", description="x, as the reference", read=read_plain, parity=True),
]


@asynccontextmanager
async def running(judge: Gate | None, config: ServerConfig | None = None) -> AsyncIterator[tuple[Server, str]]:
    serving = server(config or ServerConfig(grace=0.5), Scorer(rules(RULES), judge))
    port = await serving.start()
    await serving.set_serving()
    yield serving, f"localhost:{port}"
    await serving.stop()


def text(key: str, rule: str, answer: str = "an x") -> pb.ScoreRequest:
    return pb.ScoreRequest(key=key, rule=rule, text=answer)


def message(*items: pb.ScoreRequest, metrics: tuple[pb.MetricSpec, ...] = ()) -> pb.ScorerServiceScoreRequest:
    return pb.ScorerServiceScoreRequest(items=items, metrics=metrics)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(300):
        while not condition():
            await asyncio.sleep(0.01)


async def keys(call: AsyncIterator[pb.ScorerServiceScoreResponse], number: int) -> list[str]:
    verdict_keys: list[str] = []
    while len(verdict_keys) < number:
        verdict_keys += [verdict.key for verdict in (await call.read()).verdicts]
    return verdict_keys


async def test_plain_items_do_not_wait_for_judged_ones() -> None:
    gate = Gate()
    async with running(gate) as (_, address), dial(address) as channel:
        call = Stub(channel).Score()
        await call.write(message(*[text(f"j{n}", "judge_x") for n in range(50)], text("p", "plain_x")))
        assert await keys(call, 1) == ["p"]
        await call.write(message(text("q", "plain_x"), metrics=()))
        assert await keys(call, 1) == ["q"]
        await until(lambda: gate.waiting == 50)
        gate.open.set()
        await call.done_writing()
        assert sorted(await keys(call, 50)) == sorted(f"j{n}" for n in range(50))
        assert await call.read() is grpc.aio.EOF


async def test_judged_items_are_bounded_and_all_are_answered_and_counted() -> None:
    gate = Gate()
    number = 3 * MOST_JUDGED
    async with running(gate) as (_, address), dial(address) as channel:
        call = Stub(channel).Score()
        await call.write(message(metrics=(spec("acc", "accuracy"),)))

        async def send() -> None:
            for start in range(0, number, 64):
                await call.write(message(*[text(f"j{n}", "judge_x") for n in range(start, start + 64)]))
            await call.done_writing()

        sending = asyncio.create_task(send())
        await until(lambda: gate.waiting == MOST_JUDGED)
        await asyncio.sleep(0.1)
        assert gate.most == MOST_JUDGED
        gate.open.set()
        answered = await keys(call, number)
        await sending
        assert len(set(answered)) == number
        last = await call.read()
        assert last.summary.counts.scored == number
        assert gate.most == MOST_JUDGED


async def test_a_client_that_goes_away_takes_its_judged_items_along() -> None:
    gate = Gate()
    async with running(gate) as (_, address):
        async with dial(address) as channel:
            call = Stub(channel).Score()
            await call.write(message(*[text(f"j{n}", "judge_x") for n in range(10)]))
            await until(lambda: gate.waiting == 10)
            call.cancel()
        await until(lambda: gate.waiting == 0)


async def test_without_a_judge_a_judged_item_is_refused() -> None:
    error = await failure(None, text("k", "judge_x"))
    assert (error.code, error.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "no_judge")


@pytest.mark.parametrize(("rule", "status"), [("judge_x", "INVALID_ARGUMENT"), ("plain_x", None)])
async def test_a_defect_in_a_judged_item_ends_the_stream_with_its_key(rule: str, status: str | None) -> None:
    if status is None:
        error = await failure(Gate(), text("k9", rule, "crash"))
        assert (error.code, error.reason) == (grpc.StatusCode.INTERNAL, "rule_failed")
    else:
        error = await failure(Gate(), text("k9", rule, "defect"))
        assert (error.code.name, error.reason) == (status, "invalid_item")
        crashed = await failure(Gate(), text("k9", rule, "crash"))
        assert (crashed.code, crashed.reason) == (grpc.StatusCode.INTERNAL, "rule_failed")
    assert "k9" in str(error)


async def failure(judge: Gate | None, *items: pb.ScoreRequest) -> CallError:
    async with running(judge) as (_, address), dial(address) as channel:
        call = Stub(channel).Score()
        await call.write(message(*items))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.read()
        return CallError.from_rpc(caught.value)


async def test_reasoning_is_removed_once_and_spans_count_from_the_start_of_the_text() -> None:
    answer = "<think>x or y?</think> I say x."
    gate = Gate()
    gate.open.set()
    async with running(gate) as (_, address), dial(address) as channel:
        call = Stub(channel).Score()
        await call.write(
            message(text("p", "plain_x", answer), text("r", "raw_x", answer), text("j", "judge_x", answer))
        )
        await call.done_writing()
        verdict_of = {v.key: v async for response in call for v in response.verdicts}
    assert answer[verdict_of["p"].span.start : verdict_of["p"].span.end] == "x"
    assert verdict_of["p"].span.start == verdict_of["j"].span.start == answer.rindex("x")
    assert verdict_of["r"].span.start == answer.index("x")
    assert "reasoning" in verdict_of["p"].detail
    assert not verdict_of["r"].detail


@pytest.mark.parametrize("answer", ["", "  \n", "<think>x", "<think>x</think>  "])
async def test_an_empty_answer_reaches_neither_rule_nor_judge(answer: str) -> None:
    gate = Gate()
    async with running(gate) as (_, address), dial(address) as channel:
        call = Stub(channel).Score()
        await call.write(message(text("p", "plain_x", answer), text("j", "judge_x", answer)))
        verdicts = (await call.read()).verdicts
    assert [(v.outcome, v.reason, v.score) for v in verdicts] == [("unparsed", "empty_answer", 0.0)] * 2
    assert not gate.keys


async def test_a_client_that_does_not_read_stops_being_read() -> None:
    big = "word " * 20_000 + "x"
    async with running(None) as (_, address), dial(address) as channel:
        call = Stub(channel).Score()
        written = 0

        async def send() -> None:
            nonlocal written
            for number in range(600):
                await call.write(message(text(f"{number}", "echo", big)))
                written += 1
            await call.done_writing()

        sending = asyncio.create_task(send())
        last = -1
        while last != written:  # until no more is taken
            last = written
            await asyncio.sleep(0.5)
        assert written < 600
        answered = [v.key async for response in call for v in response.verdicts]
        await sending
    assert answered == [str(number) for number in range(600)]


RULES.append(Rule(name="echo", description="says it back", read=lambda request: scored(request.text, 1.0)))


async def test_what_was_not_acknowledged_is_sent_again_and_counts_once() -> None:
    items = [likelihood(f"t/{n}", n % 4, 0) for n in range(40)]
    accuracy = spec("acc", "accuracy")
    async with running(None) as (_, address), dial(address) as channel:
        call = Stub(channel).Score()
        await call.write(message(*items[:25]))
        acknowledged = {v.key: v for v in (await call.read()).verdicts}
        call.cancel()
        again = Stub(channel).Score()
        known = []
        for verdict in acknowledged.values():
            known.append(pb.ScoreRequest(key=verdict.key, verdict=verdict))
        rest = [item for item in items if item.key not in acknowledged]
        await again.write(message(*known, *rest, *rest, metrics=(accuracy,)))
        await again.done_writing()
        responses = [response async for response in again]
        uninterrupted = Stub(channel).Score()
        await uninterrupted.write(message(*items, metrics=(accuracy,)))
        await uninterrupted.done_writing()
        undisturbed = [response async for response in uninterrupted]
    assert responses[-1].summary == undisturbed[-1].summary
    assert undisturbed[-1].summary.counts.planned == 40


async def test_a_drain_lets_an_open_stream_finish() -> None:
    async with running(None, ServerConfig(grace=20)) as (serving, address), dial(address) as channel:
        call = Stub(channel).Score()
        await call.write(message(passed("a", "scored", 1.0), metrics=(spec("acc", "accuracy"),)))
        await call.write(message(likelihood("b", 0, 0)))
        assert await keys(call, 1) == ["b"]
        stopping = asyncio.create_task(serving.stop())
        await asyncio.sleep(0.2)
        await call.write(message(likelihood("c", 0, 0)))
        assert await keys(call, 1) == ["c"]
        await call.done_writing()
        assert (await call.read()).summary.counts.planned == 3
        await stopping


async def test_a_stream_that_outlasts_the_grace_ends_with_a_status_that_is_retried() -> None:
    gate = Gate()
    async with running(gate) as (serving, address), dial(address) as channel:
        call = Stub(channel).Score()
        await call.write(message(text("j", "judge_x")))
        await until(lambda: gate.waiting == 1)
        stopping = asyncio.create_task(serving.stop())
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.read()
        await stopping
    consequence = CallError.from_rpc(caught.value).consequence
    assert consequence.retries != 0
    assert not consequence.abort


async def test_a_wrong_token_is_refused_and_the_right_one_works() -> None:
    async with running(None, ServerConfig(grace=0.5, token="secret")) as (_, address), dial(address) as channel:
        call = Stub(channel).Score(metadata=Credentials(token="secret").metadata)
        await call.write(message(likelihood("k", 0, 0)))
        await call.done_writing()
        assert await keys(call, 1) == ["k"]
        call = Stub(channel).Score(metadata=Credentials(token="wrong").metadata)
        # Nothing is written, since the refusal may already have ended the call.
        assert await call.code() == grpc.StatusCode.UNAUTHENTICATED


def self_signed(folder: Path) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    paths = folder / "cert.pem", folder / "key.pem"
    paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    paths[1].write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))
    return paths


async def test_a_stream_over_tls(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    async with running(None, ServerConfig(grace=0.5, tls=Tls(certificate, key))) as (_, address):
        async with dial(address, Credentials(tls=Tls(ca=certificate))) as channel:
            call = Stub(channel).Score()
            await call.write(message(likelihood("k", 0, 0)))
            assert await keys(call, 1) == ["k"]
            await call.done_writing()
        async with dial(address) as channel:
            call = Stub(channel).Score()
            with pytest.raises(grpc.aio.AioRpcError):
                await call.read()


async def test_a_client_that_goes_away_unread_leaves_no_task_behind() -> None:
    async with running(None) as (_, address), dial(address) as channel:
        call = Stub(channel).Score()
        for number in range(60):
            await call.write(message(text(f"{number}", "echo", "word " * 20_000)))
        await until(lambda: reading() == 1)
        await asyncio.sleep(0.3)
        call.cancel()
        await until(lambda: reading() == 0)


def reading() -> int:
    return sum("_Stream.read" in repr(task) for task in asyncio.all_tasks())


async def test_verdicts_too_large_for_one_message_come_in_several() -> None:
    answer = "x" * (900 * 1024)
    async with running(None) as (_, address), dial(address) as channel:
        call = Stub(channel).Score()
        await call.write(message(*[text(str(n), "double", answer) for n in range(40)]))
        await call.done_writing()
        sizes = [len(response.verdicts) async for response in call]
    assert sum(sizes) == 40
    assert len(sizes) > 1


RULES.append(Rule(name="double", description="says it twice", read=lambda request: scored(request.text * 2, 1.0)))
