"""Prometheus metrics of the service."""

from __future__ import annotations

import asyncio
import time
from collections import Counter as Tally
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from lyncean.rpc import StatusError

_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class NoTelemetry:
    """Counts nothing, for a server whose metrics have no reader."""

    def stream(self) -> AbstractContextManager[object]:
        """Counts one stream, open and by its final status."""
        return nullcontext()

    def message(self) -> AbstractContextManager[Tally[tuple[str, str]]]:
        """Times one message, and adds the tally by rule and outcome at its end."""
        return nullcontext(Tally())

    def waiting(self) -> AbstractContextManager[object]:
        """Counts an item that waits for a judge."""
        return nullcontext()

    def item(self, rule: str, outcome: str) -> None:
        """Counts one item."""


class Telemetry(NoTelemetry):
    """The counters of one server, in a separate registry."""

    def __init__(self) -> None:
        # Imported on use: a server without metrics needs no prometheus_client.
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

        self.registry = registry = CollectorRegistry()
        self.streams = Gauge("lyncean_scorer_streams", "Score streams that are open.", registry=registry)
        self.ended = Counter("lyncean_scorer_streams_ended", "Finished streams.", ["code"], registry=registry)
        self.judged = Gauge("lyncean_scorer_judged_in_flight", "Items that wait for a judge.", registry=registry)
        self._items = Counter(
            "lyncean_scorer_items", "Items, by rule and outcome; no rule: only counted.", ["rule", "outcome"],
            registry=registry,
        )  # fmt: skip
        self.seconds = Histogram(
            "lyncean_scorer_message_seconds", "Time spent on the plain rules of a message.", buckets=_SECONDS,
            registry=registry,
        )  # fmt: skip

    @contextmanager
    def stream(self) -> Iterator[None]:
        """Counts one stream, open and by its final status."""
        code = "OK"
        with self.streams.track_inprogress():
            try:
                yield
            except StatusError as error:
                code = error.code.name
                raise
            except (asyncio.CancelledError, GeneratorExit):
                code = "CANCELLED"
                raise
            except BaseException:
                code = "INTERNAL"
                raise
            finally:
                self.ended.labels(code).inc()

    def waiting(self) -> AbstractContextManager[object]:
        """Counts an item that waits for a judge."""
        return self.judged.track_inprogress()

    @contextmanager
    def message(self) -> Iterator[Tally[tuple[str, str]]]:
        """Times one message, and adds the tally by rule and outcome at its end."""
        tally: Tally[tuple[str, str]] = Tally()
        start = time.perf_counter()
        try:
            yield tally
        finally:
            self.seconds.observe(time.perf_counter() - start)
            for labels, number in tally.items():
                self._items.labels(*labels).inc(number)

    def item(self, rule: str, outcome: str) -> None:
        """Counts one item."""
        self._items.labels(rule, outcome).inc()

    def listen(self, host: str, port: int) -> int:
        """Serves /metrics and returns the port.

        Raises:
            OSError: If the port is taken.
        """
        from prometheus_client import start_http_server

        server, _ = start_http_server(port, host, registry=self.registry)
        return int(server.server_port)
