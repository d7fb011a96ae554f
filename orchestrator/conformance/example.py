"""An example of a JSON Schema: arguments by which a tool is tried out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_DEPTH = 8
_LONGEST = 1000
"""Largest number of characters or elements in an example, even if its schema demands more."""


def example(schema: Any, root: Mapping[str, Any] | None = None, depth: int = 0) -> Any:
    """Returns a value that fits a schema, as far as types, required fields, bounds, choices and references say.

    Args:
        schema: The schema.
        root: The whole schema, to which references refer.
        depth: Levels above it.
    """
    if not isinstance(schema, Mapping) or depth > _DEPTH:
        return None
    root = schema if root is None else root
    reference = schema.get("$ref")
    if isinstance(reference, str):
        return example(_referred(root, reference), root, depth + 1)
    for name in ("const", "default"):
        if name in schema:
            return schema[name]
    if schema.get("enum"):
        return schema["enum"][0]
    for name in ("anyOf", "oneOf", "allOf"):
        if schema.get(name):
            return example(schema[name][0], root, depth + 1)
    return _of_type(schema, root, depth)


def _of_type(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> Any:
    kind = schema.get("type", "object" if "properties" in schema or not depth else "string")
    kind = kind[0] if isinstance(kind, list) else kind
    match kind:
        case "object":
            properties = schema.get("properties", {})
            return {name: example(properties.get(name, {}), root, depth + 1) for name in schema.get("required", ())}
        case "array":
            return [example(schema.get("items", {}), root, depth + 1)] * min(schema.get("minItems", 0), _LONGEST)
        case "integer" | "number":
            return schema.get("minimum", schema.get("exclusiveMinimum", 0) + 1)
        case "boolean":
            return True
        case "null":
            return None
    return "a" * min(max(1, schema.get("minLength", 1)), _LONGEST)


def _referred(root: Mapping[str, Any], reference: str) -> Any:
    value: Any = root
    for word in reference.removeprefix("#/").split("/"):
        value = value.get(word, {}) if isinstance(value, Mapping) else {}
    return value
