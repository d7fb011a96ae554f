"""report.html: one file that opens offline, requests nothing, and shows results, charts and samples."""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from orchestrator.report.cards import cards, item_labels
from orchestrator.report.charts import Chart, by_label, by_task, crossed, grid
from orchestrator.report.labels import results as labelled_results
from orchestrator.report.problems import ordered
from orchestrator.report.published import tables, unpublished
from orchestrator.report.readings import readings
from orchestrator.report.samples import Packed, pack
from orchestrator.run_folder.labels import error_kinds
from orchestrator.run_folder.metrics import (
    OUTCOMES,
    MetricResult,
    accounting,
    answered_results,
    by_chance,
    counts,
    headlines,
    how_read,
    metric_results,
    offered,
    overall,
    slices,
    undefined,
    without_interval,
)
from orchestrator.run_folder.reader import Run
from orchestrator.run_folder.state import state
from orchestrator.run_folder.usage import spent
from orchestrator.run_folder.validity import excerpt, of_results

_TEMPLATES = Path(__file__).with_name("templates")
_SHOWN_ELSEWHERE = ("model", "model_name", "model_revision", "rules")
_STYLE = "style.css"
SAMPLES = ("dom.js", "browse.js", "sample.js")
"""Scripts of a page that lists samples; its own comes last."""
SCRIPTS = (*SAMPLES, "report.js")
"""Scripts of a run's page."""
_MOST_ROWS = 48
_MOST_TASKS = 80


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["excerpt"] = excerpt
    environment.filters["commas"] = lambda number: f"{number:,}"
    environment.filters["breakable"] = _breakable
    return environment


def _breakable(name: str) -> Markup:
    """Returns a name that wraps after its underscores and ampersands only."""
    return Markup("<wbr>").join(re.split(r"(?<=[_&])", name))


def prepare() -> None:
    """Compiles the templates of a run's page, once in a process."""
    for template in ("base.html", "macros.html", "charts.html", "samples.html", "report.html"):
        _environment().get_template(template)


def document(template: str, *, scripts: Sequence[str] = (), connect: bool = False, **context: Any) -> str:
    """Renders a template with the house style and its `policy`; its scripts share one scope."""
    page = _environment().get_template(template)
    return page.render(
        style=Markup(_text(_STYLE)),  # noqa: S704 - files of ours
        script=Markup(_script(scripts)),  # noqa: S704
        policy=policy(scripts, connect=connect),
        **context,
    )


