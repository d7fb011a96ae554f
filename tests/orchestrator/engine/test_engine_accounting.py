"""The accounting, proved: a random cluster, random crashes and torn logs, and at the end every item once.

The engine, the dispatcher, the run log and the scorer's client are the real ones; only the two
ends of the wire are not, so that a hundred disasters fit into a second.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import grpc
import orjson
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from lyncean.limiter import Limiter
from lyncean.model.v1 import model_pb2 as model
from lyncean.outcomes import Outcome
from lyncean.rpc import CallError
from lyncean.scorer.v1 import scorer_pb2 as scorer
from orchestrator.engine import Budget, Engine, IncompleteError, Options
from orchestrator.engine import dispatch as dispatch_module
from orchestrator.engine.accounting import Accounting
from orchestrator.engine.batch import Answer
from orchestrator.engine.replica import Health
from orchestrator.engine.wire import Request
from orchestrator.run_folder.index import Index
from orchestrator.run_folder.log import RunLog
from orchestrator.samples import BadRowError, Call, NoAnswerError, Sample, Scoring, Turn, text_part, user

SAMPLES = 24
S = grpc.StatusCode
CODES = (S.UNAVAILABLE, S.RESOURCE_EXHAUSTED, S.INTERNAL, S.DEADLINE_EXCEEDED)
OUTCOMES = {"bad": "rejected", "long": "rejected", "denied": "refused", "mute": "unparsed"}


class Crash(BaseException):
    """The orchestrator's process dies: nothing after this line of code runs."""


class World:
    """What is true whatever the engine does: what each row deserves, and what was answered."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.answered: Counter[str] = Counter()
        self.trouble = 0.0
        self.scorer_trouble = 0.0
        self.crash_after: int | None = None
        self.kinds = {
            n: self.draw.choice(["plain", "plain", "two", "bad", "long", "denied", "mute"]) for n in range(SAMPLES)
        }

    def tick(self) -> None:
        if self.crash_after is not None:
            self.crash_after -= 1
            if self.crash_after <= 0:
                self.crash_after = None
                raise Crash

    def samples(self) -> Iterator[Sample]:
        for number, kind in self.kinds.items():
            yield self.sample(number, kind)

    def sample(self, number: int, kind: str) -> Sample:
        scoring = Scoring("exact", targets=("yes",), labels={"kind": kind})

        def ask(_: Any) -> Call:
            if kind == "bad":
                raise BadRowError("bad_image", "no image")
            return Call((user(text_part(f"{number} {kind} first")),))

        def again(answers: Any) -> Call:
            assert answers[0].text == ("" if kind == "mute" else f"answer {number} {kind} first")
            if not answers[0].text:
                raise NoAnswerError("nothing_said", "empty")
            return Call((user(text_part(f"{number} {kind} turn {len(answers)}")),))

        turns = [Turn(ask, scoring=scoring)]
        if kind in ("two", "mute"):
            turns = [Turn(ask, "first"), Turn(again, "second", scoring), Turn(again, "third", scoring)]
        return Sample(f"toy/{number}", tuple(turns))

    def expected(self) -> dict[str, str]:
        found = {}
        for number, kind in self.kinds.items():
            sample = self.sample(number, kind)
            outcome = {"bad": "rejected", "long": "rejected", "denied": "refused", "mute": "unparsed"}.get(
                kind, "scored"
            )
            found |= {sample.item_key(turn): outcome for turn in sample.turns if turn.scoring}
        return found


class FakeReplica:
    """A replica as the dispatcher sees it: it answers late, never, twice as late, or with a failure."""

    def __init__(self, world: World, name: str) -> None:
        self.address, self.world = name, world
        self.health, self.limiter, self.in_flight = Health.READY, Limiter(3), 0
        self.seconds = self.longest = 0.0
        self.batches = name != "c"

    @property
    def limit(self) -> int:
        return self.limiter.limit

    @property
    def most(self) -> int:
        return self.limit + 2

    @property
    def free(self) -> int:
        return self.limit - self.in_flight if self.health is Health.READY else 0

    def answered(self, seconds: float) -> None:
        self.limiter.succeeded()
        self.seconds = self.longest = seconds

    def bundles(self, sizes: Sequence[int]) -> Iterator[range]:
        start = 0
        while start < len(sizes):
            end = min(len(sizes), start + (self.world.draw.randint(1, 3) if self.batches else 1))
            yield range(start, end)
            start = end

    async def ask_together(self, requests: Sequence[Request], timeout: float) -> AsyncIterator[list[Answer]]:
        assert self.batches
        draw = self.world.draw
        answers: list[Answer] = []
        for index in draw.sample(range(len(requests)), len(requests)):
            if draw.random() < self.world.trouble:
                # The Batch breaks, or ends too early: a status of all says nothing of any one of them.
                yield answers
                code = draw.choice([*CODES, S.INVALID_ARGUMENT, S.UNIMPLEMENTED, None])
                if code is None:
                    return
                raise CallError(code, "trouble", "trouble")
            try:
                answers.append((index, await self.ask(requests[index], timeout)))
            except CallError as error:
                answers.append((index, error))
            if draw.random() < 0.5:
                yield answers
                answers = answers if draw.random() < 0.2 else []
        yield answers

    async def ask(self, request: Request, timeout: float) -> model.GenerateResponse:
        text = model.GenerateRequest.FromString(request.data).messages[0].parts[0].text
        world = self.world
        for _ in range(world.draw.randrange(4)):
            await asyncio.sleep(0)
        world.tick()
        if " long " in text:
            raise CallError(S.OUT_OF_RANGE, "context_overflow", "too long")
        if " denied " in text:
            raise CallError(S.PERMISSION_DENIED, "policy", "no")
        if world.draw.random() < world.trouble:
            # A lost reply: the server did the work, the client sees the connection break.
            raise CallError(world.draw.choice(CODES), "trouble", "trouble")
        world.answered[text] += 1
        answer = "" if " mute " in text else f"answer {text}"
        return model.GenerateResponse(
            parts=[model.Part(text=answer)] if answer else [],
            finish_reason=model.FINISH_REASON_END_OF_SEQUENCE,
            usage=model.Usage(output_tokens=1),
        )


class FakePool:
    def __init__(self, world: World) -> None:
        self.replicas = {name: FakeReplica(world, name) for name in ("a", "b", "c")}
        self.changed: Any = None

    @property
    def ready(self) -> list[FakeReplica]:
        return [replica for replica in self.replicas.values() if replica.health is Health.READY]

    @property
    def slots(self) -> int:
        return sum(replica.limit for replica in self.ready)

    def suspect(self, replica: FakeReplica, error: CallError) -> None:
        replica.health = Health.DOWN
        asyncio.get_running_loop().call_later(0.001, self.revive, replica)

    def revive(self, replica: FakeReplica) -> None:
        replica.health = Health.READY
        self.changed()

    def check(self) -> None:
        return


class FakeScorer:
    """Acknowledges out of order, twice, late, or dies before the end."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.pending: list[tuple[scorer.ScoreRequest, Any]] = []
        self.on_verdict: Any = None
        self.closing = False

    @property
    def room(self) -> bool:
        return len(self.pending) < 5

    def put(self, request: scorer.ScoreRequest, scoring: Any) -> None:
        self.pending.append((request, scoring))

    async def wait_for_room(self) -> None:
        while not self.room:
            await asyncio.sleep(0)

    async def run(self) -> None:
        while not (self.closing and not self.pending):
            await asyncio.sleep(0)
            if self.pending and self.world.draw.random() < 0.5:
                self.world.tick()
                if self.world.draw.random() < self.world.scorer_trouble:
                    raise IncompleteError("the scorer is gone")
                request, scoring = self.pending.pop(self.world.draw.randrange(len(self.pending)))
                scored = request.text.startswith("answer")
                self.on_verdict(
                    scorer.Verdict(key=request.key, outcome="scored" if scored else "unparsed", score=float(scored)),
                    scoring,
                )

    async def finish(self) -> None:
        self.closing = True
        while self.pending:
            await asyncio.sleep(0)


