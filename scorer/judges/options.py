"""The judges of a scorer: their specs and bounds, and how they are opened."""

from __future__ import annotations

import os
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field

from lyncean.errors import UserError
from lyncean.rpc import Credentials
from lyncean.rpc.addresses import refused_user, shown_place, without_password
from lyncean.rpc.budget import Budget
from lyncean.rpc.security import Tls
from scorer.judges.asking import Cached
from scorer.judges.base import VENDOR, Judge, Single
from scorer.judges.cache import CacheError
from scorer.judges.keeping import KeptReplies
from scorer.judges.panel import Panel

URL_VARIABLE = "OPENAI_BASE_URL"


@dataclass(frozen=True, slots=True)
class Judging:
    """The options on judges, unopened.

    Attributes:
        specs: `openai:MODEL[@URL]`, `batch:MODEL[@URL]`, `grpc:HOST:PORT` or, over TLS, `grpcs:HOST:PORT`.
        key: API key; never shown by repr.
        token: Bearer token of a ModelService; never shown by repr.
        tls: CA and client certificates for `grpcs:` judges.
        cache: Path or `postgresql://` address of the cache; may hold a password, so never shown by repr.
        reads: Answers to choice rules that are read again: "none", "unparsed", also "doubtful", or "all".
        concurrency: Most requests in flight to one judge.
        timeout: Seconds for one request.
        patience: Seconds that one question waits for the end of rate limits.
        poll: Poll interval of a batch in seconds.
        budget: Bounds, shared by all judges.
    """

    specs: tuple[str, ...] = ()
    key: str = field(default="", repr=False)
    token: str | None = field(default=None, repr=False)
    tls: Tls = field(default_factory=Tls)
    cache: str = field(default=":memory:", repr=False)
    reads: str = "unparsed"
    concurrency: int = 64
    timeout: float = 120.0
    patience: float = 600.0
    poll: float = 30.0
    budget: Budget = field(default_factory=Budget)

    @property
    def batched(self) -> bool:
        """True if a judge uses the Batch API, which takes many questions at once, and hours for them."""
        return any(spec.startswith("batch:") for spec in self.specs)

    def open(self) -> Opened | None:
        """Opens the judge, or a panel of several; returns None without specs.

        Raises:
            UserError: If the cache cannot be opened, TLS files cannot be used, a spec is invalid, or its package is
                not installed.
        """
        if not self.specs:
            return None
        try:
            cache = KeptReplies(self.cache)
        except CacheError as error:
            raise UserError(str(error), fix="give --judge-cache a place that can be written") from error
        budget = copy(self.budget)
        specs = [_placed(spec) for spec in self.specs]
        judges = [Cached(self._single(spec, budget, cache), cache) for spec in specs]
        return Opened(judges[0] if len(judges) == 1 else Panel(judges), specs, cache)

    def _single(self, spec: str, budget: Budget, cache: KeptReplies) -> Single:
        kind, _, rest = spec.partition(":")
        if kind in ("grpc", "grpcs") and ":" in rest:
            from scorer.judges.model_service import ModelServiceJudge

            if reason := refused_user(rest):
                raise UserError(f"--judge {kind}:{reason}")
            tls = self.tls if kind == "grpcs" else None
            if tls:
                tls.channel_credentials()  # reads the files now: otherwise every item would fail on a mistake in them
            return ModelServiceJudge(
                rest,
                Credentials(tls=tls, token=self.token),
                budget,
                timeout=self.timeout,
                patience=self.patience,
                concurrency=self.concurrency,
            )
        if kind not in ("openai", "batch") or not rest:
            raise UserError(
                f"--judge {spec!r} is not a judge: give openai:MODEL[@URL], batch:MODEL[@URL], grpc:HOST:PORT or"
                " grpcs:HOST:PORT"
            )
        try:
            from scorer.judges.batch import Batch
            from scorer.judges.endpoint import Endpoint, EndpointConfig
        except ImportError:
            raise UserError(f"--judge {spec} needs: pip install 'lyncean[openai]'") from None
        model, _, url = rest.partition("@")
        if url and not url.startswith(("http://", "https://")):
            raise UserError(
                f"--judge {kind}:{model}@{shown_place(url)}: give the URL in full, for example http://host:8000/v1"
            )
        config = EndpointConfig(
            model=model,
            base_url=url or None,
            key=self.key,
            timeout=self.timeout,
            patience=self.patience,
            concurrency=self.concurrency,
        )
        if not url and not self.key:
            raise UserError(
                f"--judge {spec} needs an API key: set LYNCEAN_JUDGE_KEY or OPENAI_API_KEY, "
                "or give a scorer of its own --judge-key-file"
            )
        return Batch(config, budget, cache, poll=self.poll) if kind == "batch" else Endpoint(config, budget)


@dataclass(frozen=True, slots=True)
class Opened:
    """An open judge, with its specs and cache.

    Attributes:
        judge: The judge, or the panel.
        specs: The spec of each judge, with the address that the environment added.
        cache: The kept replies and calibrations.
    """

    judge: Judge
    specs: Sequence[str]
    cache: KeptReplies

    @property
    def spec(self) -> str:
        """The name under which a calibration of it is kept."""
        return ", ".join(map(without_password, self.specs))

    @property
    def names(self) -> list[str]:
        """The names that a run records: the spec of each judge without a password, and its calibration."""
        return [self._name(without_password(spec)) for spec in self.specs]

    def _name(self, spec: str) -> str:
        known = self.cache.call(lambda cache: cache.calibrations(spec))
        agreements = ", ".join(f"{agreed} of {decisions} {cases}" for cases, agreed, decisions in known)
        return f"{spec} (agrees with {agreements} cases)" if known else f"{spec} (not calibrated)"

    async def close(self) -> None:
        """Closes the judges and the cache."""
        await self.judge.close()
        await self.cache.close()


def _placed(spec: str) -> str:
    """Adds the address that the environment names to a spec, so that cache, run and messages hold it."""
    url = os.environ.get(URL_VARIABLE, "").strip()
    kind, _, model = spec.partition(":")
    if not url or url.rstrip("/") == VENDOR or kind not in ("openai", "batch") or not model or "@" in model:
        return spec
    return f"{spec}@{url}"