def policy(scripts: Sequence[str] = (), *, connect: bool = False) -> str:
    """Returns a content security policy that allows a page its own style and scripts only.

    With `connect` the scripts may send requests to the server of the page.
    """
    return "; ".join(
        (
            "default-src 'none'",
            f"style-src 'sha256-{_digest(_text(_STYLE))}'",
            f"script-src 'sha256-{_digest(_script(scripts))}'" if scripts else "script-src 'none'",
            # `file:` because 'self' means nothing on a page opened by double click.
            "img-src 'self' file: data:",
            "media-src 'self' file: data:",
            "connect-src 'self'" if connect else "connect-src 'none'",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )


@cache
def _text(name: str) -> str:
    """Returns a file of the templates' folder, the same as long as the process lives: a page outlives its header."""
    return (_TEMPLATES / name).read_text(encoding="utf-8")


def _script(names: Sequence[str]) -> str:
    """Returns scripts as one, "" for none: what they declare is seen by each other and by nothing else."""
    return f'"use strict";\n(() => {{\n{"".join(map(_text, names))}}})();' if names else ""


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def render(run: Run, *, embed: bool = False, published: bool = False, blind: Run | None = None, home: str = "") -> str:
    """Returns a run's page.

    Args:
        run: The run, complete or not.
        embed: Whether images are put into the page.
        published: Whether published results are shown beside the run's own.
        blind: The same run without images, shown beside the run's own results.
        home: Address of the list of runs, "" for none.
    """
    metrics = answered_results(run.tasks_and_groups)
    totals = overall(metrics)
    labels = {task: item_labels(run, head) for task, head in headlines(metrics).items()}
    packed = pack(run, labels)
    total = counts(run.tasks) if run.tasks else _so_far(packed)
    expected = sum((run.manifest.get("planned") or {}).values()) or run.manifest.get("expected")
    return document(
        "report.html",
        scripts=SCRIPTS,
        run=run,
        state=state(run),
        metrics=totals,
        cards=cards(metrics, labels, packed.wrong),
        doubts=[
            (task, doubt) for task, task_metrics in run.tasks_and_groups.items() for doubt in of_results(task_metrics)
        ],
        undefined=undefined(metrics),
        without_interval=without_interval(metrics),
        errors=[(metric, error) for metric in totals if (error := metric.standard_error)],
        accounting=accounting(total) if run.tasks else _progress(total, expected),
        bar=_bar(total, total["planned"] if run.tasks else max(expected or 0, total["planned"])),
        by_chance=by_chance(run.tasks),
        how_read=how_read(run.tasks),
        spent=spent(run.results),
        offered=offered(run.tasks, run.results),
        problems=ordered(packed.problems),
        model=_model(run),
        configuration=_configuration(run, packed),
        topics=_topics(packed.diagnostics.overview(totals) + _charts(run, metrics) + packed.diagnostics.charts(totals)),
        published=tables(run) if published else [],
        unpublished=unpublished(run) if published else [],
        readings=readings(run),
        kinds=error_kinds(run),
        labelled={(one.task, one.metric): one for one in labelled_results(run)},
        blind={(f.task, f.name): f for f in overall(metric_results(blind.tasks_and_groups))} if blind else {},
        packed=packed,
        home=home,
        images=embedded([run], packed.packing.media.items()) if embed else {},
    )


def _so_far(packed: Packed) -> dict[str, int]:
    outcomes = packed.outcomes
    return {"planned": sum(outcomes[name] for name in OUTCOMES), **{name: outcomes[name] for name in OUTCOMES}}


def _progress(total: Mapping[str, int], expected: int | None) -> str:
    """Returns the accounting line of a run that is not complete: 37 of 280 items have an outcome so far."""
    known = f"{total['planned']:,} of {expected:,}" if expected else f"{total['planned']:,}"
    return f"{known} items have an outcome so far"


def _bar(total: Mapping[str, int], planned: int) -> list[tuple[str, int, float, float]]:
    """Outcome, count, and where its piece of the bar starts and how wide it is, of 1000 for all planned items."""
    pieces, at = [], 0.0
    for name in OUTCOMES:
        width = 1000 * total[name] / max(1, planned)
        if total[name]:
            pieces.append((name, total[name], at, width))
        at += width
    return pieces


def _model(run: Run) -> list[tuple[str, str]]:
    model = run.model
    capabilities = [name.removeprefix("CAPABILITY_") for name in model.get("capabilities", ())]
    known = [
        ("Name", run.model_name),
        ("Answers", run.doubt),
        ("Weights", model.get("model_revision", "")),
        ("Served by", model.get("server_version", "")),
        ("Number format", model.get("compute_dtype", "")),
        ("Context", f"{int(model['max_context_tokens']):,} tokens" if model.get("max_context_tokens") else ""),
        ("Can", ", ".join(capabilities).replace("_", " ").lower()),
        ("Template's hash", str(model.get("chat_template_sha256", ""))[:12]),
        ("Processor's hash", str(model.get("processor_sha256", ""))[:12]),
        *((name.replace("_", " ").capitalize(), str(value)) for name, value in (model.get("properties") or {}).items()),
        ("Replicas", ", ".join(map(str, run.manifest.get("replicas", ())))),
    ]
    return [(name, str(value)) for name, value in known if value]


def _configuration(run: Run, packed: Packed) -> list[tuple[str, str]]:
    identity = dict(run.identity)
    command = run.manifest.get("command", "")
    rows = [("Command", command if isinstance(command, str) else " ".join(map(str, command)))]
    for name in ("tasks", "method", "data"):
        if name in identity:
            rows.append((name.capitalize(), _words(identity.pop(name))))
    for name, value in identity.items():
        if name not in _SHOWN_ELSEWHERE and value not in (None, False, "", [], {}):
            rows.append((name.replace("_", " ").capitalize(), _words(value)))
    rows.append(("Decoding", "; ".join(sorted(packed.decoding))))
    rules = run.manifest.get("rules") or {}
    rows.append(("Rules", ", ".join(f"{name} {str(rules.get(name, ''))[:8]}".strip() for name in sorted(packed.rules))))
    rows.append(("Judges", ", ".join(map(str, run.manifest.get("judges", ())))))
    rows.append(("Versions", _words(run.manifest.get("versions", {}))))
    rows.append(("Begun", str(run.manifest.get("created", ""))))
    return [(name, value) for name, value in rows if value]


def _words(value: Any) -> str:
    if isinstance(value, Mapping):
        value = {name: inner for name, inner in value.items() if inner not in (None, "", {})}
        # What is the same for every task is said once.
        if len(value) > 2 and all(inner == next(iter(value.values())) for inner in value.values()):
            return f"all {len(value)}: {_words(next(iter(value.values())))}"
        return ", ".join(
            f"{name}: {_words(inner)}" if isinstance(inner, Mapping) else f"{name} {_words(inner)}"
            for name, inner in value.items()
        )
    if isinstance(value, list | tuple):
        return ", ".join(map(_words, value))
    text = str(value)
    return text[:12] if len(text) == 64 and all(c in "0123456789abcdef" for c in text) else text


def _charts(run: Run, metrics: list[MetricResult]) -> list[Chart]:
    totals = {(metric.task, metric.name): metric for metric in overall(metrics)}
    by_name: dict[str, list[MetricResult]] = {}
    for metric in totals.values():
        by_name.setdefault(metric.name, []).append(metric)
    several = len(run.tasks) > 1
    charts = grid(list(totals.values()))
    charts += [by_task(name, rows) for name, rows in by_name.items() if 2 < len(rows) <= _MOST_TASKS]
    for (task, name, labels), rows in slices(metrics).items():
        if len(labels) == 1 and 1 < len(rows) <= _MOST_ROWS:
            charts.append(by_label(rows, totals.get((task, name)), item_labels(run, rows[0]), several=several))
        elif len(labels) == 2 and len(rows) > 1:
            charts.append(crossed(rows, item_labels(run, rows[0]), several=several))
    return charts


def _topics(charts: list[Chart]) -> list[tuple[str, list[Chart]]]:
    """Returns the charts by what they belong to: the run as a whole after the first metric."""
    topics: dict[str, list[Chart]] = {}
    for chart in charts:
        topics.setdefault(chart.topic, []).append(chart)
    general = topics.pop("", [])
    others = list(topics.items())
    return others[:1] + ([("The run", general)] if general else []) + others[1:]


def relative_address(path: Path, folder: Path) -> str:
    """Returns the address of a folder from a page that lies in another one, with a slash at its end."""
    return quote(Path(os.path.relpath(path.resolve(), folder.resolve())).as_posix()) + "/"


def embedded(runs: Sequence[Run], media: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Returns images and clips that runs store as data URIs by name, given their names and media types."""
    uris = {}
    for name, media_type in media:
        if path := next(filter(None, (run.image(name) for run in runs)), None):
            kind = media_type if media_type.startswith(("image/", "audio/", "video/")) else "application/octet-stream"
            uris[name] = f"data:{kind};base64,{base64.b64encode(path.read_bytes()).decode()}"
    return uris
