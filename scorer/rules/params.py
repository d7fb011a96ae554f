"""Typed access to the parameters of a request."""

from __future__ import annotations

import math
from collections.abc import Sequence

from google.protobuf import struct_pb2

from lyncean.scorer.v1 import scorer_pb2 as pb
from scorer.errors import RequestError


def _param(request: pb.ScoreRequest, name: str) -> struct_pb2.Value | None:
    return request.params.fields.get(name) if request.HasField("params") else None


def strings(request: pb.ScoreRequest, name: str) -> tuple[str, ...]:
    """Returns a parameter that is a list of texts; () if it is missing."""
    value = _param(request, name)
    if value is None:
        return ()
    items = tuple(item.string_value for item in value.list_value.values)
    if value.WhichOneof("kind") != "list_value" or not all(items) or len(set(items)) != len(items):
        raise RequestError(f"{request.rule}: params.{name} must be a list of different texts, for example ['a', 'b']")
    return items


def integer(request: pb.ScoreRequest, name: str, default: int) -> int:
    """Returns a parameter that is a whole number above 0."""
    value = _param(request, name)
    if value is None:
        return default
    number = value.number_value
    if not 1 <= number < 2**53 or number != int(number):
        raise RequestError(f"{request.rule}: params.{name} must be a whole number above zero")
    return int(number)


def real(request: pb.ScoreRequest, name: str, default: float = 0.0, *, most: float = math.inf) -> float:
    """Returns a parameter that is a number from 0 to `most`."""
    value = _param(request, name)
    if value is None:
        return default
    number = value.number_value
    if value.WhichOneof("kind") != "number_value" or not (0 <= number <= most and math.isfinite(number)):
        raise RequestError(
            f"{request.rule}: params.{name} must be a number from 0" + (f" to {most:g}" * (most < math.inf))
        )
    return number


def reals(request: pb.ScoreRequest, name: str, default: tuple[float, ...]) -> tuple[float, ...]:
    """Returns a parameter that is a list of numbers above 0, as long as its default."""
    value = _param(request, name)
    if value is None:
        return default
    numbers = tuple(item.number_value for item in value.list_value.values)
    if len(numbers) != len(default) or not all(0 < number < math.inf for number in numbers):
        raise RequestError(f"{request.rule}: params.{name} must be a list of {len(default)} numbers above 0")
    return numbers


def flag(request: pb.ScoreRequest, name: str, default: bool = False) -> bool:
    """Returns a parameter that is true or false."""
    value = _param(request, name)
    return default if value is None else value.bool_value


def choice(request: pb.ScoreRequest, name: str, allowed: Sequence[str]) -> str:
    """Returns a parameter that is one of `allowed`; the first of them if it is missing."""
    value = _param(request, name)
    word = allowed[0] if value is None else value.string_value
    if word not in allowed:
        raise RequestError(f"{request.rule}: params.{name} is {word!r}: give {' or '.join(allowed)}")
    return word
