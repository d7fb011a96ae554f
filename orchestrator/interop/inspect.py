"""Inspect AI logs, one a task: `inspect view` opens them. Written by Inspect's own library."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lyncean.keys import split_repeat
from orchestrator.errors import ConfigError
from orchestrator.run_folder.metrics import MetricResult, metric_results
from orchestrator.run_folder.reader import STEP, Item, Run

try:
    from inspect_ai.log import (
        EvalConfig,
        EvalDataset,
        EvalError,
        EvalLog,
        EvalMetric,
        EvalResults,
        EvalSample,
        EvalScore,
        EvalSpec,
        EvalStats,
        write_eval_log,
    )
    from inspect_ai.model import (
        ChatMessage,
        ChatMessageAssistant,
        ChatMessageSystem,
        ChatMessageUser,
        Content,
        ContentAudio,
        ContentImage,
        ContentReasoning,
        ContentText,
        ContentVideo,
        ModelOutput,
        ModelUsage,
    )
    from inspect_ai.scorer import Score
except ImportError as error:
    raise ConfigError("--format inspect needs Inspect: pip install 'lyncean[inspect]'") from error

_STOPS: Mapping[str, Any] = {
    "FINISH_REASON_END_OF_SEQUENCE": "stop",
    "FINISH_REASON_STOP_STRING": "stop",
    "FINISH_REASON_MAX_TOKENS": "max_tokens",
    "FINISH_REASON_CONTENT_FILTER": "content_filter",
}


def write(run: Run, folder: Path, *, embed: bool) -> list[Path]:
    """Writes one `.eval` log for each task of a run and returns their paths.

    Args:
        run: The run.
        folder: Where to; made if need be.
        embed: Whether images go into the log; else it names the files in the run folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for task in list(run.tasks) or sorted({item.task for item in run}):
        path = folder / f"{run.name}_{task}.eval"
        write_eval_log(_log(run, task, embed), path, format="eval")
        written.append(path)
    return written


def _log(run: Run, task: str, embed: bool) -> EvalLog:
    samples, begun = [], []
    for item in run:
        if item.task == task and item.outcome != STEP:
            samples.append(_sample(run, item, embed))
            begun.append(str(item.response.get("started") or ""))
    data = (run.identity.get("data") or {}) if isinstance(run.identity.get("data"), Mapping) else {}
    source = data.get(task) or {}
    # Inspect shows the first metrics it finds: the overall results, then the slices.
    mine = sorted(
        (metric for metric in metric_results(run.tasks) if metric.task == task), key=lambda metric: len(metric.labels)
    )
    created = str(run.manifest.get("created") or "1970-01-01T00:00:00+00:00")
    rules = sorted({str(sample.metadata["rule"]) for sample in samples if sample.metadata.get("rule")})
    return EvalLog(
        status="success" if run.tasks else "started",
        eval=EvalSpec(
            created=created,
            task=task,
            task_id=f"{run.name}/{task}",
            run_id=run.name,
            model=f"lyncean/{run.model_name}",
            dataset=EvalDataset(
                name=str(source.get("origin", "")) if isinstance(source, Mapping) else str(source), samples=len(samples)
            ),
            config=EvalConfig(),
            task_args={
                name: value for name, value in run.identity.items() if isinstance(value, str | int | float | bool)
            },
            packages={name: str(version) for name, version in (run.manifest.get("versions") or {}).items()},
            metadata={"identity_sha256": run.manifest.get("identity_sha256", "")},
        ),
        results=EvalResults(
            total_samples=len(samples),
            completed_samples=sum(sample.error is None for sample in samples),
            scores=[
                EvalScore(
                    name=task,
                    scorer=", ".join(rules) or task,
                    metrics={_name(metric): _metric(metric) for metric in mine if metric.value is not None},
                )
            ],
            metadata={"counts": dict(run.tasks[task].get("counts", {}))} if run.tasks else None,
        ),
        stats=EvalStats(started_at=created, completed_at=max(begun, default="") or created),
        samples=samples,
    )


def _name(metric: MetricResult) -> str:
    return f"{metric.name} [{metric.where}]" if metric.labels else metric.name


