"""Inspect AI logs, one per task, for `inspect view`. Written by Inspect's own library."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lyncean.vocabulary import split_repeat
from lyncean_interop import facts
from orchestrator import ConfigError
from orchestrator.run_folder import STEP, Item, MetricResult, Run, metric_results

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
    "FINISH_REASON_TOOL_CALLS": "tool_calls",
}


def write(run: Run, folder: Path, *, embed: bool) -> list[Path]:
    """Writes one `.eval` log for each task of a run and returns their paths.

    With `embed` the log holds the images; without it names their files in the run folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for task in list(run.tasks) or sorted({item.task for item in run}):
        path = folder / f"{run.name}_{task}.eval"
        write_eval_log(_log(run, task, embed), path, format="eval")
        written.append(path)
    return written


def _log(run: Run, task: str, embed: bool) -> EvalLog:
    binary = all(item.score in (None, 0.0, 1.0) for item in run if item.task == task)
    samples, begun = [], []
    for item in run:
        if item.task == task and item.outcome != STEP:
            samples.append(_sample(run, item, embed, binary))
            begun.append(str(item.response.get("started") or ""))
    # Inspect shows the first metrics, so the overall results come before the slices.
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
            dataset=EvalDataset(name=facts.source(run, task)[0], samples=len(samples)),
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
                    scored_samples=sum(bool(sample.scores) for sample in samples),
                    unscored_samples=sum(not sample.scores for sample in samples),
                    metrics={_name(metric): _metric(metric) for metric in mine if metric.value is not None},
                )
            ],
            metadata={name: dict(run.tasks[task][name]) for name in ("counts", "cut") if name in run.tasks[task]}
            if run.tasks
            else None,
        ),
        stats=EvalStats(started_at=created, completed_at=max(begun, default="") or created),
        samples=samples,
    )


def _name(metric: MetricResult) -> str:
    return f"{metric.name} [{metric.where}]" if metric.labels else metric.name


def _metric(metric: MetricResult) -> EvalMetric:
    """Returns a metric in fractions; slices of a metric form a group that Inspect shows together."""
    answered, low, high = (metric.in_fractions(value) for value in (metric.answered, metric.low, metric.high))
    details: dict[str, Any] = {"denominator": metric.denominator, "value_answered": answered}
    if low is not None:
        details |= {"low": low, "high": high, "level": metric.level, "method": metric.method}
    return EvalMetric(
        name=metric.where or metric.name,
        group=metric.name if metric.labels else None,
        value=metric.in_fractions(metric.value) or 0.0,
        metadata=details,
    )


def _sample(run: Run, item: Item, embed: bool, binary: bool) -> EvalSample:
    identifier, repeat = split_repeat(item.key)
    response = item.response
    answer = response.get("response") or {}
    attachments: dict[str, str] | None = {} if embed else None
    turns = (response.get("request") or {}).get("messages", ())
    messages = [_message(run, message, attachments) for message in turns]
    error = response.get("error") or {}
    failure = f"{error.get('code', '')} {error.get('reason', '')}: {error.get('message', '')}"
    usage = answer.get("usage") or {}
    model = f"lyncean/{run.model_name}"
    used = ModelUsage(
        input_tokens=int(usage.get("input_tokens", 0)),
        output_tokens=int(usage.get("output_tokens", 0)),
        total_tokens=int(usage.get("input_tokens", 0)) + int(usage.get("output_tokens", 0)),
        reasoning_tokens=usage.get("reasoning_tokens"),
        input_tokens_cache_read=usage.get("cached_tokens"),
    )
    content: str | list[Content] = item.answer_text
    if thoughts := answer.get("reasoning"):
        content = [ContentReasoning(reasoning=thoughts), ContentText(text=item.answer_text)]
    output = ModelOutput.from_content(model, content, _STOPS.get(str(answer.get("finish_reason")), "unknown"))
    output.usage = used
    return EvalSample(
        id=identifier,
        epoch=repeat + 1,
        input=messages or "",
        choices=list(item.scoring.get("options", ())) or None,
        target=list(item.scoring.get("targets", ())),
        messages=[*messages, *([] if error else [ChatMessageAssistant(content=content, model=model)])],
        output=output,
        scores=_scores(item, binary),
        attachments=attachments or {},
        metadata={"labels": dict(item.labels), "group": item.group, "outcome": item.outcome,
                  "rule": item.verdict.get("rule") or item.scoring.get("rule", "")},
        model_usage={model: used} if usage else {},
        total_time=response.get("seconds"),
        error=EvalError(message=failure, traceback="", traceback_ansi="") if error else None,
    )  # fmt: skip


def _scores(item: Item, binary: bool) -> dict[str, Score] | None:
    """Returns an item's score: C or I, Inspect's own values, if the task's scores are 0 and 1 alone.

    An item without an answer scores 0, as in the log's metrics: Inspect omits samples without a score from its metrics.
    """
    if (number := item.score_all) is None:
        return None
    verdict = item.verdict
    explanation = (verdict.get("judge") or {}).get("words") or verdict.get("detail") or verdict.get("reason")
    score = Score(
        value=("C" if number else "I") if binary else number,
        answer=str(verdict.get("extracted", "")),
        explanation=explanation,
        metadata={
            "outcome": item.outcome,
            **{str(name): value for name, value in (verdict.get("scores") or {}).items()},
        },
    )
    return {item.task: score}


def _message(run: Run, message: Mapping[str, Any], attachments: dict[str, str] | None) -> ChatMessage:
    content: list[Content] = []
    for part in message.get("parts", ()):
        if "image" in part:
            content.append(ContentImage(image=_medium(run, part["image"], attachments)))
        elif "audio" in part:
            mpeg = part["audio"]["media_type"] == "audio/mpeg"
            sound = _medium(run, part["audio"], attachments)
            content.append(ContentAudio(audio=sound, format="mp3" if mpeg else "wav"))
        elif "video" in part:
            content.append(ContentVideo(video=_medium(run, part["video"], attachments), format="mp4"))
        else:
            content.append(ContentText(text=part.get("text", "")))
    if message.get("role") == "ROLE_SYSTEM":
        return ChatMessageSystem(content=content)
    if message.get("role") == "ROLE_ASSISTANT":
        return ChatMessageAssistant(content=content)
    return ChatMessageUser(content=content)


def _medium(run: Run, medium: Mapping[str, Any], attachments: dict[str, str] | None) -> str:
    """Returns a reference to a medium: to its file, or to the sample's attachments, which hold it once."""
    name = str(medium.get("sha256", ""))
    path = run.image(name)
    if path is None:
        return name
    if attachments is None:
        return str(path.resolve())
    key = name[:32]  # Inspect's viewer recognizes references by the length of its own hashes
    data = base64.b64encode(path.read_bytes()).decode()
    attachments[key] = f"data:{medium.get('media_type', 'image/png')};base64,{data}"
    return f"attachment://{key}"
