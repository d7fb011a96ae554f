"""The simulator of bench/simulate.py against closed forms."""

from __future__ import annotations

import math

import pytest
from simulate import System, simulate

pytestmark = pytest.mark.full

FREE = System(samples=2_000, replicas=1, slots=1, service=1.0, cpu=0.0, scorer_cpu=0.0, image_bytes=0.0)


def of(**changes: object) -> System:
    fields = {name: getattr(FREE, name) for name in FREE.__dataclass_fields__}
    return System(**(fields | changes))


def test_one_server_answers_one_over_its_time() -> None:
    outcome = simulate(of(service=0.5))
    assert outcome.rate == pytest.approx(2.0)
    assert outcome.replica_use == pytest.approx(1.0)
    assert outcome.calls == 2_000


@pytest.mark.parametrize(("replicas", "slots", "shards"), [(4, 1, 1), (10, 1, 5), (5, 8, 1), (20, 2, 2)])
def test_servers_without_failures_add_up(replicas: int, slots: int, shards: int) -> None:
    outcome = simulate(of(replicas=replicas, slots=slots, shards=shards))
    assert outcome.rate == pytest.approx(replicas * slots)


@pytest.mark.parametrize("shards", [1, 4])
def test_a_shard_sends_no_more_than_its_processor_allows(shards: int) -> None:
    outcome = simulate(of(samples=20_000, replicas=400, slots=8, cpu=0.01, shards=shards))
    assert outcome.rate == pytest.approx(100 * shards, rel=0.03)
    assert outcome.cpu_use == pytest.approx(1.0, rel=0.03)


def test_a_scorer_or_a_disk_can_be_what_binds() -> None:
    outcome = simulate(of(samples=20_000, replicas=400, scorer_cpu=0.02, backlog=16))
    assert outcome.rate == pytest.approx(50, rel=0.01)
    outcome = simulate(of(samples=20_000, replicas=400, image_bytes=1e6, disk_rate=80e6))
    assert outcome.rate == pytest.approx(80, rel=0.01)
    shared = simulate(of(samples=20_000, replicas=400, shards=4, scorer_cpu=0.02, backlog=16, shards_per_scorer=2))
    assert shared.rate == pytest.approx(100, rel=0.01)


def test_exponential_times_behind_one_processor_are_the_machine_repairman() -> None:
    # M/M/1//N with deterministic service in place of the exponential one is bounded by both of these.
    customers, think, cpu = 20, 1.0, 0.05
    outcome = simulate(of(samples=100_000, replicas=customers, law="exponential", service=think, cpu=cpu))
    weights = [math.perm(customers, n) * (cpu / think) ** n for n in range(customers + 1)]
    exponential = (1 - weights[0] / sum(weights)) / cpu
    assert exponential < outcome.rate < min(1 / cpu, customers / (think + cpu))


def test_the_mean_of_log_normal_times_is_the_service_time() -> None:
    outcome = simulate(of(samples=100_000, replicas=50, spread=0.5))
    assert outcome.rate == pytest.approx(50, rel=0.02)


@pytest.mark.parametrize("slots", [1, 4])
def test_failures_cost_the_time_that_a_replica_is_away_and_the_calls_it_held(slots: int) -> None:
    system = of(samples=200_000 * slots, replicas=100, slots=slots, mtbf=200.0, restart=20.0, cpu=1e-6)
    outcome = simulate(system)
    # Between failures a replica is up for an exponential time; a call of length s is answered in it
    # 1 / (e^(s/mtbf) - 1) times on average.
    answered = 1 / math.expm1(system.service / system.mtbf)
    assert outcome.rate == pytest.approx(system.replicas * slots * answered / (system.mtbf + system.restart), rel=0.03)
    lost = outcome.calls - system.samples
    failures = outcome.seconds / (system.mtbf + system.restart) * system.replicas
    assert lost == pytest.approx(failures * slots, rel=0.03)


def test_the_same_seed_gives_the_same_run() -> None:
    system = of(replicas=7, spread=1.0, mtbf=50.0, cpu=0.01)
    assert simulate(system, seed=3) == simulate(system, seed=3)
    assert simulate(system, seed=3) != simulate(system, seed=4)
