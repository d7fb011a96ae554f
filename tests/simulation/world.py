"""One seed, one world: a run that is disturbed in every way the seed says, resumed to its end, and held to account.

The command's own code runs (`orchestrator.run.evaluate`: pool, dispatcher, engine, scorer's client, run folder,
results) on an event loop whose clock is a number, over channels to servers written from the .proto and to the
real scorer. The seed owns clock, network, disk, servers and the instant at which the process dies.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

from PIL import Image
from rich.console import Console

from lyncean.errors import UserError
from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import waits as waits_module
from lyncean.rpc.errors import CONSEQUENCES
from orchestrator.benchmarks.base import Benchmark, NoSettings
from orchestrator.data.rows import Row, RowSource
from orchestrator.engine import (
    ledger as ledger_module,
    replica as replica_module,
    resolve as resolve_module,
    scoring as scoring_module,
)
from orchestrator.run import evaluate as evaluate_module, plan as plan_module
from orchestrator.run.plan import Plan, Task, code_hash
from orchestrator.run.request import RunRequest
from orchestrator.run_folder import appender as appender_module, lock as lock_module, manifest as manifest_module
from orchestrator.run_folder.lines import DamagedLine, loads
from orchestrator.run_folder.remote import grace, writing
from orchestrator.samples import Call, Sample, Scoring, Turn, Variant, image_part, metric, text_part, user
from simulation.bucket import URL, Bucket
from simulation.court import Court
from simulation.loop import Crash, Loop, deterministic, replaced, run
from simulation.network import BESIDE, ModelServer, Network, S, Weather, asked_for

ADDRESSES = ("10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1")
LOGS = ("responses.jsonl", "verdicts.jsonl")
_SESSIONS = 6
_QUIET_SESSIONS = 12
"""More than lines that can be damaged: each is named, deleted and asked again by a session of its own."""
_LONGEST_SILENCE = 400.0
"""Seconds within which a command ends once a peer keeps silent for good: three times its patience, for what it waits
for one behind the other, and a call's timeout."""
_SYNC_SECONDS = 1.0
"""From an answer to its fsync, beside what the disk takes: twice a second, after the looks at who gave it."""
_OWN = (S.OUT_OF_RANGE, S.PERMISSION_DENIED, S.INTERNAL, S.UNKNOWN, S.DEADLINE_EXCEEDED)
_GRACE = 36.0
"""The same from SIGTERM on: what calls in flight have (`orchestrator.engine.run.STOP_SECONDS`), and the logs' end."""
_LONGEST = 20_000.0
"""Seconds of the world's clock within which each command ends."""
_REMOTE = 0.15
"""Share of the worlds whose run folder is in an object store."""
_HASHES: dict[tuple[Any, ...], str] = {}


def _no_thread(_work: Callable[[], Any], name: str) -> NoReturn:
    """Stands for the start of a thread: one would wait by the real clock, and the seed would own it no more."""
    raise Violation(f"a world starts a real thread for {name}")


def _code_hash(benchmark: Benchmark, *, synthetic: bool, more: Sequence[str] = ()) -> str:
    """Hashes a benchmark's code once: in this process it stays as it is, and to read it takes a sixth of a world."""
    functions = (benchmark.samples, benchmark.rows, benchmark.metrics, benchmark.synthetic)
    key = (*(getattr(each, "__module__", "") for each in functions), synthetic, *sorted(more))
    if key not in _HASHES:
        _HASHES[key] = code_hash(benchmark, synthetic=synthetic, more=more)
    return _HASHES[key]


class Violation(AssertionError):
    """A promise that the run did not keep; names the seed."""


