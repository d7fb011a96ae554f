"""Every Eval Ever 0.3.0: one aggregate file and one file of instances for each task, in its datastore's layout."""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from lyncean_interop import facts
from orchestrator import ConfigError
from orchestrator.run_folder import STEP, Item, MetricResult, Run, epoch, metric_results, overall, reason

_VERSION = "0.3.0"
_FACTS = ("organization", "relationship", "model", "deployment", "availability")
_CHOICES = {
    "relationship": ("first_party", "third_party", "collaborative", "other"),
    "deployment": ("self_deployed", "externally_managed", "unknown"),
    "availability": ("open_weights", "closed_weights", "unknown"),
}
_UNSAFE = re.compile(r"[^\w.+-]+")
_ROLES = {"ROLE_SYSTEM": "system", "ROLE_USER": "user", "ROLE_ASSISTANT": "assistant"}


def write(run: Run, folder: Path, about: Sequence[str]) -> list[Path]:
    """Writes `data/TASK/OWNER/MODEL/UUID.json` and `UUID_samples.jsonl` for each task; returns their paths.

    The same run yields the same files, since identifiers and times derive from the run.

    Args:
        run: A complete run.
        folder: Target folder.
        about: `model=OWNER/NAME`, `organization=NAME`, `relationship=`, `deployment=`, `availability=`.

    Raises:
        ConfigError: The run is not complete, or a fact is missing or wrong.
    """
    known = facts.parse(about, _FACTS)
    for name, choices in _CHOICES.items():
        if known.get(name, choices[0]) not in choices:
            raise ConfigError(f"--about {name}={known[name]}: give one of {', '.join(choices)}")
    model = known.get("model", run.model_name)
    owner, slash, name = model.partition("/")
    if not (slash and owner.strip() and name.strip()):
        raise ConfigError(f"the model's name {model!r} has no owner: add --about model=OWNER/NAME")
    if not run.tasks:
        raise ConfigError(f"{run.name} is not complete: the same `orchestrator eval` command finishes it")
    written, ranges = [], _ranges(run)
    for task in run.tasks:
        items = run.at(ranges.get(task, range(0)))
        first = next(run.at(ranges.get(task, range(0))[:1]), None)
        digest = hashlib.sha256(f"{run.manifest.get('identity_sha256')} {task} {model}".encode()).digest()
        stem = str(uuid.UUID(bytes=digest[:16], version=4))
        where = Path("data", *(_UNSAFE.sub("_", part).rstrip(".") or "_" for part in (task, owner, name)))
        (folder / where).mkdir(parents=True, exist_ok=True)
        samples, aggregate = where / f"{stem}_samples.jsonl", where / f"{stem}.json"
        evaluation = f"{task}/{model}/{_epoch(run)}"
        rows, checksum = _write_samples(run, task, items, folder / samples, evaluation, model)
        document = _aggregate(run, task, known, model, evaluation, _generation(run, task, first))
        if rows:
            document["detailed_evaluation_results"] = {
                "format": "jsonl",
                "file_path": samples.as_posix(),
                "hash_algorithm": "sha256",
                "checksum": checksum,
                "total_rows": rows,
            }
        (folder / aggregate).write_bytes(orjson.dumps(document, option=orjson.OPT_INDENT_2))
        written += [folder / aggregate, folder / samples]
    return written


def _epoch(run: Run) -> str:
    return str(int(epoch(run.manifest.get("created"))))


def _ranges(run: Run) -> dict[str, range]:
    """Returns the range of each task's items, which usually contains no other task's items."""
    ranges: dict[str, range] = {}
    for index, item in enumerate(run):
        ranges[item.task] = range(ranges.get(item.task, range(index, index)).start, index + 1)
    return ranges