def _metric(metric: MetricResult) -> EvalMetric:
    details: dict[str, Any] = {"denominator": metric.denominator, "value_answered": metric.answered}
    if metric.low is not None:
        details |= {"low": metric.low, "high": metric.high, "level": metric.level, "method": metric.method}
    return EvalMetric(name=_name(metric), value=metric.value or 0.0, metadata=details)


def _sample(run: Run, item: Item, embed: bool) -> EvalSample:
    identifier, repeat = split_repeat(item.key)
    response = item.response
    answer = response.get("response") or {}
    messages = [_message(run, message, embed) for message in (response.get("request") or {}).get("messages", ())]
    error = response.get("error")
    usage = answer.get("usage") or {}
    model = f"lyncean/{run.model_name}"
    used = ModelUsage(
        input_tokens=int(usage.get("input_tokens", 0)),
        output_tokens=int(usage.get("output_tokens", 0)),
        total_tokens=int(usage.get("input_tokens", 0)) + int(usage.get("output_tokens", 0)),
        reasoning_tokens=usage.get("reasoning_tokens"),
        input_tokens_cache_read=usage.get("cached_tokens"),
    )
    said: str | list[Content] = _said(item)
    if thoughts := answer.get("reasoning"):
        said = [ContentReasoning(reasoning=thoughts), ContentText(text=_said(item))]
    output = ModelOutput.from_content(model, said, _STOPS.get(str(answer.get("finish_reason")), "unknown"))
    output.usage = used
    return EvalSample(
        id=identifier,
        epoch=repeat + 1,
        input=messages or "",
        choices=list(item.scoring.get("options", ())) or None,
        target=list(item.scoring.get("targets", ())),
        messages=[*messages, *([] if error else [ChatMessageAssistant(content=said, model=model)])],
        output=output,
        scores=_scores(item),
        metadata={"labels": dict(item.labels), "group": item.group, "outcome": item.outcome,
                  "rule": item.verdict.get("rule") or item.scoring.get("rule", "")},
        model_usage={model: used} if usage else {},
        total_time=response.get("seconds"),
        error=_error(error) if error else None,
    )  # fmt: skip


def _error(found: Mapping[str, Any]) -> EvalError:
    words = f"{found.get('code', '')} {found.get('reason', '')}: {found.get('message', '')}"
    return EvalError(message=words, traceback="", traceback_ansi="")


def _said(item: Item) -> str:
    scores = (item.response.get("response") or {}).get("scores")
    if not scores:
        return item.text
    continuations = (item.response.get("request") or {}).get("continuations", ())
    return "\n".join(f"{s.get('logprob', 0.0)}\t{text}" for text, s in zip(continuations, scores, strict=False))


def _scores(item: Item) -> dict[str, Score] | None:
    if item.score is None:
        return None
    verdict = item.verdict
    explanation = (verdict.get("judge") or {}).get("words") or verdict.get("detail") or verdict.get("reason")
    score = Score(
        value=item.score,
        answer=str(verdict.get("extracted", "")),
        explanation=explanation,
        metadata={
            "outcome": item.outcome,
            **{str(name): value for name, value in (verdict.get("scores") or {}).items()},
        },
    )
    return {item.task: score}


def _message(run: Run, message: Mapping[str, Any], embed: bool) -> ChatMessage:
    content: list[Content] = []
    for part in message.get("parts", ()):
        if "image" in part:
            content.append(ContentImage(image=_medium(run, part["image"], embed)))
        elif "audio" in part:
            mpeg = part["audio"]["media_type"] == "audio/mpeg"
            sound = _medium(run, part["audio"], embed)
            content.append(ContentAudio(audio=sound, format="mp3" if mpeg else "wav"))
        elif "video" in part:
            content.append(ContentVideo(video=_medium(run, part["video"], embed), format="mp4"))
        else:
            content.append(ContentText(text=part.get("text", "")))
    if message.get("role") == "ROLE_SYSTEM":
        return ChatMessageSystem(content=content)
    if message.get("role") == "ROLE_ASSISTANT":
        return ChatMessageAssistant(content=content)
    return ChatMessageUser(content=content)


def _medium(run: Run, medium: Mapping[str, Any], embed: bool) -> str:
    path = run.image(str(medium.get("sha256", "")))
    if path is None:
        return str(medium.get("sha256", ""))
    if not embed:
        return str(path.resolve())
    return f"data:{medium.get('media_type', 'image/png')};base64,{base64.b64encode(path.read_bytes()).decode()}"
