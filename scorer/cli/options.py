"""Options that the subcommands share."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from lyncean.cli.options import FILE, POSITIVE_SECONDS, SECONDS, FiniteRange, bundled
from lyncean.errors import UserError
from lyncean.plugins.folders import absolute, cache_folder
from lyncean.rpc.security import Tls, read_token

if TYPE_CHECKING:
    from scorer.foreign_tasks import ForeignTasks
    from scorer.judges.options import Judging
    from scorer.registry import Registry
    from scorer.rule import AnyRule

KEY_VARIABLES = ("LYNCEAN_JUDGE_KEY", "OPENAI_API_KEY")
ITEMS_OF_A_BATCH = 50_000
"""Items that may wait for a judge of the Batch API: one full batch, since each batch takes hours."""


def in_flight(judging: Judging) -> int:
    """Returns the number of items that may wait for a judge: enough to keep it busy, or to fill a batch."""
    from scorer.scoring import JUDGED_AT_ONCE

    if judging.batched:
        return ITEMS_OF_A_BATCH
    return max(JUDGED_AT_ONCE, 2 * judging.concurrency)


def _registry(files: tuple[Path, ...]) -> Registry[AnyRule]:
    from scorer.metrics import metrics
    from scorer.rules import rules

    custom: list[AnyRule] = []
    if files:
        from scorer.rules.pattern import load

        custom = [rule for file in files for rule in load(file)]
    registry = rules(custom)
    registry.load_plugins()
    metrics().load_plugins()
    return registry


rule_options = bundled(
    "registry",
    _registry,
    click.option(
        "--rules", "files", multiple=True, type=FILE, help="Rules in YAML, see docs/write-a-rule.md; repeatable."
    ),
)
"""Adds the options that define further rules; the command gets `registry`."""


def _foreign(foreign_tasks: bool, include_path: tuple[Path, ...], trust_task_code: bool) -> ForeignTasks:
    from scorer.foreign_tasks import ForeignTasks

    if not foreign_tasks:
        for flag, value in (("--include-path", include_path), ("--trust-task-code", trust_task_code)):
            if value:
                raise UserError(f"{flag} is for tasks of other harnesses, which are off: give --foreign-tasks as well")
    return ForeignTasks(foreign_tasks, absolute(map(str, include_path)), trust_task_code)


foreign_options = bundled(
    "foreign",
    _foreign,
    click.option("--foreign-tasks", is_flag=True, help="Score tasks of other harnesses, by their own code."),
    click.option(
        "--include-path",
        multiple=True,
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        help="Folder with further tasks of other harnesses; repeatable.",
    ),
    click.option(
        "--trust-task-code",
        is_flag=True,
        help="Also score tasks whose code runs text as Python, and so a model's answers.",
    ),
)
"""Adds the options on tasks of other harnesses; the command gets them as one `foreign: ForeignTasks`."""


def _judging(
    judges: tuple[str, ...],
    judge_key_file: Path | None,
    judge_token_file: Path | None,
    judge_tls_ca: Path | None,
    judge_tls_cert: Path | None,
    judge_tls_key: Path | None,
    judge_cache: str | None,
    judge_reads: str,
    judge_concurrency: int,
    judge_timeout: float,
    judge_patience: float,
    judge_poll: float,
    judge_max_requests: int | None,
    judge_max_tokens: int | None,
    judge_max_cost: float | None,
    judge_price: tuple[float, float] | None,
) -> Judging:
    from lyncean.rpc.budget import Budget
    from scorer.judges.options import Judging

    context = click.get_current_context()
    if not judges:
        for param in context.command.params:
            name = param.name or ""
            on_line = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
            if on_line and name.startswith("judge_"):
                raise UserError(f"{param.opts[0]} concerns a judge, and there is none: give --judge SPEC")
    tls = Tls(judge_tls_cert, judge_tls_key, judge_tls_ca)
    if tls != Tls() and not any(spec.startswith("grpcs:") for spec in judges):
        raise UserError("--judge-tls-* concern a judge over TLS, and there is none: --judge grpcs:HOST:PORT")
    if (judge_tls_cert is None) != (judge_tls_key is None):
        raise UserError("a client certificate needs both --judge-tls-cert and --judge-tls-key")
    if judge_max_cost is not None and not judge_price:
        raise UserError("--judge-max-cost needs --judge-price IN OUT: what a million tokens cost")
    return Judging(
        specs=judges,
        key=_key(judge_key_file),
        token=read_token(judge_token_file) if judge_token_file else None,
        tls=tls,
        cache=judge_cache or str(cache_folder() / "judge.sqlite"),
        reads=judge_reads,
        concurrency=judge_concurrency,
        timeout=judge_timeout,
        patience=judge_patience,
        poll=judge_poll,
        budget=Budget(judge_max_requests, judge_max_tokens, judge_max_cost, *(judge_price or ())),
    )


def _key(file: Path | None) -> str:
    if file is not None:
        key = file.read_text().strip()
        if not key:
            raise UserError(f"--judge-key-file {file} is empty: write the key into it")
        return key
    return next((os.environ[name] for name in KEY_VARIABLES if os.environ.get(name)), "")


judge_options = bundled(
    "judging",
    _judging,
    click.option(
        "--judge",
        "judges",
        multiple=True,
        metavar="SPEC",
        help="openai:MODEL[@URL], batch:MODEL[@URL] (Batch API), grpc:HOST:PORT (any ModelService) or"
        " grpcs:HOST:PORT (over TLS); several form a panel with majority vote.",
    ),
    click.option("--judge-key-file", type=FILE, help="API key (else $LYNCEAN_JUDGE_KEY, $OPENAI_API_KEY)."),
    click.option("--judge-token-file", type=FILE, help="Bearer token for a grpc: or grpcs: judge."),
    click.option("--judge-tls-ca", type=FILE, help="CA certificates (PEM) for a grpcs: judge; default: the system's."),
    click.option("--judge-tls-cert", type=FILE, help="Client certificate (PEM) for a grpcs: judge (mTLS)."),
    click.option("--judge-tls-key", type=FILE, help="Its private key (PEM)."),
    click.option(
        "--judge-cache",
        default=None,
        metavar="PATH|URL",
        help="Cache of judge replies: a file, or postgresql://... shared by replicas.",
    ),
    click.option(
        "--judge-reads",
        type=click.Choice(["none", "unparsed", "doubtful", "all"]),
        default="unparsed",
        show_default=True,
        help="Let the judge read answers again that a choice rule left unparsed, or also those that it read with doubt,"
        " or all: where the two differ, the answer is unparsed.",
    ),
    click.option("--judge-concurrency", default=64, show_default=True, type=click.IntRange(1)),
    click.option(
        "--judge-timeout", type=POSITIVE_SECONDS, default=120.0, show_default=True, help="Seconds for one request."
    ),
    click.option(
        "--judge-patience", type=SECONDS, default=600.0, show_default=True, help="Seconds to wait while rate limited."
    ),
    click.option(
        "--judge-poll",
        type=POSITIVE_SECONDS,
        default=30.0,
        show_default=True,
        help="Poll interval of a batch in seconds.",
    ),
    click.option("--judge-max-requests", type=click.IntRange(1), help="Request budget of the judge."),
    click.option("--judge-max-tokens", type=click.IntRange(1), help="Token budget of the judge."),
    click.option(
        "--judge-max-cost", type=FiniteRange(1e-9, 1e12), help="Cost budget of the judge; needs --judge-price."
    ),
    click.option(
        "--judge-price",
        nargs=2,
        type=FiniteRange(0, 1e12),
        metavar="IN OUT",
        help="Price of a million input and output tokens.",
    ),
)
"""Adds the options of the judge; the command gets them as one `judging: Judging`."""