def _aggregate(
    run: Run, task: str, known: Mapping[str, str], model: str, evaluation: str, generation: Mapping[str, Any]
) -> dict[str, Any]:
    server, _, version = str(run.model.get("server_version") or "unknown").partition(" ")
    details = {
        "deployment_type": known.get("deployment", "unknown"),
        "model_availability": known.get("availability", "unknown"),
        **{
            name: str(run.model[name])
            for name in ("model_revision", "chat_template_sha256", "processor_sha256", "compute_dtype")
            if run.model.get(name)
        },
    }
    return {
        "schema_version": _VERSION,
        "evaluation_id": evaluation,
        "evaluation_timestamp": _epoch(run),
        "retrieved_timestamp": _epoch(run),
        "source_metadata": {
            "source_name": "Lyncean",
            "source_type": "evaluation_run",
            "source_organization_name": known.get("organization", "unstated"),
            "evaluator_relationship": known.get("relationship", "other"),
        },
        "eval_library": {"name": "lyncean", "version": facts.library(run)},
        "model_info": {
            "name": run.model_name,
            "id": model,
            "inference_engine": {"name": server, "version": version or "unknown"},
            "additional_details": details,
        },
        "evaluation_results": [
            _result(run, metric, generation)
            for metric in metric_results({task: run.tasks[task]})
            if metric.value is not None
        ],
    }


def _result(run: Run, metric: MetricResult, generation: Mapping[str, Any]) -> dict[str, Any]:
    value, low, high = (metric.in_fractions(number) for number in (metric.value, metric.low, metric.high))
    assert value is not None
    proportion = metric.unit in ("fraction", "percent")
    bounded = proportion and 0 <= value <= 1
    uncertainty: dict[str, Any] = {"num_samples": metric.denominator}
    if low is not None and high is not None:
        interval = {"lower": low, "upper": high, "confidence_level": metric.level, "method": metric.method}
        uncertainty["confidence_interval"] = interval
    counts = (run.tasks[metric.task].get("counts") or {}).items()
    caveats = [*facts.caveats(run, metric.task), *facts.cut(run, metric.task)]
    notes = {"caveats": "; ".join(caveats), "settings": "; ".join(facts.settings(run))}
    return {
        "evaluation_result_id": _result_id(metric),
        "evaluation_name": f"{metric.task} [{metric.where}]" if metric.labels else metric.task,
        "source_data": _source(run, metric.task),
        "metric_config": {
            "metric_id": metric.metric or metric.name,
            "metric_name": metric.name,
            "metric_unit": "proportion" if proportion else metric.unit or "points",
            "lower_is_better": metric.less_is_better,
            "score_type": "continuous",
            "min_score": 0 if bounded else "-Infinity",
            "max_score": 1 if bounded else "Infinity",
            "additional_details": {name: note for name, note in notes.items() if note},
        },
        "score_details": {
            "score": value,
            "details": {"denominator": str(metric.denominator), **{name: str(number) for name, number in counts}},
            "uncertainty": uncertainty,
        },
        "generation_config": generation,
    }


def _result_id(metric: MetricResult) -> str:
    return f"{metric.task}/{metric.name}" + (f"/{metric.where}" if metric.labels else "")


def _source(run: Run, task: str) -> dict[str, Any]:
    origin, digest = facts.source(run, task)
    repository, revision = facts.hub_source(run, task)
    details = {"additional_details": {"sha256": digest, **({"revision": revision} if revision else {})}}
    if repository:
        return {"dataset_name": repository, "source_type": "hf_dataset", "hf_repo": repository, **details}
    return {"dataset_name": origin or task, "source_type": "other", **details}


def _generation(run: Run, task: str, first: Item | None) -> dict[str, Any]:
    """Returns the decoding of a task's first request; others may differ if a benchmark has several steps."""
    config = ((first.response.get("response") or {}) if first else {}).get("effective_config") or {}
    names = {"temperature": "temperature", "top_p": "top_p", "top_k": "top_k", "max_output_tokens": "max_tokens"}
    arguments: dict[str, Any] = {name: config[setting] for setting, name in names.items() if setting in config}
    arguments["execution_command"] = facts.command(run)
    own_settings = (run.identity.get("settings") or {}).get(task) or {}
    details = {name: str(value) for name, value in own_settings.items()}
    return {"generation_args": arguments, "additional_details": {"method": str(run.identity.get("method")), **details}}