def play(seed: int, trace: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
    """Plays one world and returns its results.

    Raises:
        Violation: If an invariant does not hold.
    """
    with tempfile.TemporaryDirectory(prefix="world-", dir=_shared_memory()) as folder:
        world = World(seed, Path(folder) / "run", trace)
        try:
            return world.play()
        except Violation as error:
            raise Violation(f"seed {seed}: {error}") from error
        except Exception as error:
            raise Violation(f"seed {seed}: {type(error).__name__}: {error}") from error


class Disk:
    """`os` as the logs see it: full at times, dead after a crash; knows what would survive a power cut."""

    def __init__(self) -> None:
        self.full = self.dead = self.open_log = self.stuck = self.unsound = self.wrong = False
        self.tear = self.flip = 0
        self.seconds = self.moved_at = 0.0
        self.safe: dict[int, int] = {}
        self.clock: Callable[[], float] = float

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def open(self, path: Any, *args: Any) -> int:
        self.open_log = True
        return os.open(path, *args)

    def write(self, fd: int, data: Any) -> int:
        if self.dead:
            return len(data)
        if self.full:
            self.unsound = True
            raise OSError(28, os.strerror(28))
        if self.tear:
            os.write(fd, data[: min(self.tear, len(data) - 1)])
            self.unsound = True
            self.tear, self.stuck = 0, True
            raise OSError(5, os.strerror(5))
        self.moved_at = self.clock()
        if self.flip and data:
            # Not the last byte: a log without its last newline ends in a torn line, which the next command finds.
            data, self.flip = _flipped(bytearray(data[:-1]), self.flip) + data[-1:], 0
            self.unsound = True
        return os.write(fd, data)

    def ftruncate(self, fd: int, size: int) -> None:
        if self.stuck:
            self.stuck = False
            raise OSError(5, os.strerror(5))
        if not self.dead:
            os.ftruncate(fd, size)

    def fsync(self, fd: int) -> None:
        if not self.dead:
            state = os.fstat(fd)
            self.safe[state.st_ino] = state.st_size


def _flipped(data: bytearray, bit: int) -> bytearray:
    """Returns data with one bit another; bits are counted around."""
    data[bit // 8 % len(data)] ^= 1 << bit % 8
    return data


class World:
    """See `play`."""

    def __init__(self, seed: int, path: Path, trace: Callable[[str], None]) -> None:
        self.seed, self.path, self.trace = seed, path, trace
        self.draw = random.Random(seed)
        self.more = random.Random(f"{seed} more")
        """Draws of faults that came later, so that a seed stays the world that it was."""
        self.bits = random.Random(f"{seed} bits")
        """The same for wrong bits."""
        self.method = self.draw.choice(["generate", "generate", "likelihood"])
        late = random.Random(f"{seed} judge")
        judged = self.method == "generate" and late.random() < 0.25
        self.court = Court(late, path.with_name("judge.sqlite")) if judged else None
        self.rows = self.draw.choice([6, 12, 30])
        self.disk = Disk()
        self.late = random.Random(f"{seed} bucket")
        remote = self.late.random() < _REMOTE
        self.bucket = Bucket(self.late, path, lambda: self.disk.dead) if remote else None
        self.network = Network(self.draw)
        self.addresses = ADDRESSES[: self.draw.randint(1, 3)]
        self.speaks = self.draw.random() < 0.7  # whether servers say in each answer who they are
        self.batch = self.draw.random() < 0.4
        self.repeats = 1 if self.method == "likelihood" else self.draw.choice([1, 1, 3])
        self.samples = self.draw.choice([0, 2, 4])
        self.claimed = self.draw.choice([0, 25_000, 1_000_000])
        self.held = self.draw.choice([0, 12_000, self.claimed])  # less than claimed: other clients' files are there
        self.deleted_at = self.crashed_at = 0.0
        self.powerless = self.balanced = False
        self.seconds: list[asyncio.Task[None]] = []
        self.asked = self.orphans = self.verdicts_before = 0
        self.held_before: set[str] = set()

    def play(self) -> dict[str, Any]:
        complete = False
        for number in range(self.draw.randint(1, _SESSIONS)):
            self._serve(self._checkpoint())
            complete = self._session(f"session {number}", disturbed=True)
            if complete:
                self._account()
            elif self.draw.random() < 0.5:
                self._rot()
            if self.bucket and self.late.random() < 0.2:
                self.trace("the next command runs on another machine")
                self.bucket.move()
        self.network.weather = Weather()
        for number in range(_QUIET_SESSIONS):
            self._serve(self._checkpoint())
            complete = self._session(f"quiet session {number}", disturbed=False)
            if complete:
                break
        else:
            raise Violation("the run does not end in a world where nothing goes wrong any more")
        self._session("again", disturbed=False)
        if self.asked:
            raise Violation(f"a run that is complete asks {self.asked} more")
        return self._account()

    def _checkpoint(self) -> int:
        """Returns the checkpoint that the manifest names, 1 before there is one."""
        there = self.bucket.objects.get("manifest.json", (b"", 0))[0] if self.bucket else b""
        try:
            file = self.path / "manifest.json"
            manifest = json.loads(file.read_bytes() if file.exists() or not there else there)
        except (OSError, ValueError):
            return 1
        return int(manifest["identity"]["model"]["model_revision"].removeprefix("r"))

    def _server(self, checkpoint: int, *, likelihood: bool = True) -> ModelServer:
        boot = f"{self.draw.getrandbits(32):x}" if self.speaks else ""
        # A replica of its own kind: one takes samples and hashes, another does not.
        samples, claimed = (value if self.draw.random() < 0.8 else 0 for value in (self.samples, self.claimed))
        held = min(self.held, claimed)
        return ModelServer(
            checkpoint, boot, likelihood=likelihood, batch=self.batch, samples=samples, claimed=claimed, held=held
        )

    def _serve(self, checkpoint: int) -> None:
        for address in self.addresses:
            self.network.servers[address] = self._server(checkpoint)

    # One command

    def _session(self, name: str, *, disturbed: bool) -> bool:
        """Runs the command once; returns whether it ended with 0."""
        self.network.begin()
        self.disk.dead, self.disk.open_log, self.deleted_at = False, False, 0.0
        self.disk.full, self.disk.seconds, self.disk.tear, self.disk.unsound = False, 0.0, 0, False
        self.disk.flip, self.disk.wrong = 0, False
        self.silent_at = self.told_at = self.crashed_at = self.disk.moved_at = 0.0
        self.powerless = False
        crashed, ended = False, "exit 0"
        self._begin()
        if self.bucket:
            self.verdicts_before = 1 << 60  # what a fetch brings that did not end is fetched again
        with deterministic(self.draw.getrandbits(40)) as loop, self._patched(), self._judged(), self._remote(loop):
            self.disk.clock = loop.time
            loop.call_later(_LONGEST, self._late)
            if disturbed:
                self._disturb(loop)
            try:
                run(loop, self._evaluate())
            except UserError as error:
                ended = f"{type(error).__name__}: {error}"
            except Crash:
                crashed, ended = True, "killed"
            except asyncio.CancelledError:
                ended = "cancelled by SIGTERM"
            self._check_seconds(name)
            waited = self.bucket.waited if self.bucket else 0.0
            told = ended.startswith(("cancelled", "StoppedError"))
            silent_at = self.silent_at and max(self.silent_at, self.disk.moved_at)
            for since, most, what in (
                # Each answer and verdict that still comes begins a new patience.
                (silent_at, _LONGEST_SILENCE + waited, "a peer or the disk kept silent"),
                (self.told_at, _GRACE + (min(waited, grace.SECONDS) if told else waited), "SIGTERM"),
            ):
                if since and loop.time() > since + most:
                    raise Violation(f"{name}: went on for {loop.time() - since:.0f} s after {what}")
            if self.deleted_at:
                late = [at for at in self.network.calls if at > self.deleted_at + 1.5 + 2 * self.disk.seconds]
                if late:
                    raise Violation(f"{name}: {len(late)} calls after the run folder was gone for 1.5 s")
                if ended == "exit 0":
                    raise Violation(f"{name}: ended with 0 though its run folder was deleted under it")
            if self.court and self.court.violations:
                raise Violation(f"{name}: {self.court.violations[0]}")
            if not self.powerless:
                self._orphans()
            if self.orphans:
                raise Violation(f"{name}: {self.orphans} verdicts are in the log and their answers are not")
            if not self.disk.unsound:
                self._count(name, self.held_before, set(self.network.answered()))
            if self.bucket and (wrong := self.bucket.check(complete=ended == "exit 0")):
                raise Violation(f"{name}: {ended}: in the bucket {wrong}")
            self.asked = len(self.network.calls)
            self.network.calls.clear()
            self.trace(f"{name}: {ended} after {loop.time():.2f} s")
        self._heal(ended)
        return ended == "exit 0" and not crashed

    def _late(self) -> None:
        raise Crash("the command does not end")

    async def _evaluate(self) -> None:
        names = ",".join(address.replace("10.0.0.", "model-") for address in self.addresses)
        plan = plan_of(self.method, self.rows, self.repeats, names, judged=self.court is not None)
        if not self.bucket:
            await evaluate_module.evaluate(plan, Console(quiet=True), run=self.path)
            return
        with writing(URL) as (folder, guards):
            self._begin()
            await evaluate_module.evaluate(plan, Console(quiet=True), run=folder, beside=guards)

    def _begin(self) -> None:
        """Notes what the run folder holds before the command adds to it."""
        self.held_before = self._answered()
        verdicts = self.path / LOGS[1]
        self.verdicts_before = verdicts.stat().st_size if verdicts.exists() else 0

    @contextmanager
    def _remote(self, loop: Loop) -> Iterator[None]:
        if self.bucket is None:
            yield
            return
        self.bucket.calm()
        with self.bucket.used(loop):
            yield
        self.bucket.ended()

    def _patched(self) -> AbstractContextManager[None]:
        return replaced(
            (replica_module, "dial", self.network.dial),
            (scoring_module, "dial", self.network.dial),
            (appender_module, "os", self.disk),
            (lock_module, "os", self.disk),
            (lock_module, "time", SimpleNamespace(sleep=lambda _seconds: None)),
            (ledger_module, "in_thread", self._on_disk),
            (resolve_module, "in_thread", self.network.look_up),
            (evaluate_module, "keep_freed_memory", lambda: None),
            (evaluate_module, "_few_collections", nullcontext),
            (manifest_module, "_version", lambda _: "0"),
            (plan_module, "code_hash", _code_hash),
            (waits_module, "started", _no_thread),
        )

    @contextmanager
    def _judged(self) -> Iterator[None]:
        if self.court is None:
            yield
            return
        self.court.calm()
        with self.court.sitting() as self.network.judging:
            yield
        self.network.judging = None

    async def _on_disk(self, work: Callable[[], Any], _name: str) -> Any:
        """Does work of the disk in place of a thread: as slow as the disk is."""
        await asyncio.sleep(self.disk.seconds)
        return work()

    # What goes wrong

    def _disturb(self, loop: Loop) -> None:
        draw, network = self.draw, self.network
        network.weather = Weather(
            mutated=draw.choice([0.0, 0.0, 0.1, 0.5]),
            foreign=draw.choice([0.0, 0.0, 0.05]),
            passing=draw.choice([0.0, 0.1, 0.5]),
            lost=draw.choice([0.0, 0.1]),
            partition=draw.choice([0.0, 0.0, 0.03]),
            forgotten=draw.choice([0.0, 0.05, 1.0]),
            scorer_breaks=draw.choice([0.0, 0.0, 0.3]),
            scorer_mutated=draw.choice([0.0, 0.0, 0.3]),
            scorer_slow=draw.choice([0.0, 0.0, 0.1]),
        )
        events = [self._kill, self._retarget, self._restart_lesser, self._scorer_away, self._disk_full, self._delete]
        events += [self._swap, self._scorer_silent, self._disk_slow, self._disk_silent, self._tear, self._names]
        events.append(self._sigterm)
        for _ in range(draw.randint(0, 3)):
            loop.call_later(draw.uniform(0.0, 12.0), self._befall, draw.choice(events), loop)
        for event in (self._balance, self._second_writer):
            if self.more.random() < 0.08:
                loop.call_later(self.more.uniform(0.0, 6.0), self._befall, event, loop)
        if self.bits.random() < 0.08:
            loop.call_later(self.bits.uniform(0.0, 6.0), self._befall, self._flip, loop)
        if draw.random() < 0.4:
            loop.call_later(draw.uniform(0.0, 12.0), self._befall, self._crash, loop)
        if self.bucket:
            self.bucket.disturb(loop, self.trace)
        if self.court:
            self.court.disturb(loop, self.trace, lambda: self._keeps_silent(loop))

    def _befall(self, event: Callable[[Loop], None], loop: Loop) -> None:
        """Has something go wrong if the command runs still.

        The last uploads block the event loop and move its clock: what was due meanwhile comes once the command has
        ended. A folder that is deleted then was whole as the command said 0.
        """
        if loop.main and not loop.main.done():
            event(loop)

    def _keeps_silent(self, loop: Loop) -> None:
        self.silent_at = self.silent_at or loop.time()

    def _kill(self, loop: Loop) -> None:
        address = self.draw.choice(self.addresses)
        self.trace(f"{loop.time():.2f}: {address} dies")
        self.network.rotate(address, None)
        back = self._server(self._checkpoint())
        loop.call_later(self.draw.uniform(0.1, 30.0), self.network.rotate, address, back)

    def _retarget(self, loop: Loop) -> None:
        address = self.draw.choice(self.addresses)
        self.trace(f"{loop.time():.2f}: {address} is another checkpoint")
        self.network.rotate(address, self._server(self._checkpoint() + 1))
        if self.draw.random() < 0.7:
            back = self._server(self._checkpoint())
            loop.call_later(self.draw.uniform(0.1, 10.0), self.network.rotate, address, back)

    def _swap(self, loop: Loop) -> None:
        address = self.draw.choice(self.addresses)
        self.trace(f"{loop.time():.2f}: {address} is another checkpoint, on the same connection")
        self.network.swap(address, self._server(self._checkpoint() + 1))
        if self.draw.random() < 0.5:  # the connection ends, and the next one is the right checkpoint's
            back = self._server(self._checkpoint())
            loop.call_later(self.draw.uniform(0.05, 2.0), self.network.rotate, address, back)

    def _restart_lesser(self, loop: Loop) -> None:
        address = self.draw.choice(self.addresses)
        self.trace(f"{loop.time():.2f}: {address} is back without Likelihood")
        self.network.rotate(address, self._server(self._checkpoint(), likelihood=False))

    def _scorer_away(self, loop: Loop) -> None:
        self.trace(f"{loop.time():.2f}: the scorer is away")
        self.network.scorer_up = False
        loop.call_later(self.draw.uniform(0.1, 60.0), setattr, self.network, "scorer_up", True)

    def _scorer_silent(self, loop: Loop) -> None:
        """It keeps its connections and says nothing: for a while, or for good."""
        self.trace(f"{loop.time():.2f}: the scorer is silent")
        self.network.scorer_silent = True
        if self.draw.random() < 0.5:
            loop.call_later(self.draw.uniform(0.1, 100.0), setattr, self.network, "scorer_silent", False)
        else:
            self.silent_at = self.silent_at or loop.time()

    def _disk_slow(self, loop: Loop) -> None:
        self.disk.seconds = max(self.disk.seconds, self.draw.uniform(0.05, 20.0))
        self.trace(f"{loop.time():.2f}: the disk takes {self.disk.seconds:.2f} s")

    def _disk_silent(self, loop: Loop) -> None:
        self.trace(f"{loop.time():.2f}: the disk is silent")
        self.disk.seconds = 1e6
        self.silent_at = self.silent_at or loop.time()

    def _tear(self, loop: Loop) -> None:
        """One write of the logs fails in its middle and cannot be taken back."""
        self.trace(f"{loop.time():.2f}: a write will fail")
        self.disk.tear = self.draw.randint(1, 60)

    def _flip(self, loop: Loop) -> None:
        """One write of the logs stores a wrong bit, and does not fail."""
        self.trace(f"{loop.time():.2f}: a write will store a wrong bit")
        self.disk.flip, self.disk.wrong = self.bits.getrandbits(30) + 1, True
        if self.bucket:
            self.bucket.deleted = True

    def _names(self, loop: Loop) -> None:
        host = f"model-{self.draw.randint(1, len(self.addresses))}"
        how = self.network.unknown[host] = self.draw.choice(["wrong", "silent"])
        self.trace(f"{loop.time():.2f}: the name {host} is {how}")
        loop.call_later(self.draw.uniform(0.1, 60.0), self.network.unknown.pop, host, "")

    def _sigterm(self, loop: Loop) -> None:
        self.trace(f"{loop.time():.2f}: SIGTERM")
        self.told_at = self.told_at or loop.time()
        loop.terminate()

    def _balance(self, loop: Loop) -> None:
        address = self.more.choice(self.addresses)
        self.trace(f"{loop.time():.2f}: a proxy spreads the calls of {address} over two checkpoints")
        self.network.balance(address, self._server(self._checkpoint() + 1))
        self.balanced |= not self.speaks
        loop.call_later(self.more.uniform(0.1, 20.0), self.network.balance, address, None)

    def _second_writer(self, loop: Loop) -> None:
        """The same command once more at the same time: it ends at once, and asks nothing.

        Where the folder is deleted before it looks there, it begins anew, and the first has lost its folder to it.
        """

        async def once_more() -> None:
            BESIDE.set(True)
            await self._evaluate()

        if self.disk.open_log and not self.deleted_at:
            self.trace(f"{loop.time():.2f}: the same command once more")
            self.seconds.append(loop.create_task(once_more()))

    def _disk_full(self, loop: Loop) -> None:
        self.trace(f"{loop.time():.2f}: the disk is full")
        self.disk.full = True

    def _delete(self, loop: Loop) -> None:
        if (self.path / "manifest.json").exists():
            self.trace(f"{loop.time():.2f}: the run folder is deleted")
            shutil.rmtree(self.path)
            self.disk.unsound = True
            self.verdicts_before = 0
            if self.disk.open_log:
                self.deleted_at = loop.time()

    def _crash(self, loop: Loop) -> None:
        """The process dies, at times with the power: what was not synced is torn off somewhere."""
        self.trace(f"{loop.time():.2f}: the process dies")
        self.disk.dead, self.crashed_at = True, loop.time()
        if self.draw.random() < 0.5:
            self.powerless = True
            for log in LOGS:
                file = self.path / log
                if file.exists():
                    state = file.stat()
                    keep = self.draw.randint(min(self.disk.safe.get(state.st_ino, 0), state.st_size), state.st_size)
                    os.truncate(file, keep)
            self._orphans()
        raise Crash

    def _orphans(self) -> None:
        """Notes verdicts of this session that are there without the answer that they name."""
        if self.disk.wrong or not all((self.path / log).exists() for log in LOGS):
            return  # of an answer with a wrong bit the verdict stands alone
        answers = {
            line.rpartition(b'"crc32":"')[2][:8] for line in (self.path / LOGS[0]).read_bytes().split(b"\n")[:-1]
        }
        log = (self.path / LOGS[1]).read_bytes()
        # A last line without its end is removed at the start: new lines then begin before the old end.
        start = log.rfind(b"\n", 0, self.verdicts_before) + 1
        verdicts = log[start:].split(b"\n")[:-1]
        named = {line.rpartition(b'"answer":"')[2][:8] for line in verdicts}
        self.orphans += len(named - answers)

    def _rot(self) -> None:
        """One bit of a log is another one."""
        file = self.path / self.draw.choice(LOGS)
        if not file.exists() or not (data := bytearray(file.read_bytes())):
            return
        at = self.draw.randrange(len(data))
        if self.bucket and at == len(data) - 1:
            # Without its newline the last line is torn: it is asked for again, and the first verdict stays behind.
            self.bucket.deleted = True
        file.write_bytes(_flipped(data, 8 * at + self.draw.randrange(8)))
        self.trace(f"bit rot in {file.name} at byte {at:,}")

    def _heal(self, ended: str) -> None:
        """Does what the last error said is to be done."""
        self.disk.full = False
        name, _, rest = ended.partition(", line ")
        file = self.path / name.rpartition("/")[2]
        if "delete the line" in ended and file.exists():
            number = int(rest.partition(":")[0])
            lines = file.read_bytes().split(b"\n")
            del lines[number - 1]
            if self.bucket:
                self.bucket.deleted = True
            file.write_bytes(b"\n".join(lines))

    # What must be true of each command

    def _check_seconds(self, name: str) -> None:
        """Commands that ran at the same time in the same folder have ended, since it was in use."""
        seconds, self.seconds = self.seconds, []
        for task in seconds:
            error = None if task.cancelled() or not task.done() else task.exception()
            if task.done() and not task.cancelled() and not isinstance(error, UserError | Crash):
                raise Violation(f"{name}: the same command at the same time ended with {error!r}")

    def _answered(self) -> set[str]:
        """Returns what the log holds a whole answer to."""
        file, found = self.path / LOGS[0], dict[str, str]()
        for text in file.read_bytes().split(b"\n")[:-1] if file.exists() else ():
            try:
                line = loads(text)
            except DamagedLine:
                continue
            found.pop(line["key"], None)  # the last line of a key counts
            if "response" in line:
                found[line["key"]] = _prompt_of(line["request"])
        return set(found.values())

    def _count(self, name: str, held: set[str], delivered: set[str]) -> None:
        """Bounds how often a question is asked, by what went wrong.

        Args:
            name: The command.
            held: What the log held before it.
            delivered: What was answered.
        """
        network, slots = self.network, 10 if self.batch else 5  # of each address: `ModelServer.info`
        outputs = self.repeats if self.samples else 1  # of a slot
        if twice := delivered & held:
            raise Violation(f"{name}: {len(twice)} questions were asked whose answers the log held: {min(twice)}")
        for address, again in network.repeated().items():
            if again > (faults := network.shaken[address]) * slots * outputs:
                raise Violation(f"{name}: {again} answers of {address} were asked for again, after {faults} faults")
        together = self.batch + bool(self.samples)  # what fails together is asked once more alone
        for (prompt, code), count in network.failed.items():
            retries = CONSEQUENCES[code].retries
            if retries is not None and code in _OWN and count > 1 + retries + together:
                raise Violation(f"{name}: {prompt} ended {count} times with {code.name}")
        if not self.crashed_at or network.shaken:
            return
        lost = delivered - self._answered()
        if self.powerless:
            safe = self.crashed_at - _SYNC_SECONDS - 3 * self.disk.seconds
            lost &= {prompt for at, prompt, _ in network.delivered if at < safe}
            if lost:
                raise Violation(f"{name}: a power cut lost {len(lost)} answers from before {safe:.2f} s")
        elif len(lost) > (most := len(self.addresses) * slots * outputs):
            raise Violation(f"{name}: a crash lost {len(lost)} answers, of {most} in the slots")

    # What must be true in the end

    def _account(self) -> dict[str, Any]:
        results: dict[str, Any] = json.loads((self.path / "results.json").read_bytes())
        checkpoint = self._checkpoint()
        verdicts = {line["key"]: line for line in self._lines("verdicts.jsonl")}
        responses = {line["key"]: line for line in self._lines("responses.jsonl")}
        planned = sum(task["counts"]["planned"] for task in results["tasks"].values())
        if len(verdicts) != planned:
            raise Violation(f"{planned} planned, {len(verdicts)} settled")
        for key, line in verdicts.items():
            if line["answer"] != responses[key]["crc32"]:
                raise Violation(f"{key}: its verdict is of another answer")
        for key, line in responses.items():
            if "response" not in line or "outcome" in line:
                continue
            tag = line["response"].get("usage", {}).get("image_tokens")
            if tag != checkpoint and self.balanced:
                continue  # nobody can know: the results say so
            if tag != checkpoint:
                raise Violation(f"{key} was answered by checkpoint {tag}, the manifest names {checkpoint}")
            prompt = _prompt_of(line["request"])
            if (line["replica"], prompt, line.get("boot_id", ""), checkpoint) not in self.network.history:
                raise Violation(f"{key}: {line['replica']} never sent this answer")
        if any(" bad " in prompt for _, prompt, *_ in self.network.history):
            raise Violation("an image that cannot be decoded was sent")
        if self.speaks == ("doubt" in results["model"]):
            raise Violation("results do not say whether each answer said who gave it")
        if self.balanced:
            return {"results": results, "outcomes": {}}
        expected = undisturbed(self.method, self.rows, self.repeats, checkpoint, judged=self.court is not None)
        outcomes = {key: (line["outcome"], line.get("score")) for key, line in verdicts.items()}
        unjudged = {key for key, (outcome, _) in outcomes.items() if outcome == "unjudged"}
        if unjudged and not (self.court and self.court.failed):
            raise Violation(f"{len(unjudged)} items are unjudged, and no judge failed")
        outcomes |= {key: expected["outcomes"][key] for key in unjudged}
        if outcomes != expected["outcomes"]:
            wrong = {
                k: (v, expected["outcomes"].get(k)) for k, v in outcomes.items() if expected["outcomes"].get(k) != v
            }
            raise Violation(f"outcomes differ from those of an undisturbed run: {wrong}")
        if not unjudged and results["tasks"] != expected["results"]["tasks"]:
            raise Violation("results differ from those of an undisturbed run")
        return {"results": results, "outcomes": outcomes}

    def _lines(self, name: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.path / name).read_bytes().splitlines()]


def _prompt_of(request: Mapping[str, Any]) -> str:
    return asked_for(request["messages"][-1]["parts"][0]["text"], int(request.get("config", {}).get("seed", 0)))


@cache
def undisturbed(method: str, rows: int, repeats: int, checkpoint: int, *, judged: bool = False) -> dict[str, Any]:
    """Returns outcomes and results of a run in which nothing happens and every output is asked for with all bytes."""
    with tempfile.TemporaryDirectory(prefix="calm-", dir=_shared_memory()) as folder:
        world = World(0, Path(folder) / "run", lambda _: None)
        world.method, world.rows, world.repeats = method, rows, repeats
        world.samples = world.claimed = 0
        world.bucket = None
        world.court = Court(random.Random(0), Path(folder) / "judge.sqlite") if judged else None
        world._serve(checkpoint)
        if not world._session("undisturbed", disturbed=False):
            raise Violation("an undisturbed run does not end with 0")
        results = json.loads((world.path / "results.json").read_bytes())
        outcomes = {line["key"]: (line["outcome"], line.get("score")) for line in world._lines("verdicts.jsonl")}
        return {"results": results, "outcomes": outcomes}


_CUT_IMAGE = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x08\0\0\0\x08\x08\0\0\0\0"


def _picture(seed: int) -> bytes:
    buffer = io.BytesIO()
    Image.frombytes("L", (96, 96), random.Random(seed).randbytes(96 * 96)).save(buffer, "PNG")
    return buffer.getvalue()


_PICTURES = [_picture(seed) for seed in range(3)]
"""Of more than 9 KB each; several rows show one."""
_KINDS = ("plain", "plain", "plain", "two", "bad", "long", "denied", "mute")


def _samples(row: Row, variant: Variant) -> Iterator[Sample]:
    number, kind = row["id"], row["kind"]
    likelihood = variant.method == "likelihood"
    rule = "likelihood" if likelihood else "judge_answer" if variant.parity else "contains_word"
    params = {"question": f"question {number // 2}"} if variant.parity else {}
    scoring = Scoring(rule, ("A",), ("A", "B"), params, {"kind": kind})

    def ask(answers: Sequence[Any]) -> Call:
        parts = [text_part(f"{number} {kind} {len(answers)}")]
        if kind == "bad":
            parts.append(image_part(_CUT_IMAGE))
        elif number % 4:
            parts.append(image_part(_PICTURES[number // 2 % 3]))
        if likelihood:
            return Call((user(*parts),), continuations=("A", "B"))
        config = model.GenerationConfig(max_output_tokens=16)
        if variant.repeats > 1:
            config.temperature, config.seed = 1.0, 100 * number + variant.repeat
        return Call((user(*parts),), config=config)

    turns = [Turn(ask, scoring=scoring)]
    if kind == "two" and not likelihood:
        turns = [Turn(ask, "first", scoring), Turn(ask, "second", scoring)]
    yield Sample(variant.key(number), tuple(turns))


WORLD = Benchmark(
    name="world",
    tasks={"world": "a row of the world"},
    data="none",
    rows=lambda task, data: RowSource("world", "0" * 64, 0, lambda: iter(())),
    samples=_samples,
    metrics=lambda variant: [metric("accuracy", "accuracy")],
    synthetic=lambda task, seed: iter(()),
    needs=lambda variant: (),
)


@cache
def plan_of(
    method: str, rows: int, repeats: int, endpoints: str, scorer: str = "10.0.0.9:1", *, judged: bool = False
) -> Plan:
    """Returns the plan of a run over so many rows of every kind; `judged` ones have a judge for their rule."""

    def iterate() -> Iterator[Row]:
        kinds = ("plain",) if method == "likelihood" else _KINDS
        return (Row({"id": n, "kind": kinds[n % len(kinds)]}, lambda _: None) for n in range(rows))

    request = RunRequest(
        "world",
        endpoint=endpoints,
        scorer=scorer,
        method=method,
        repeats=repeats,
        timeout=30.0,
        patience=120.0,
        progress=False,
    )
    source = RowSource("world", "0" * 64, rows, iterate)
    variant = Variant("world", method=method, repeats=repeats, parity=judged, settings=NoSettings())
    return Plan((Task(WORLD, variant, source),), request)


@cache
def _shared_memory() -> str | None:
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
