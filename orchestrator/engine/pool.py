"""The replicas at the endpoints of one model: resolved, checked, watched, closed."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any

import grpc

from lyncean.errors import printable
from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import CallError, Credentials
from lyncean.rpc.open_files import make_room
from lyncean.rpc.waits import SAID_AFTER, OverdueError, Wait
from orchestrator.engine.failures import dialled
from orchestrator.engine.replica import PROBE_TIMEOUT, PROBED, Health, Replica, backoff
from orchestrator.engine.resolve import Endpoint, Resolver, resolve
from orchestrator.errors import ConfigError, IncompleteError, UnreachableError

RESOLVE_SECONDS = 5.0
_LOOKED_UP_AT_ONCE = 32
_ANSWERS_A_LOOK = 8
"""Of a server that does not say who it is. A proxy that spreads calls over several spreads the looks likewise."""
_LOOK_SECONDS = 0.002
"""From an answer of a server that does not say who it is to the look that confirms it and those that follow soon.

For so long, and the look itself, its slot is held: were it free before, a run that is killed would ask twice as many
again as there are slots."""
_LOOK_AGAIN_SECONDS = 0.02
"""The same after a look that confirmed nothing."""
REACH_SECONDS = 15.0
"""Seconds that an endpoint may be out of reach at the start. One that is reached and still loads
its model is waited for as long as patience lasts."""

_ASKED_FOR = {
    model.CAPABILITY_GENERATE,
    model.CAPABILITY_LIKELIHOOD,
    model.CAPABILITY_IMAGE_INPUT,
    model.CAPABILITY_IMAGE_OUTPUT,
    model.CAPABILITY_MULTI_IMAGE,
    model.CAPABILITY_AUDIO_INPUT,
    model.CAPABILITY_VIDEO_INPUT,
}
"""Capabilities that no replica of a model lacks if another has them."""

Notify = Callable[[str], None]


class Pool:
    """Replicas of one model. All have the same name, weights, chat template and processor, or are not used.

    Args:
        endpoints: Their addresses; names are resolved again every few seconds.
        credentials: How to dial.
        concurrency: Calls in flight per replica; None takes each server's stated number.
        patience: Seconds without any usable replica after which the run stops.
        notify: Gets one line for people when a replica comes, goes or fails.
        resolver: Looks names up.

    Attributes:
        endpoint_model: The model that the servers' own endpoint names; "" until it is known.
    """

    def __init__(
        self,
        endpoints: Iterable[Endpoint],
        credentials: Credentials,
        *,
        concurrency: int | None = None,
        patience: float = 600.0,
        notify: Notify = lambda _: None,
        resolver: Resolver = resolve,
    ) -> None:
        self.endpoints = tuple(endpoints)
        self.replicas: dict[str, Replica] = {}
        self.reference: model.GetModelInfoResponse | None = None
        self.endpoint_model = ""
        self.changed: Callable[[], None] = lambda: None
        self._credentials = credentials
        self._concurrency = concurrency
        self._patience = patience
        self._notify = notify
        self._resolver = resolver
        self._tasks: set[asyncio.Task[None]] = set()
        self._looks: dict[Replica, list[asyncio.Task[None]]] = {}
        self._addresses: dict[Endpoint, Sequence[str]] = {}
        self._unknown: set[Endpoint] = set()
        self._looking_up = asyncio.Semaphore(_LOOKED_UP_AT_ONCE)
        self._probing: set[str] = set()
        self._usable_at = time.monotonic()
        self._unauthenticated: CallError | None = None
        self._last_resolve_error = ""
        self._defect: BaseException | None = None

    @property
    def info(self) -> model.GetModelInfoResponse:
        """The model's description, after `connect`."""
        assert self.reference is not None, "connect first"
        return self.reference

    @property
    def ready(self) -> list[Replica]:
        """The replicas that take calls."""
        return [replica for replica in self.replicas.values() if replica.health is Health.READY]

    @property
    def slots(self) -> int:
        """Calls that may be in flight over all ready replicas."""
        return sum(replica.most for replica in self.ready)

    @property
    def pause(self) -> str:
        """Reason and end of the wait for a replica; "" if one takes calls, or did a moment ago."""
        if ready := self.ready:
            return f"waiting for {ready[0].rest}" if all(replica.resting for replica in ready) else ""
        spent = time.monotonic() - self._usable_at
        left = max(0.0, self._patience - spent)
        reason = f"waiting for {self._names()} for {spent:.0f} s, {left:.0f} s more at most: {self._last_error()}"
        return reason if spent >= SAID_AFTER else ""

    async def connect(self) -> model.GetModelInfoResponse:
        """Waits until a replica answers, checks that all replicas that answer hold the same model, and starts watching.

        Raises:
            ConfigError: If replicas differ, or one refuses the credential.
            UnreachableError: If none answers in time.
        """
        started, notified = time.monotonic(), False
        attempt = 0
        while True:
            await self._resolve()
            waiting = [replica for replica in self.replicas.values() if replica.health is not Health.READY]
            await asyncio.gather(*(self._admit(replica, strict=True) for replica in waiting))
            if self.ready:
                break
            self.check()
            spent = time.monotonic() - started
            limit = self._patience if self._loading() else min(REACH_SECONDS, self._patience)
            if spent > limit:
                raise UnreachableError(self._silence(spent))
            if not notified and spent > 1:
                self._notify(f"waiting for {self._names()}, {limit:.0f} s at most: {self._last_error()}")
                notified = True
            attempt += 1
            await asyncio.sleep(min(backoff(attempt), limit))
        self._usable_at = time.monotonic()
        for replica in self.replicas.values():
            if replica.health is not Health.READY:
                self._notify(f"{replica.address} does not answer yet ({replica.last_error}); going on without it")
                self._probe(replica, notified=True)
        self._spawn(self._watch())
        return self.info

    def suspect(self, replica: Replica, error: CallError) -> None:
        """Takes a replica out of service until it answers a probe."""
        replica.failed(error)
        if replica.health is Health.READY:
            replica.health = Health.DOWN
            self._probe(replica)

    def check(self) -> None:
        """Checks that the run can go on.

        Raises:
            ConfigError: If a replica refuses the credential.
            IncompleteError: If no replica has been usable for longer than patience lasts.
        """
        if self._defect:
            raise self._defect
        if self._unauthenticated:
            raise ConfigError(f"{self._names()} refuses the credential: {self._unauthenticated}")
        if self.ready:
            self._usable_at = time.monotonic()
        elif self.reference and time.monotonic() - self._usable_at > self._patience:
            raise IncompleteError(self._silence(time.monotonic() - self._usable_at))

    def other_model(self, name: str) -> str:
        """Returns why an answer is not of this run's model; "" if it is, or if nothing is known.

        Args:
            name: The model that answered, as a server's own endpoint says; the first one is the run's.
        """
        self.endpoint_model = self.endpoint_model or name
        if name in ("", self.endpoint_model):
            return ""
        return (
            f"the endpoint answers as {printable(name)!r}, and this run's answers are of "
            f"{printable(self.endpoint_model)!r}: name one model of the endpoint, and give --run another folder"
        )

    async def close(self) -> None:
        """Stops watching and closes every channel."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(replica.close() for replica in self.replicas.values()))

    async def _resolve(self) -> None:
        hosts: dict[str, str | None] = {}
        resolved = await asyncio.gather(*map(self._look_up, self.endpoints))
        for endpoint, addresses in zip(self.endpoints, resolved, strict=True):
            host = None if endpoint.literal else endpoint.host
            hosts.update((address, host) for address in addresses)
        make_room(len(hosts))
        for address, host in hosts.items():
            if address not in self.replicas:
                self.replicas[address] = Replica(address, self._credentials, host)
        for address in [address for address in self.replicas if hosts and address not in hosts]:
            replica = self.replicas.pop(address)
            self._notify(f"{address} is gone from {self._names()}")
            replica.health = Health.GONE
            self._spawn(self._let_go(replica))

    async def _look_up(self, endpoint: Endpoint) -> Sequence[str]:
        """Returns the addresses of an endpoint; the last known ones while its name cannot be resolved."""
        try:
            async with self._looking_up:
                wait = Wait(f"the name {endpoint.host}", RESOLVE_SECONDS)
                wait.begin()
                self._addresses[endpoint] = await wait.bound(self._resolver(endpoint))
                self._unknown.discard(endpoint)
        except (OSError, OverdueError) as error:
            # A failing name service is not a reason to drop replicas that work.
            reason = error.strerror or error if isinstance(error, OSError) else error
            self._last_resolve_error = f"the name {endpoint.host} is not known: {reason}"
            if self.ready and endpoint not in self._unknown:
                self._notify(f"{self._last_resolve_error}; going on without new addresses of it")
                self._unknown.add(endpoint)
        return self._addresses.get(endpoint, ())

    async def _let_go(self, replica: Replica) -> None:
        while replica.in_flight:
            await asyncio.sleep(0.1)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PROBE_TIMEOUT):
                while replica.wanted.is_set():
                    await asyncio.sleep(0.1)
        await replica.close()
        for task in self._looks.pop(replica, ()):
            task.cancel()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(RESOLVE_SECONDS)
            if not all(endpoint.literal for endpoint in self.endpoints):
                await self._resolve()
            for replica in self.replicas.values():
                if replica.health is Health.REFUSED:
                    replica.health = Health.DOWN  # it may be the right one again
                if replica.health in PROBED:
                    self._probe(replica, notified=replica.health is Health.DOWN)

    def _probe(self, replica: Replica, *, notified: bool = False) -> None:
        if replica.address not in self._probing:
            self._probing.add(replica.address)
            self._spawn(self._revive(replica, notified))

    async def _revive(self, replica: Replica, notified: bool) -> None:
        attempt = 0
        try:
            while replica.health in PROBED:
                if attempt:
                    await asyncio.sleep(backoff(attempt))
                if replica.health not in PROBED:
                    break  # gone from the name meanwhile: its channel is closed
                await self._admit(replica, strict=False)
                attempt += 1
                if attempt == 3 and replica.health is not Health.READY and not notified:
                    notified = True
                    self._notify(f"{replica.address} does not answer ({replica.last_error}); its work goes elsewhere")
        finally:
            self._probing.discard(replica.address)
        if replica.free:
            if notified:
                self._notify(f"{replica.address} answers")
            self.changed()

    async def _admit(self, replica: Replica, *, strict: bool, looks: int = 1) -> None:
        look = replica.begin_look()
        try:
            info, *others = await asyncio.gather(*(replica.fetch_info() for _ in range(looks)))
        except CallError as error:
            replica.failed(error)
            if error.consequence.abort:
                self._unauthenticated = error
            elif error.code is grpc.StatusCode.UNIMPLEMENTED and strict:
                raise ConfigError(
                    f"{replica.address} does not speak lyncean.model.v1.ModelService: is that the model server?"
                ) from None
            return
        reference = self.reference or info
        if not info.model_name and strict:
            raise ConfigError(f"{replica.address}: its GetModelInfo has no model_name, and results need one: set it")
        differences = {_difference(reference, other) for other in (info, *others)}
        difference = max(differences) if info.model_name else "its GetModelInfo has no model_name"
        if not info.boot_id and (len(differences) > 1 or (not difference and replica.turned)):
            self._defect = ConfigError(
                f"{replica.address} answers as several models by turns ({difference or replica.turned}), and its "
                "answers do not say which gave them (boot_id): connect to each server by an address of its own, and "
                "give --run another folder"
            )
        if replica.health is Health.GONE:
            if not difference:
                replica.agree(look)
            return
        if difference:
            message = f"{replica.address} serves another model than the other replicas: {difference}"
            if strict:
                raise ConfigError(f"{message}; give one run replicas of one model only")
            if replica.last_error != difference:
                self._notify(f"{message}; it is not used")
            replica.refuse(difference, look)
            return
        self.reference = reference
        new = replica.health is Health.UNKNOWN
        replica.admit(info, self._concurrency, look)
        if new and not info.boot_id:
            both = (self._look_at_connections(replica), self._look_at_answers(replica))
            self._looks[replica] = [self._spawn(check) for check in both]

    async def _look_at_answers(self, replica: Replica) -> None:
        """Looks at a server whose responses do not identify it after its answers, the last ones included."""
        seconds = _LOOK_SECONDS
        while True:
            await replica.wanted.wait()
            await asyncio.sleep(seconds)
            seconds = _LOOK_AGAIN_SECONDS
            if replica.wanted.is_set() and replica.health not in PROBED:
                looks = -(-replica.unconfirmed // _ANSWERS_A_LOOK)
                await self._admit(replica, strict=False, looks=max(1, looks))
                if not replica.last_error:
                    seconds = _LOOK_SECONDS

    async def _look_at_connections(self, replica: Replica) -> None:
        """Looks at a server whose responses do not identify it on each new connection."""
        while True:
            try:
                await replica.connection_lost()
            except grpc.aio.UsageError:  # the channel is closed
                return
            if replica.health in (Health.READY, Health.REFUSED):
                replica.health = Health.DOWN
                self._probe(replica)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception():
            self._defect = task.exception()

    def _names(self) -> str:
        return ", ".join(str(endpoint) for endpoint in self.endpoints)

    def _last_error(self) -> str:
        errors = [replica.last_error for replica in self.replicas.values() if replica.last_error]
        return errors[-1] if errors else self._last_resolve_error or "no address"

    def _loading(self) -> bool:
        """True if a server is reached and says that it is not ready."""
        return any(replica.reached for replica in self.replicas.values())

    def _silence(self, seconds: float) -> str:
        return (
            f"no model server answers at {self._names()} ({self._last_error()}) after {seconds:.0f} s: "
            f"is model-server running there, {dialled(self._credentials)}? run the same command again to resume"
        )


def _difference(expected: model.GetModelInfoResponse, info: model.GetModelInfoResponse) -> str:
    for field in ("model_name", "model_revision", "chat_template_sha256", "processor_sha256"):
        here, there = getattr(expected, field), getattr(info, field)
        if here != there:
            return f"{field} is {there!r}, not {here!r}"
    missing = (set(expected.capabilities) & _ASKED_FOR) - set(info.capabilities)
    if missing:
        return f"it does not claim {', '.join(sorted(map(model.Capability.Name, missing)))}"
    return ""
