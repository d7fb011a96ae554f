"""Checks the arguments of a call against the tool's schema before the tool gets them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from lyncean.errors import UserError
from lyncean.model.v1 import model_pb2 as model

_MOST_CHARACTERS = 500


class Checked:
    """Checks the arguments of tools.

    Args:
        tools: The tools with their schemas.

    Raises:
        UserError: If a schema is not a JSON Schema of an object.
    """

    def __init__(self, tools: list[model.Tool]) -> None:
        self._errors = {tool.name: _checker(tool) for tool in tools}

    def problem(self, name: str, arguments: str) -> str:
        """Returns the mistake in a call's arguments, for the model to read; "" without one."""
        try:
            value = json.loads(arguments, parse_constant=_refuse)
        except (ValueError, RecursionError) as error:
            return f"The arguments of {name} are not JSON: {error}"
        violation = self._errors[name](value)
        return f"The arguments of {name} do not fit its schema: {violation[:_MOST_CHARACTERS]}" if violation else ""


def _checker(tool: model.Tool) -> Callable[[Any], str]:
    """Returns a function that describes the first violation of a tool's schema by a value; "" without one."""
    from jsonschema import SchemaError, validators
    from referencing import Registry

    try:
        schema = json.loads(tool.input_schema or '{"additionalProperties": false}')
        if not isinstance(schema, dict):
            raise ValueError("it is not an object")
        kind = validators.validator_for(schema, default=validators.validator_for({}))
        kind.check_schema(schema)
    except (ValueError, SchemaError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"the schema of tool {tool.name!r} cannot be used: {reason}") from error
    # An empty registry: the library's default one fetches schemas by their address.
    validator = kind(schema, registry=Registry())

    def check(value: Any) -> str:
        if not isinstance(value, dict):
            return "they are not an object"
        try:
            violation = next(validator.iter_errors(value), None)
        except RecursionError:
            return "they are nested too deep"
        return str(violation.message) if violation else ""

    return check


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")
