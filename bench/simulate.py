"""Simulates N replicas and M orchestrator shards as a discrete-event model: `python bench/simulate.py --help`.

Closed: a replica that has room holds a call as long as samples are left. A call occupies its
shard's processor (build, send, receive, log), then a slot of its replica, and its answer the
shard's scorer and disk. Processor, scorer and disk each serve one at a time in order of arrival; a
replica serves as many calls at once as it has slots. docs/scale.md lists the limits of the model
and its error against real runs (`bench/simulate_check.py`).
"""

from __future__ import annotations

import argparse
import dataclasses
import heapq
import json
import math
import random
from collections.abc import Callable
from dataclasses import dataclass

LOST, AWAKE = -1.0, -2.0

DISK_SECONDS = 1.0
"""Largest delay of writes: the run log reaches the disk about once a second."""


@dataclass(frozen=True, slots=True)
class System:
    """The simulated system. Times in seconds.

    Attributes:
        samples: Calls that have to be answered, each once.
        replicas: Model server replicas. Every shard has replicas of its own: in steady state that
            equals all shards sharing all of them.
        shards: Orchestrator processes, each with its part of the samples.
        slots: Calls that a replica answers at once.
        service: Mean time of one answer.
        spread: Coefficient of variation of log-normal answering times; 0 for all alike.
        law: "lognormal" or "exponential", which has no `spread`.
        latency: Time of a call in addition to `service`, without load on the orchestrator.
        cpu: The orchestrator's processor time per call.
        scorer_cpu: The scorer's processor time per answer.
        shards_per_scorer: Shards that share one scorer process.
        image_bytes: Bytes that a sample adds to the run folder.
        disk_rate: Bytes per second that a shard can write to its run folder.
        mtbf: Mean time between failures of one replica; infinity for none.
        restart: Time from a replica's failure until it answers again, model loading included.
        backlog: Answers that may wait for the scorer before a shard sends nothing more.
    """

    samples: int = 100_000
    replicas: int = 8
    shards: int = 1
    slots: int = 8
    service: float = 8.0
    spread: float = 0.0
    law: str = "lognormal"
    latency: float = 0.0
    cpu: float = 0.00075
    scorer_cpu: float = 0.000214
    shards_per_scorer: int = 1
    image_bytes: float = 250_000.0
    disk_rate: float = 500e6
    mtbf: float = math.inf
    restart: float = 180.0
    backlog: int = 1024


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a simulation.

    Attributes:
        seconds: From the first call to the last verdict.
        rate: Samples per second over the whole time.
        calls: Calls sent; more than the samples if calls were lost to failures and sent again.
        replica_use: Share of the slots' time that was used by answered calls.
        cpu_use: Busy share of the busiest orchestrator.
        scorer_use: Busy share of the busiest scorer.
        disk_use: Busy share of the busiest disk.
    """

    seconds: float
    rate: float
    calls: int
    replica_use: float
    cpu_use: float
    scorer_use: float
    disk_use: float


class Line:
    """A server that serves one at a time, in order of arrival."""

    __slots__ = ("busy", "free")

    def __init__(self) -> None:
        self.free = 0.0
        self.busy = 0.0

    def serve(self, arrival: float, seconds: float) -> float:
        """Returns when a piece of work that arrives now is done."""
        self.busy += seconds
        self.free = max(self.free, arrival) + seconds
        return self.free


def simulate(system: System, seed: int = 0) -> Outcome:
    """Runs every sample to its answer."""
    draw = random.Random(seed)
    duration = _durations(system, draw)
    cpus = [Line() for _ in range(system.shards)]
    disks = [Line() for _ in range(system.shards)]
    scorers = [Line() for _ in range(math.ceil(system.shards / system.shards_per_scorer))]
    left = [len(range(shard, system.samples, system.shards)) for shard in range(system.shards)]
    fails = [draw.expovariate(1 / system.mtbf) if system.mtbf < math.inf else math.inf for _ in range(system.replicas)]
    up = [0.0] * system.replicas
    resting: list[list[int]] = [[] for _ in range(system.shards)]
    allowed = system.backlog * system.scorer_cpu
    calls = 0
    useful = end = 0.0
    # Time at which a replica's slot is free again, the replica, and the time of the answer; else LOST or AWAKE.
    events: list[tuple[float, int, float]] = []

    def fill(now: float, replica: int) -> None:
        """Gives a free slot its next call."""
        nonlocal calls
        shard = replica % system.shards
        if fails[replica] <= now:
            up[replica] = fails[replica] + system.restart
            fails[replica] = up[replica] + draw.expovariate(1 / system.mtbf)
        if now < up[replica]:
            heapq.heappush(events, (up[replica], replica, AWAKE))
            return
        if not left[shard]:
            resting[shard].append(replica)
            return
        left[shard] -= 1
        calls += 1
        held_up = scorers[shard // system.shards_per_scorer].free - allowed
        sent = cpus[shard].serve(max(now, held_up), system.cpu)
        seconds = duration()
        ends = sent + system.latency + seconds
        if ends < fails[replica]:
            heapq.heappush(events, (ends, replica, seconds))
            return
        heapq.heappush(events, (max(sent, fails[replica]), replica, LOST))

    for slot in range(system.replicas * system.slots):
        fill(0.0, slot % system.replicas)
    while events:
        now, replica, took = heapq.heappop(events)
        shard = replica % system.shards
        if took >= 0:
            useful += took
            written = disks[shard].serve(now, system.image_bytes / system.disk_rate)
            end = max(end, written, scorers[shard // system.shards_per_scorer].serve(now, system.scorer_cpu))
            now = max(now, written - DISK_SECONDS)
        elif took == LOST:
            left[shard] += 1
            if resting[shard]:
                fill(now, resting[shard].pop())
        fill(now, replica)
    return Outcome(
        seconds=end,
        rate=system.samples / end,
        calls=calls,
        replica_use=useful / (end * system.replicas * system.slots),
        cpu_use=max(line.busy for line in cpus) / end,
        scorer_use=max(line.busy for line in scorers) / end,
        disk_use=max(line.busy for line in disks) / end,
    )


def _durations(system: System, draw: random.Random) -> Callable[[], float]:
    if system.law == "exponential":
        return lambda: draw.expovariate(1 / system.service)
    if not system.spread:
        return lambda: system.service
    sigma = math.sqrt(math.log1p(system.spread**2))
    mu = math.log(system.service) - sigma * sigma / 2
    return lambda: draw.lognormvariate(mu, sigma)


def main() -> None:
    """Runs the simulation of the flags and prints one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    for field in dataclasses.fields(System):
        parser.add_argument(f"--{field.name.replace('_', '-')}", type=type(field.default), default=field.default)
    parser.add_argument("--seed", type=int, default=0)
    flags = vars(parser.parse_args())
    seed = flags.pop("seed")
    print(json.dumps(dataclasses.asdict(simulate(System(**flags), seed))))


if __name__ == "__main__":
    main()