def _write_samples(
    run: Run, task: str, items: Iterable[Item], path: Path, evaluation: str, model: str
) -> tuple[int, str]:
    """Writes a task's items; returns their number and the file's hash."""
    metrics = overall(metric_results({task: run.tasks[task]}))
    common = {"schema_version": _VERSION, "evaluation_id": evaluation, "model_id": model, "evaluation_name": task}
    if len(metrics) == 1:
        common["evaluation_result_id"] = _result_id(metrics[0])
    digest, rows = hashlib.sha256(), 0
    with path.open("wb") as file:
        for item in items:
            if item.task == task and item.outcome != STEP:
                line = orjson.dumps(common | _instance(item)) + b"\n"
                digest.update(line)
                file.write(line)
                rows += 1
    return rows, digest.hexdigest()


def _instance(item: Item) -> dict[str, Any]:
    request, answer = item.response.get("request") or {}, item.response.get("response") or {}
    messages = [_turn(index, message) for index, message in enumerate(request.get("messages", ()))]
    questions = [turn for turn in messages if turn["role"] != "system"]
    raw = "\n".join(turn["content"] for turn in messages if turn["role"] != "assistant")
    targets = [str(target) for target in item.scoring.get("targets", ())]
    options = [str(option) for option in item.scoring.get("options", ())]
    text = item.answer_text
    thoughts = answer.get("reasoning")
    several = len(questions) > 1
    output: dict[str, Any] = {"raw": [text], **({"reasoning_trace": [thoughts]} if thoughts else {})}
    final = {"turn_idx": len(messages), "role": "assistant", "content": text}
    final |= {"reasoning_trace": thoughts} if thoughts else {}
    extracted = item.verdict.get("extracted")
    score = item.score or 0.0
    usage = answer.get("usage") or {}
    images = [part["image"]["sha256"] for m in request.get("messages", ()) for part in m["parts"] if "image" in part]
    error = f"{item.outcome or 'not scored'}: {reason(item)}".rstrip(": ")
    metadata = {**item.labels, "outcome": item.outcome, "group": item.group, "images": ",".join(images)}
    return {
        "sample_id": item.key,
        "sample_hash": hashlib.sha256((raw + "\n".join(targets)).encode()).hexdigest(),
        "interaction_type": "multi_turn" if several else "single_turn",
        "input": {"raw": raw, "reference": targets, "choices": options or None},
        "output": None if several else output,
        "messages": [*messages, final] if several else None,
        "answer_attribution": [] if extracted in (None, "") else [{
            "turn_idx": len(messages) if several else 0,
            "source": "messages[turn_idx].content" if several else "output.raw",
            "extracted_value": str(extracted),
            "extraction_method": str(item.verdict.get("rule") or item.scoring.get("rule") or "custom"),
            "is_terminal": True,
        }],
        "evaluation": {
            "score": score,
            "is_correct": score >= 1,
            **({"num_turns": len(messages) + 1} if several else {}),
        },
        "token_usage": _usage(usage) if usage else None,
        "performance": {"latency_ms": 1000 * float(item.response["seconds"])} if "seconds" in item.response else None,
        "error": None if item.outcome == "scored" else error,
        "metadata": {name: str(value) for name, value in metadata.items() if value},
    }  # fmt: skip


def _turn(index: int, message: Mapping[str, Any]) -> dict[str, Any]:
    texts = [_text(part) for part in message.get("parts", ())]
    return {"turn_idx": index, "role": _ROLES.get(str(message.get("role")), "user"), "content": "\n".join(texts)}


def _text(part: Mapping[str, Any]) -> str:
    """Returns a part's text, or a medium's placeholder."""
    media = (f"<{kind} {part[kind]['sha256']}>" for kind in ("image", "audio", "video") if kind in part)
    return next(media, str(part.get("text", "")))


def _usage(usage: Mapping[str, Any]) -> dict[str, Any]:
    read, generated = int(usage.get("input_tokens", 0)), int(usage.get("output_tokens", 0))
    more = {"reasoning_tokens": usage.get("reasoning_tokens"), "input_tokens_cache_read": usage.get("cached_tokens")}
    return {
        "input_tokens": read,
        "output_tokens": generated,
        "total_tokens": read + generated,
        **{name: int(value) for name, value in more.items() if value is not None},
    }
