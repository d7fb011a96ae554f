"""Run folders as the engine writes them, made of nothing, for the tests of what reads them."""

from __future__ import annotations

import hashlib
import io
import random
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import orjson
from PIL import Image, ImageDraw
from scipy.stats import binomtest

from orchestrator.run_folder.lines import sealed

OUTCOMES = ("scored", "unparsed", "refused", "rejected", "unjudged", "failed")
PATTERNS = {
    "Temporal Movement": ("Sequence", "Two-row", "Matrix", "Group"),
    "Spatial Relationship": ("Sequence", "Two-row", "Matrix", "Group"),
    "Quantities": ("Sequence", "Two-row", "Matrix", "Group"),
    "Mathematical": ("Sequence", "Two-row", "Matrix"),
    "2D-Geometry": ("Sequence", "Two-row", "Matrix", "Group"),
    "3D-Geometry": ("3D",),
}
ANSWERS = (
    "The pattern adds one side in every step, so the missing panel has five sides. The answer is {0}.",
    "{0}",
    "Looking at the rows: the first gains a dot, the second loses one. Choice {0} fits best.",
)


QUESTION = "You are given a puzzle.\nPlease choose the panel that completes it (1-4).\nChoose from 1, 2, 3, 4."


class Writer:
    """Writes one run folder, item by item."""

    def __init__(self, path: Path, model: str = "llava-tiny", seed: int = 0, **identity: Any) -> None:
        self.path, self.model = path, model
        self.responses: list[bytes] = []
        self.verdicts: list[dict[str, Any]] = []
        self.identity = {
            "tasks": ["marvel"], "method": "generate", "seed": seed, "model_name": model, "model_revision": "4b825dc6",
            "data": {"marvel": {"origin": "marvel.parquet", "digest": "9f2c" * 16}},
            "rules": {"choice_number": "ab" * 32},
            "parity": False, "limit": None, **identity,
        }  # fmt: skip
        (path / "images").mkdir(parents=True, exist_ok=True)

    def image(self, data: bytes) -> dict[str, Any]:
        """Stores an image and returns the reference to it."""
        name = hashlib.sha256(data).hexdigest()
        (self.path / "images" / name).write_bytes(data)
        return {"image": {"media_type": "image/png", "sha256": name, "bytes_length": len(data)}}

    def item(
        self,
        key: str,
        *,
        parts: Iterable[Mapping[str, Any]] = ({"text": "What is missing?"},),
        answer: str | None = None,
        outcome: str = "scored",
        score: float | None = None,
        verdict: Mapping[str, Any] | None = None,
        scored: bool = True,
        response: Mapping[str, Any] | None = None,
        error: Mapping[str, str] | None = None,
        rule: str = "choice_number",
        targets: Iterable[str] = ("1",),
        options: Iterable[str] = ("1", "2", "3", "4"),
        labels: Mapping[str, str] | None = None,
        group: str = "",
        params: Mapping[str, Any] | None = None,
        replica: str = "10.0.0.7:50051",
        seconds: float = 0.2,
        started: str = "2026-01-31T09:00:00.000Z",
        method: str = "generate",
        sample: str = "",
        **request: Any,
    ) -> None:
        """Adds a call, and unless `scored` is false its verdict; `sample` is the key's part before ":" if not given."""
        sample = sample or key.partition(":")[0]
        turn = key.removeprefix(sample).removeprefix(":")
        line: dict[str, Any] = {
            "key": key, "sample": sample, "turn": turn, "task": key.partition("/")[0], "method": method,
            "request": {"messages": [{"role": "ROLE_USER", "parts": list(parts)}],
                        "config": {"max_output_tokens": 64, "temperature": 0.0}, **request},
            "replica": replica, "attempts": 1, "seconds": seconds, "started": started,
            "scoring": {"rule": rule, "targets": list(targets), "options": list(options), "params": dict(params or {}),
                        "labels": dict(labels or {}), "group": group} if scored else None,
        }  # fmt: skip
        if error:
            line |= {"outcome": outcome, "error": dict(error)}
        if response or not error:
            line["response"] = response or {
                "parts": [{"text": answer or ""}], "finish_reason": "FINISH_REASON_END_OF_SEQUENCE",
                "usage": {"input_tokens": 640, "output_tokens": 12}, "effective_config": {"max_output_tokens": 64},
            }  # fmt: skip
        self.responses.append(sealed(orjson.dumps(line)) + b"\n")
        if scored:
            item = {"key": key, "outcome": outcome, **(verdict or {})}
            if score is not None:
                item["score"] = score
            self.verdicts.append(
                {**item, "task": line["task"], "rule": rule, "labels": dict(labels or {}), "group": group}
            )

    def close(self, metrics: Mapping[str, list[dict[str, Any]]] | None = None, complete: bool = True) -> Path:
        """Writes the files; accuracy overall is the metric of a task that none is given for."""
        (self.path / "responses.jsonl").write_bytes(b"".join(self.responses))
        (self.path / "verdicts.jsonl").write_bytes(b"".join(sealed(orjson.dumps(v)) + b"\n" for v in self.verdicts))
        digest = hashlib.sha256(orjson.dumps(self.identity, option=orjson.OPT_SORT_KEYS)).hexdigest()
        manifest = {
            "identity": self.identity, "identity_sha256": digest,
            "command": ["orchestrator", "eval", "--task", *self.identity["tasks"], "--data", "marvel.parquet"],
            "versions": {"lyncean": "0.1.0", "python": "3.11.9"},
            "model": {"model_name": self.model, "model_revision": "4b825dc6", "server_version": "lyncean 0.1.0",
                      "capabilities": ["CAPABILITY_LIKELIHOOD", "CAPABILITY_IMAGE_INPUT", "CAPABILITY_GENERATE"],
                      "max_concurrency": 8, "max_context_tokens": 4096, "compute_dtype": "bfloat16",
                      "chat_template_sha256": "c0ffee" * 10, "properties": {"device": "cuda:0"}},
            "replicas": ["10.0.0.7:50051", "10.0.0.8:50051"], "rules": self.identity["rules"],
            "scorer": {"scorer_version": "lyncean 0.1.0"}, "created": "2026-01-31T08:59:58Z",
        }  # fmt: skip
        (self.path / "manifest.json").write_bytes(orjson.dumps(manifest, option=orjson.OPT_INDENT_2))
        if complete:
            tasks = {}
            for task in dict.fromkeys(v["task"] for v in self.verdicts):
                mine = [v for v in self.verdicts if v["task"] == task]
                tasks[task] = {
                    "counts": tally(mine),
                    "metrics": (metrics or {}).get(task) or [accuracy("accuracy", mine)],
                }
            model = {"model_name": self.model, "model_revision": "4b825dc6"}
            results = {"tasks": tasks, "model": model, "manifest_sha256": digest}
            (self.path / "results.json").write_bytes(orjson.dumps(results))
        return self.path


