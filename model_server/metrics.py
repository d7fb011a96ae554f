"""The server's metrics, for Prometheus. Counting costs nothing while nobody scrapes."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import StatusError

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)


class Metrics:
    """One server's counters, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.in_flight = Gauge("lyncean_in_flight", "Calls being answered.", ["method"], registry=registry)
        self.queued = Gauge("lyncean_queued", "Calls waiting for the model.", registry=registry)
        self.calls = Counter("lyncean_calls", "Finished calls.", ["method", "code"], registry=registry)
        self.seconds = Histogram(
            "lyncean_call_seconds", "Time to answer a call.", ["method"], buckets=_SECONDS, registry=registry
        )
        self.queue_seconds = Histogram(
            "lyncean_queue_seconds", "Time a call waited for the model.", buckets=_SECONDS, registry=registry
        )
        self.batch = Histogram("lyncean_batch_size", "Calls run together.", buckets=_SIZES, registry=registry)
        self.tokens = Counter("lyncean_tokens", "Tokens, by kind.", ["kind"], registry=registry)
        self.image_cache = Counter(
            "lyncean_image_cache", "Look-ups of vision features, by result.", ["result"], registry=registry
        )
        self.splits = Counter("lyncean_batch_splits", "Batches split for want of memory.", registry=registry)
        self.token_budget = Gauge("lyncean_token_budget", "Tokens that a batch may have.", registry=registry)
        self.token_budget.set(math.inf)

    @contextmanager
    def call(self, method: str) -> Iterator[None]:
        """Counts one call and its duration, by the status that it ends with."""
        start, code = time.monotonic(), "OK"
        with self.in_flight.labels(method).track_inprogress():
            try:
                yield
            except StatusError as error:
                code = error.code.name
                raise
            except asyncio.CancelledError:
                code = "CANCELLED"
                raise
            except BaseException:
                code = "INTERNAL"
                raise
            finally:
                self.calls.labels(method, code).inc()
                self.seconds.labels(method).observe(time.monotonic() - start)

    def spent(self, usage: model.Usage) -> None:
        """Adds a finished call's tokens."""
        self.tokens.labels("text_in").inc(max(0, usage.input_tokens - usage.image_tokens))
        self.tokens.labels("image_in").inc(usage.image_tokens)
        self.tokens.labels("cached_in").inc(usage.cached_tokens)
        self.tokens.labels("out").inc(usage.output_tokens)

    def listen(self, host: str, port: int) -> int:
        """Serves /metrics on a port of its own and returns the port.

        Raises:
            OSError: If the port is taken.
        """
        server, _ = start_http_server(port, host, registry=self.registry)
        return int(server.server_port)
