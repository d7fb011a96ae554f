"""One request of a run, from which the command line, the Python API and the manifest follow."""

# ruff: noqa: RUF009 - _option returns a field
from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Interval

from lyncean.rpc import PLAIN, Credentials
from lyncean.vocabulary.shares import share_of
from orchestrator.errors import ConfigError

SECONDS = Annotated[float, Interval(ge=0, le=1e8)]
"""A wait. With longer deadlines than this gRPC ends every call at once."""
NATIVE_TOOLS = "native"
"""The protocol of the contract's own tools."""
SHARE = Annotated[float, Interval(ge=0, le=1)]
"""A share of the planned items."""
POSITIVE_SECONDS = Annotated[float, Interval(ge=0.001, le=1e8)]
"""A wait where no time at all would end everything."""


def _option(default: Any, help_: str, *flags: str, **attributes: Any) -> Any:
    """Returns a field with its line in `--help`; its flag is its name unless others are given.

    Its further attributes are those of the click option; `api_only` leaves the option out.
    """
    return field(default=default, metadata={"help": help_, "flags": flags, **attributes})


@dataclass(frozen=True, slots=True)
class RunRequest:
    """All parameters of a run. Numbers have an upper end so that none fails in the middle of a run.

    The line beside each field is its line in `orchestrator eval --help`. On the command line a list is a repeated
    option, and a mapping is one of NAME=VALUE.
    """

    tasks: str | Sequence[str] = field(
        metadata={"help": "Task, group or .yaml task file; repeatable.", "flags": ("--task", "-t")}
    )
    _: KW_ONLY
    include_path: str | Sequence[str] = _option(
        (), "Folder with further configurations for lmms:NAME and lm-eval:NAME."
    )
    trust_task_code: bool = _option(
        False, "Allow lmms:NAME and lm-eval:NAME whose code runs text as Python: answers then run as code."
    )
    endpoint: str | Sequence[str] = _option((), "Model servers H:P[,H:P]; default: start one.", "--endpoint", "-e")
    scorer: str | None = _option(None, "Scorer H:P; default: start one.")
    model: str = _option(
        "demo", "Model: demo, demo:hash (no weights), a folder, a hub id, openai:NAME[@URL] or litellm:VENDOR/NAME."
    )
    model_options: Sequence[str] | Mapping[str, object] = _option(
        (),
        "Option of the model server that --model starts: dtype=bfloat16, device=cuda:1, trust-remote-code; "
        "`model-server serve --help` lists them.",
        "--model-option",
        metavar="NAME[=VALUE]",
        multiple=True,
    )
    method: Literal["generate", "likelihood"] = _option("generate", "How answers are obtained.")
    data: str | Path | Sequence[str] | Mapping[str, str | Path] | None = _option(
        None, "Path or hub id of the data, or TASK=PATH; default: each task's hub id.", multiple=True
    )
    synthetic: bool = _option(False, "Evaluate on synthetic rows made from the seed; works offline.")
    limit: Annotated[int, Interval(ge=1, le=2**31 - 1)] | None = _option(None, "Only the first N rows of each task.")
    repeats: Annotated[int, Interval(ge=1, le=100_000)] = _option(1, "Evaluate each row N times.")
    shuffle_options: bool = _option(False, "Permute the options of each sample and repeat.")
    blind: bool = _option(False, "Replace images by grey ones: a text-only baseline.")
    parity: bool = _option(False, "Use the prompts and scoring of the reference implementation, bugs included.")
    # What JSON readers and random generators take.
    seed: Annotated[int, Interval(ge=-(2**63), le=2**63 - 1)] = _option(0, "Seed of shuffles and synthetic rows.")
    settings: Sequence[str] | Mapping[str, object] | None = _option(
        (), "Benchmark setting; `orchestrator tasks` lists them.", "--set", metavar="NAME=VALUE", multiple=True
    )
    metrics: str | Sequence[str] = _option(
        (),
        "Further metric of every task; `scorer rules` lists them.",
        "--metric",
        metavar="NAME[,PARAMETER=VALUE...]",
        multiple=True,
    )
    answer: Literal["free", "constrained", "likelihood-after-reasoning"] = _option(
        "free",
        "How the model answers: in its own words; by the label of one of the choices alone; or in its own words, "
        "after which the options are scored.",
    )
    tools: str | Sequence[str] = _option(
        (),
        "Tool that the model may call while it answers: zoom, grpc:H:P (a tool server's; its token in "
        "$LYNCEAN_TOOL_TOKEN), or none; repeatable.",
        metavar="NAME",
    )
    protocol: str = _option(
        NATIVE_TOOLS,
        "Form of tool calls: native, the server's own, or a text protocol: deepeyes, mini-o3, pixel-reasoner, qwen; "
        "deepeyesv2 and thyme, which run code.",
        metavar="NAME",
    )
    max_calls: Annotated[int, Interval(ge=1, le=1000)] | None = _option(
        None, "Most requests to the model for one answer with tools; default: the protocol's."
    )
    max_answer_tokens: Annotated[int, Interval(ge=1)] | None = _option(
        None, "Output tokens of all requests for one answer with tools, after which no further one is made."
    )
    generation: str | Sequence[str] | Mapping[str, object] = _option(
        (),
        "Decoding in place of the benchmark's: max_output_tokens, temperature, top_p, top_k.",
        metavar="NAME=VALUE,...",
        multiple=True,
    )
    finish_cut: Annotated[int, Interval(ge=1, le=2**32 - 1)] | None = _option(
        None, "Continue answers that the output limit cut, or ask for them again, up to N output tokens in all."
    )
    thinking: str | bool | int | None = _option(
        None, "Turn the model's reasoning on or off, or bound its tokens.", metavar="on|off|BUDGET"
    )
    chat_template: Sequence[str] | Mapping[str, object] = _option(
        (), "Variable for the model's chat template.", metavar="KEY=VALUE", multiple=True
    )
    extra_body: str | Mapping[str, object] | None = _option(
        None, "Further fields of requests to the endpoint behind the model server.", metavar="JSON"
    )
    stages: Sequence[str] | Mapping[str, str] = _option(
        (), "Model server for one stage of a sample.", "--stage", metavar="NAME=H:P", multiple=True
    )
    shard: str | None = _option(None, "Run part I of N, I from 0; N alone takes I from $JOB_COMPLETION_INDEX.")
    until: str | None = _option(
        None,
        "Stop as soon as enough is known, by an interval that holds at every look: width<=POINTS; with --against RUN "
        "decided, that one run is better on all the items or that they differ by no more than 2 points, or "
        "decided<=POINTS.",
        metavar="RULE",
    )
    against: str | Path | None = _option(None, "Complete run that --until decided compares with.", metavar="RUN")
    share: Annotated[float, Interval(gt=0, le=1)] | None = _option(
        None,
        "Evaluate a random share of each task's samples, 0.1 for a tenth, and estimate the metric of all.",
        metavar="SHARE",
    )
    items: str | Path | None = _option(
        None,
        "Scores of earlier runs that sharpen the estimate of --share; `orchestrator export --format items` makes one.",
        metavar="FILE",
    )
    run: str | Path | None = _option(None, "Run folder, a path or URL (s3://…); default: runs/NAME.")
    concurrency: Annotated[int, Interval(ge=1, le=1_000_000)] | None = _option(
        None, "Requests in flight per replica; default: what it advertises."
    )
    timeout: POSITIVE_SECONDS = _option(600.0, "Timeout of a request in seconds.")
    patience: SECONDS = _option(600.0, "Seconds to wait for servers and to retry.")
    max_tokens_total: Annotated[int, Interval(ge=1)] | None = _option(None, "Token budget of the run folder.")
    max_cost: Annotated[float, Interval(gt=0, le=1e12)] | None = _option(
        None, "Budget of the run folder in money, by --prices.", metavar="MONEY"
    )
    prices: str | Path | None = _option(
        None, "Prices of a million tokens by model, a YAML file; the cost is in the results.", metavar="FILE"
    )
    max_requests_per_second: Annotated[float, Interval(ge=1e-6, le=1e6)] | None = _option(
        None, "Rate limit over all replicas, per shard.", metavar="N"
    )
    max_unparsed: SHARE | None = _option(
        None, "End with 4 if a larger share of the items is unparsed, 0.1 or 10%.", metavar="SHARE"
    )
    max_failed: SHARE | None = _option(None, "The same for failed items.", metavar="SHARE")
    max_rejected: SHARE | None = _option(None, "The same for rejected items.", metavar="SHARE")
    max_unjudged: SHARE | None = _option(None, "The same for items that the judge left unjudged.", metavar="SHARE")
    deadline: POSITIVE_SECONDS | None = _option(None, "Stop after this many seconds; rerun to resume.")
    judge: Sequence[str] = _option(
        (),
        "Judge for the started scorer: openai:MODEL[@URL], batch:MODEL[@URL], grpc:H:P or, over TLS,"
        " grpcs:H:P; the key in $LYNCEAN_JUDGE_KEY. Several form a panel.",
        metavar="SPEC",
    )
    judge_cache: str | None = _option(
        None, "Cache of judge replies; default: the user's cache folder.", metavar="PATH|URL"
    )
    judge_reads: Literal["none", "unparsed", "doubtful", "all"] = _option(
        "unparsed",
        "Answers that the judge reads after a choice rule: unparsed ones, also those read with doubt, or all. Where "
        "rule and judge differ, the answer is unparsed.",
    )
    rules: str | Sequence[str] = _option((), "Rules in YAML for the scorer that the run starts; repeatable.")
    credentials: Credentials = _option(PLAIN, "TLS and token for servers that run already.", api_only=True)
    progress: bool = _option(False, "Whether progress and results are printed.", api_only=True)


_SHARES = ("max_unparsed", "max_failed", "max_rejected", "max_unjudged", "share")


def checked(request: RunRequest) -> RunRequest:
    """Returns the request with every value of its field's type.

    Raises:
        ConfigError: If a value is of another type or out of range; names the field and the value.
    """
    from pydantic import TypeAdapter, ValidationError

    values = {one.name: getattr(request, one.name) for one in fields(request)}
    for name in _SHARES:
        with contextlib.suppress(ValueError):  # pydantic says what is wrong
            values[name] = share_of(values[name])
    if values["tasks"] in ("", [], ()):
        raise ConfigError("tasks: there is none; `orchestrator tasks` lists them")
    try:
        return TypeAdapter(RunRequest).validate_python(values)
    except ValidationError as error:
        first = error.errors()[0]
        raise ConfigError(f"{first['loc'][0]}: {first['msg']}, not {first['input']!r}") from error