def tally(verdicts: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Counts as proto3 JSON has them: 64-bit integers are strings."""
    outcomes = [v["outcome"] for v in verdicts]
    return {"planned": str(len(outcomes)), **{name: str(outcomes.count(name)) for name in OUTCOMES}}


def accuracy(name: str, verdicts: list[dict[str, Any]], labels: Mapping[str, str] | None = None) -> dict[str, Any]:
    """One metric over verdicts."""
    right, answered = (
        sum(v.get("score", 0) for v in verdicts),
        [v for v in verdicts if v["outcome"] in ("scored", "unparsed")],
    )
    interval = binomtest(int(right), len(verdicts)).proportion_ci(method="wilson")
    return {
        "name": name, "metric": "accuracy", "labels": dict(labels or {}), "value": right / len(verdicts),
        "value_answered": right / len(answered) if answered else None,
        "interval": {"low": float(interval.low), "high": float(interval.high), "level": 0.95, "method": "wilson"},
        "denominator": str(len(verdicts)), "denominator_answered": str(len(answered)), "unit": "fraction",
        "counts": tally(verdicts), "details": {},
    }  # fmt: skip


def sliced(name: str, verdicts: list[dict[str, Any]], *by: tuple[str, ...]) -> list[dict[str, Any]]:
    """The overall metric and one for each slice that occurs."""
    estimates = [accuracy(name, verdicts)]
    for labels in by:
        values = sorted({tuple(v["labels"][label] for label in labels) for v in verdicts})
        for value in values:
            mine = [v for v in verdicts if tuple(v["labels"][label] for label in labels) == value]
            estimates.append(accuracy(name, mine, dict(zip(labels, value, strict=True))))
    return estimates


def puzzle(number: int) -> bytes:
    """A small picture, a different one for each number."""
    draw_from = random.Random(number)
    image = Image.new("L", (180 * 3, 240), 255)
    draw = ImageDraw.Draw(image)
    for column in range(3):
        left = 180 * column
        draw.rectangle((left + 10, 10, left + 170, 170), outline=0, width=2)
        for _ in range(draw_from.randint(1, 5)):
            x, y = left + draw_from.randint(20, 130), draw_from.randint(20, 130)
            draw.ellipse((x, y, x + 30, y + 30), fill=draw_from.choice((0, 128, None)), outline=0)
        draw.text((left + 85, 190), str(column + 1), fill=0)
    data = io.BytesIO()
    image.save(data, "PNG")
    return data.getvalue()


def marvel_run(
    path: Path,
    *,
    puzzles: int = 154,
    pictures: int = 40,
    model: str = "llava-tiny",
    skill: float = 0.35,
    seed: int = 0,
    **identity: Any,
) -> Path:
    """A run of MARVEL's AVR question in which all six outcomes occur."""
    luck, writer = random.Random(seed), Writer(path, model, seed, **identity)
    images = [writer.image(puzzle(number)) for number in range(pictures)]
    cells = [(p, c) for p, entries in PATTERNS.items() for c in entries]
    for number in range(1, puzzles + 1):
        fixed = random.Random(number)
        pattern, configuration = cells[number % len(cells)]
        target, key = str(fixed.randint(1, 4)), f"marvel/{number}:avr"
        common: dict[str, Any] = {
            "parts": [images[number % pictures], {"text": QUESTION}],
            "targets": [target], "labels": {"pattern": pattern, "configuration": configuration, "question": "avr"},
            "group": str(number), "replica": f"10.0.0.{7 + number % 2}:50051",
            "seconds": 0.1 + luck.expovariate(6) * (1 + number % 2),
            "started": f"2026-01-31T09:{number // 60 % 60:02d}:{number % 60:02d}.000Z",
        }  # fmt: skip
        if number % 37 == 0:
            error = {"code": "OUT_OF_RANGE", "reason": "context_overflow", "message": "4,211 tokens, 4,096 fit"}
            writer.item(key, outcome="rejected", error=error, verdict={"reason": "context_overflow"}, **common)
        elif number % 41 == 0:
            writer.item(
                key,
                outcome="failed",
                error={"code": "UNAVAILABLE", "reason": "", "message": "connection lost"},
                **common,
            )
        elif number % 13 == 0:
            writer.item(key, outcome="unparsed", score=0.0, answer="It cannot be determined from the image.",
                        verdict={"reason": "no_choice"}, **common)  # fmt: skip
        elif number % 43 == 0:
            writer.item(key, outcome="refused", score=0.0, answer="I'm sorry, I can't help with that.",
                        verdict={"reason": "declined"}, **common)  # fmt: skip
        else:
            answer = target if luck.random() < skill else luck.choice("1234")
            template = ANSWERS[number % len(ANSWERS)]
            start = template.index("{0}")
            span = {"start": start, "end": start + 1} if start else {"end": 1}
            verdict = {"extracted": answer, "span": span}
            writer.item(key, answer=template.format(answer), score=float(answer == target), verdict=verdict, **common)
    metrics = {"marvel": sliced("AVR", writer.verdicts, ("pattern",), ("configuration",), ("pattern", "configuration"))}
    return writer.close(metrics)
