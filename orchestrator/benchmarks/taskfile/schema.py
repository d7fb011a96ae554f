"""What a task file may say."""

from __future__ import annotations

from typing import Any

_TEXT = {"type": "string", "minLength": 1}
_NAMES = {"type": "array", "items": _TEXT, "minItems": 1}
_ONE_OR_MORE = {"anyOf": [_TEXT, _NAMES]}

SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["data", "answer"],
    "additionalProperties": False,
    "properties": {
        "task": {"type": "string", "pattern": r"^[A-Za-z0-9][A-Za-z0-9_.-]*$"},
        "about": _TEXT,
        "data": _TEXT,
        "split": _TEXT,
        "config": _TEXT,
        "id": _TEXT,
        "image": _ONE_OR_MORE,
        "question": _TEXT,
        "options": _ONE_OR_MORE,
        "answer": _TEXT,
        "answer_is": {"enum": ["letter", "number", "index", "text"]},
        "labels": _ONE_OR_MORE,
        "group": _TEXT,
        "system": _TEXT,
        "prompt": _TEXT,
        "decoding": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "max_output_tokens": {"type": "integer", "minimum": 1, "maximum": 2**31 - 1},
                "temperature": {"type": "number", "minimum": 0},
                "top_p": {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
                "top_k": {"type": "integer", "minimum": 0, "maximum": 2**31 - 1},
                "stop": {"type": "array", "items": _TEXT},
            },
        },
        "likelihood": {
            "type": "object",
            "additionalProperties": False,
            "properties": {"score": {"enum": ["text", "letter"]}, "prompt": _TEXT},
        },
        "rule": _TEXT,
        "params": {"type": "object"},
        "metrics": {
            "type": "array",
            "minItems": 1,
            "items": {
                "anyOf": [
                    _TEXT,
                    {
                        "type": "object",
                        "required": ["metric"],
                        "additionalProperties": False,
                        "properties": {
                            "name": _TEXT,
                            "metric": _TEXT,
                            "by": _ONE_OR_MORE,
                            "where": {"type": "object", "additionalProperties": _ONE_OR_MORE},
                            "params": {"type": "object"},
                        },
                    },
                ]
            },
        },
    },
}
"""JSON Schema of a task file; docs/add-a-benchmark.md says what each key means."""