class Accounts(RuleBasedStateMachine):
    """Runs over one folder until it is complete, each ended by whatever rule comes."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "run"
        self.world = World(7)
        self.complete = False

    def teardown(self) -> None:
        self.world.trouble = self.world.scorer_trouble = 0.0
        self.world.crash_after = None
        for _ in range(3):
            self.session()
        assert self.complete
        self.folder.cleanup()

    def session(self) -> None:
        asyncio.run(self._session())

    async def _session(self) -> None:
        log = RunLog(self.path)
        accounting = Accounting()
        pool: Any = FakePool(self.world)
        fake: Any = FakeScorer(self.world)
        engine = Engine(self.world.samples(), log, {"": pool}, fake, accounting, Options(patience=5.0), Budget())
        try:
            await engine.run()
        except (IncompleteError, Crash):
            self.complete = False
        else:
            assert accounting.planned == accounting.outcomes.total() == len(self.world.expected())
            self.complete = accounting.outcomes[Outcome.FAILED] == 0
        finally:
            log.close()

    @rule(trouble=st.sampled_from([0.0, 0.1, 0.4, 0.8]))
    def run_with_trouble(self, trouble: float) -> None:
        self.world.trouble = trouble
        self.session()
        self.world.trouble = 0.0

    @rule()
    def run_with_a_scorer_that_dies(self) -> None:
        self.world.scorer_trouble = 0.3
        self.session()
        self.world.scorer_trouble = 0.0

    @rule(after=st.integers(1, 60))
    def run_and_crash(self, after: int) -> None:
        self.world.crash_after = after
        self.session()
        self.world.crash_after = None

    @precondition(lambda self: self.path.exists())
    @rule(name=st.sampled_from(["responses.jsonl", "verdicts.jsonl"]), cut=st.integers(1, 400))
    def tear(self, name: str, cut: int) -> None:
        file = self.path / name
        data = file.read_bytes()
        file.write_bytes(data[: max(0, len(data) - cut)])
        self.complete = False

    @invariant()
    def every_settled_item_is_as_it_must_be(self) -> None:
        if not self.path.exists():
            return
        expected = self.world.expected()
        verdicts = {}
        for raw in (self.path / "verdicts.jsonl").read_bytes().split(b"\n")[:-1]:
            line = orjson.loads(raw)
            verdicts[line["key"]] = line["outcome"]
        assert verdicts.keys() <= expected.keys()
        wrong = {key: outcome for key, outcome in verdicts.items() if outcome not in (expected[key], "failed")}
        assert not wrong
        if self.complete:
            assert verdicts == expected
            assert len(Index(self.path, ("verdicts.jsonl",))) == len(expected)


def test_answers_that_are_logged_are_never_asked_again(tmp_path: Path) -> None:
    machine = Accounts()
    machine.session()
    asked = machine.world.answered.copy()
    machine.session()
    assert machine.world.answered == asked
    assert set(asked.values()) == {1}
    machine.teardown()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch_module, "backoff", lambda _: 0.0005)


TestAccounts = Accounts.TestCase
TestAccounts.settings = settings(
    max_examples=25,
    stateful_step_count=6,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
