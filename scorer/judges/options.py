"""Command-line options of the judge, and the judge that they describe."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from lyncean.addresses import without_password
from lyncean.budget import Budget
from lyncean.caches import cache_folder
from lyncean.rpc import Credentials
from lyncean.rpc.options import POSITIVE_SECONDS, SECONDS, FiniteRange
from lyncean.rpc.security import SecurityError, Tls, read_token
from scorer.judges.asking import Cached
from scorer.judges.base import VENDOR, Judge, Single
from scorer.judges.cache import Cache, CacheError
from scorer.judges.panel import Panel

Command = TypeVar("Command", bound=Callable[..., Any])
KEY_VARIABLES = ("LYNCEAN_JUDGE_KEY", "OPENAI_API_KEY")
URL_VARIABLE = "OPENAI_BASE_URL"
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@dataclass(frozen=True, slots=True)
class Judging:
    """Which judges there are and what they may cost.

    Attributes:
        specs: `openai:MODEL[@URL]`, `batch:MODEL[@URL]`, `grpc:HOST:PORT` or, over TLS, `grpcs:HOST:PORT`.
        key: API key; never shown by repr.
        token: Bearer token of a ModelService; never shown by repr.
        tls: How `grpcs:` judges are checked, and what they are shown.
        cache: Path or `postgresql://` address of the cache; may hold a password, so never shown.
        reread: Whether answers in which a choice rule found nothing are read again.
        concurrency: Requests in flight at most, for each judge.
        timeout: Seconds for one request.
        patience: Seconds that one question may be waited for through rate limits.
        poll: Seconds between looks at a batch.
        budget: Bounds, shared by all judges.
    """

    specs: tuple[str, ...] = ()
    key: str = field(default="", repr=False)
    token: str | None = field(default=None, repr=False)
    tls: Tls = field(default_factory=Tls)
    cache: str = field(default=":memory:", repr=False)
    reread: bool = True
    concurrency: int = 64
    timeout: float = 120.0
    patience: float = 600.0
    poll: float = 30.0
    budget: Budget = field(default_factory=Budget)

    @property
    def batched(self) -> bool:
        """Whether a judge takes many questions at once, and hours for them."""
        return any(spec.startswith("batch:") for spec in self.specs)

    def open(self) -> Opened | None:
        """Returns the judge, or the panel of several; None where none was asked for.

        Raises:
            CacheError: If the cache cannot be opened.
            SecurityError: If TLS files cannot be used.
            click.UsageError: If a spec is none, or its package is not installed.
        """
        if not self.specs:
            return None
        cache = Cache(self.cache)
        budget = copy(self.budget)
        specs = [_placed(spec) for spec in self.specs]
        judges = [Cached(self._single(spec, budget, cache), cache) for spec in specs]
        return Opened(judges[0] if len(judges) == 1 else Panel(judges), specs, cache)

    def _single(self, spec: str, budget: Budget, cache: Cache) -> Single:
        kind, _, rest = spec.partition(":")
        if kind in ("grpc", "grpcs") and ":" in rest:
            from scorer.judges.model_service import ModelServiceJudge

            tls = self.tls if kind == "grpcs" else None
            if tls:
                tls.channel_credentials()  # what is wrong with its files is said now, and not of every item
            return ModelServiceJudge(
                rest,
                Credentials(tls=tls, token=self.token),
                budget,
                timeout=self.timeout,
                patience=self.patience,
                concurrency=self.concurrency,
            )
        if kind not in ("openai", "batch") or not rest:
            raise click.UsageError(
                f"--judge {spec!r} is no judge: give openai:MODEL[@URL], batch:MODEL[@URL], grpc:HOST:PORT or"
                " grpcs:HOST:PORT"
            )
        try:
            from scorer.judges.batch import Batch
            from scorer.judges.endpoint import Endpoint, EndpointConfig
        except ImportError:
            raise click.UsageError(f"--judge {spec} needs: pip install 'lyncean[openai]'") from None
        model, _, url = rest.partition("@")
        config = EndpointConfig(
            model=model,
            base_url=url or None,
            key=self.key,
            timeout=self.timeout,
            patience=self.patience,
            concurrency=self.concurrency,
        )
        if not url and not self.key:
            raise click.UsageError(
                f"--judge {spec} needs an API key: set LYNCEAN_JUDGE_KEY or OPENAI_API_KEY, "
                "or give a scorer of its own --judge-key-file"
            )
        return Batch(config, budget, cache, poll=self.poll) if kind == "batch" else Endpoint(config, budget)


@dataclass(frozen=True, slots=True)
class Opened:
    """A judge that can be asked, and what is known of it.

    Attributes:
        judge: Who is asked: the one judge, or the panel.
        specs: What it, or each of a panel, was given as, with the address that the environment added.
        cache: Where replies and calibrations are kept.
    """

    judge: Judge
    specs: Sequence[str]
    cache: Cache

    @property
    def spec(self) -> str:
        """Under what a calibration of it is kept."""
        return ", ".join(map(without_password, self.specs))

    @property
    def names(self) -> list[str]:
        """What a run records of each judge: its spec without a password, and its measured error."""
        return [self._name(without_password(spec)) for spec in self.specs]

    def _name(self, spec: str) -> str:
        known = self.cache.calibrations(spec)
        said = ", ".join(f"{agreed} of {decisions} {cases}" for cases, agreed, decisions in known)
        return f"{spec} (agrees with {said} cases)" if known else f"{spec} (not calibrated)"

    async def close(self) -> None:
        """Closes the judges and the cache."""
        await self.judge.close()
        self.cache.close()


def judge_options(command: Command) -> Command:
    """Adds the options of the judge; the command gets them as one `judging: Judging`."""

    @click.option(
        "--judge", "judges", multiple=True, metavar="SPEC",
        help="openai:MODEL[@URL], batch:MODEL[@URL] (Batch API), grpc:HOST:PORT (any ModelService) or"
        " grpcs:HOST:PORT (over TLS); several make a panel whose majority decides.",
    )  # fmt: skip
    @click.option("--judge-key-file", type=_FILE, help="API key (else $LYNCEAN_JUDGE_KEY, $OPENAI_API_KEY).")
    @click.option("--judge-token-file", type=_FILE, help="Bearer token for a grpc: or grpcs: judge.")
    @click.option("--judge-tls-ca", type=_FILE, help="Authorities a grpcs: judge is checked by; default the system's.")
    @click.option("--judge-tls-cert", type=_FILE, help="Client certificate (PEM) for a grpcs: judge (mTLS).")
    @click.option("--judge-tls-key", type=_FILE, help="Its private key (PEM).")
    @click.option(
        "--judge-cache", default=None, metavar="PATH|URL",
        help="Replies are kept here and never paid for twice: a file, or postgresql://... for replicas.",
    )  # fmt: skip
    @click.option(
        "--judge-reread/--no-judge-reread", default=True, show_default=True,
        help="Let the judge read answers again in which a choice rule found nothing; each is marked.",
    )  # fmt: skip
    @click.option("--judge-concurrency", default=64, show_default=True, type=click.IntRange(1))
    @click.option(
        "--judge-timeout", type=POSITIVE_SECONDS, default=120.0, show_default=True, help="Seconds for one request."
    )
    @click.option(
        "--judge-patience", type=SECONDS, default=600.0, show_default=True, help="Seconds to wait out rate limits."
    )
    @click.option(
        "--judge-poll", type=POSITIVE_SECONDS, default=30.0, show_default=True, help="Seconds between looks at a batch."
    )
    @click.option("--judge-max-requests", type=click.IntRange(1), help="Stop asking after so many.")
    @click.option("--judge-max-tokens", type=click.IntRange(1), help="Stop asking after so many tokens.")
    @click.option("--judge-max-cost", type=FiniteRange(1e-9, 1e12), help="Stop at this cost; needs prices.")
    @click.option(
        "--judge-price",
        nargs=2,
        type=FiniteRange(0, 1e12),
        metavar="IN OUT",
        help="Price of a million tokens, in and out.",
    )
    @functools.wraps(command)
    def wrapped(
        *args: Any,
        judges: tuple[str, ...],
        judge_key_file: Path | None,
        judge_token_file: Path | None,
        judge_tls_ca: Path | None,
        judge_tls_cert: Path | None,
        judge_tls_key: Path | None,
        judge_cache: str | None,
        judge_reread: bool,
        judge_concurrency: int,
        judge_timeout: float,
        judge_patience: float,
        judge_poll: float,
        judge_max_requests: int | None,
        judge_max_tokens: int | None,
        judge_max_cost: float | None,
        judge_price: tuple[float, float] | None,
        **kwargs: Any,
    ) -> Any:
        context = click.get_current_context()
        if not judges:
            for param in context.command.params:
                name = param.name or ""
                on_line = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
                if on_line and name.startswith("judge_"):
                    raise click.UsageError(f"{param.opts[0]} concerns a judge, and there is none: give --judge SPEC")
        tls = Tls(judge_tls_cert, judge_tls_key, judge_tls_ca)
        if tls != Tls() and not any(spec.startswith("grpcs:") for spec in judges):
            raise click.UsageError("--judge-tls-* concern a judge over TLS, and there is none: --judge grpcs:HOST:PORT")
        if (judge_tls_cert is None) != (judge_tls_key is None):
            raise click.UsageError("a client certificate needs both --judge-tls-cert and --judge-tls-key")
        if judge_max_cost is not None and not judge_price:
            raise click.UsageError("--judge-max-cost needs --judge-price IN OUT: what a million tokens cost")
        budget = Budget(judge_max_requests, judge_max_tokens, judge_max_cost, *(judge_price or ()))
        judging = Judging(
            specs=judges,
            key=_key(judge_key_file),
            token=_token(judge_token_file),
            tls=tls,
            cache=judge_cache or _default_cache(),
            reread=judge_reread,
            concurrency=judge_concurrency,
            timeout=judge_timeout,
            patience=judge_patience,
            poll=judge_poll,
            budget=budget,
        )
        return command(*args, judging=judging, **kwargs)

    return wrapped  # type: ignore[return-value]


def opened(judging: Judging) -> Opened | None:
    """Opens the judge; a cache that cannot be opened, or a bad certificate, is a usage error."""
    try:
        return judging.open()
    except CacheError as error:
        raise click.UsageError(f"{error}; give --judge-cache a place that can be written") from error
    except SecurityError as error:
        raise click.UsageError(str(error)) from error


def _placed(spec: str) -> str:
    """Returns a spec with the address that the environment names, so that it stands in cache, run and messages."""
    url = os.environ.get(URL_VARIABLE, "").strip()
    kind, _, model = spec.partition(":")
    if not url or url.rstrip("/") == VENDOR or kind not in ("openai", "batch") or not model or "@" in model:
        return spec
    return f"{spec}@{url}"


def _key(file: Path | None) -> str:
    if file is not None:
        key = file.read_text().strip()
        if not key:
            raise click.UsageError(f"--judge-key-file {file} is empty: write the key into it")
        return key
    return next((os.environ[name] for name in KEY_VARIABLES if os.environ.get(name)), "")


def _token(file: Path | None) -> str | None:
    try:
        return read_token(file) if file else None
    except SecurityError as error:
        raise click.UsageError(str(error)) from error


def _default_cache() -> str:
    return str(cache_folder() / "judge.sqlite")
