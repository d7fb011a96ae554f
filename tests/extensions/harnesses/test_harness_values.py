"""Values of foreign tasks survive their way to the metrics, bit by bit."""

from __future__ import annotations

import base64
import datetime
import io
import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from PIL import Image

from lyncean_harnesses.library import seeded
from lyncean_harnesses.library.values import decode, encode

KEYS = st.one_of(st.text(), st.integers(), st.booleans(), st.none(), st.tuples(st.integers(), st.text()))
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(st.characters(exclude_categories=[])),
    st.binary(),
    st.datetimes(),
    st.dates(),
    st.floats().map(np.float64),
    st.integers(-100, 100).map(np.int32),
    st.lists(st.floats(), max_size=4).map(np.array),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(KEYS, inner, max_size=4),
        st.sets(st.integers(), max_size=4),
    ),
    max_leaves=12,
)


def alike(one: Any, other: Any) -> bool:
    """Returns True if two values are equal in type, order and bits."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return len(one) == len(other) and all(
            alike(a, c) and alike(b, d) for (a, b), (c, d) in zip(one.items(), other.items(), strict=True)
        )
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, (np.ndarray, np.generic)):
        return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    return bool(one == other or (isinstance(one, float) and math.isnan(one) and math.isnan(other)))


@given(VALUES)
def test_a_value_comes_back_as_it_was(value: Any) -> None:
    text = encode(value)
    assert text.isascii()
    assert "\n" not in text
    assert alike(decode(text), value)


def test_what_is_not_kept_is_named() -> None:
    with pytest.raises(TypeError, match=r"builtins\.object is not kept"):
        encode({"a": [object()]})
    for text in ('{"$": "pickle", "v": 1}', '{"$": "bytes"}', "nothing", '{"$": "set", "v": [[1]]}'):
        with pytest.raises(ValueError, match=r"value|Expecting"):
            decode(text)
    assert decode(encode(datetime.date(2024, 2, 29))) == datetime.date(2024, 2, 29)


def test_an_image_is_what_encode_makes_of_it_and_no_other_format() -> None:
    image = Image.frombytes("RGB", (2, 1), b"abcdef")
    assert decode(encode(image)).tobytes() == b"abcdef"
    for kind in ("EPS", "GIF", "TIFF"):
        image.save(buffer := io.BytesIO(), kind)
        with pytest.raises(ValueError, match="cannot identify image file"):
            decode(json.dumps({"$": "image", "v": base64.b64encode(buffer.getvalue()).decode()}))


def test_foreign_randomness_depends_on_its_words_and_leaves_ours_alone() -> None:
    import random

    random.seed(5)
    np.random.seed(5)
    wanted = random.Random(5).random()
    drawn = []
    for text in ("a", "a", "b"):
        with seeded(text):
            drawn.append((random.random(), float(np.random.rand())))
    assert drawn[0] == drawn[1] != drawn[2]
    assert random.random() == wanted
