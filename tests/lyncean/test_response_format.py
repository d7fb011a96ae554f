"""Formats of answers: what is well formed, and which texts keep it, the same as other engines read it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, strategies as st

from lyncean.model.v1 import model_pb2 as model
from lyncean.vocabulary.response_format import FormatError, check, keeps, plain_regex

PIECES = ("a", "b", "é", r"\.", r"\n", ".", r"\d", r"\W", "[ab]", "[^a]", r"[\d.-]", r"[\]x]", "/", '"', " ")
EXPRESSIONS = st.recursive(
    st.sampled_from(PIECES),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda pair: f"({pair[0]}|{pair[1]})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{0,2}", "{1,}"])).map(lambda p: f"(?:{p[0]}){p[1]}"),
    ),
    max_leaves=6,
)
"""Regular expressions as the contract has them."""


def schema(text: str) -> model.ResponseFormat:
    return model.ResponseFormat(json_schema=text)


@given(EXPRESSIONS, st.text("ab.é1\n]-/ ", max_size=5))
def test_an_expression_means_what_it_does_elsewhere(regex: str, text: str) -> None:
    form = model.ResponseFormat(regex=regex)
    check(form)
    matches = re.fullmatch(regex, text, re.ASCII) is not None
    assert keeps(form, text) is matches
    assert (re.fullmatch(plain_regex(regex), text) is not None) is matches


LOOKING = ("^a", "a$", r"a\b", "(?=a)", "(?i)a", "(?P<n>a)", r"(a)\1")
SIGNS = (r"\x41", r"\pL", "[[:alpha:]]", "[a&&b]", "[a--b]", r"[\D]", "[]", "[z-a]")
REPEATED = ("a+?", "a*+", "a{2}{3}", "a|*", "a{", "a{1001}", "((a{999}){999}){9}")


@pytest.mark.parametrize("regex", [*LOOKING, *SIGNS, *REPEATED, "(a", "a)", "a" * 4097])
def test_more_than_the_contract_has_is_refused(regex: str) -> None:
    with pytest.raises(FormatError, match="regex: "):
        check(model.ResponseFormat(regex=regex))


@pytest.mark.parametrize(
    ("form", "message"),
    [
        (model.ResponseFormat(), "neither choices nor regex nor json_schema is set"),
        (model.ResponseFormat.FromString(b"\x9a\x06\x01x"), "one that this server does not know"),
        (model.ResponseFormat(choices={}), "there are none"),
        (model.ResponseFormat(choices={"texts": ["a", ""]}), "number 1 is empty"),
        (model.ResponseFormat(choices={"texts": ["\na"]}), "number 0 is empty or begins with white space"),
        (model.ResponseFormat(choices={"texts": ["a"] * 1025}), "1,025 of them, the limit is 1,024"),
        (model.ResponseFormat(choices={"texts": ["é" * 40_000]}), "80,000 bytes, the limit is 65,536"),
        (schema("nothing"), "not JSON"),
        (schema('{"const": NaN}'), "not JSON: NaN"),
        (schema("[" * 60_000), "nested too deeply"),
        (schema('{"type": "word"}'), r"\$\.type: 'word' is not valid"),
        (schema('{"items": {"$ref": "https://example.org/s.json"}}'), "refers to another document"),
        (schema('{"patternProperties": {"(a+)+$": {}}}'), "it has patternProperties"),
        (schema(f'"{"x" * 65_536}"'), "65,538 bytes, the limit is 65,536"),
    ],
)
def test_what_is_no_format_is_refused_with_a_reason(form: model.ResponseFormat, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        check(form)


@pytest.mark.parametrize(
    ("form", "text", "kept"),
    [
        (model.ResponseFormat(choices={"texts": ["A", "B"]}), "A", True),
        (model.ResponseFormat(choices={"texts": ["A", "B"]}), " A", False),
        (schema('{"type": "object", "required": ["a"]}'), '{"a": 1}', True),
        (schema('{"type": "object", "required": ["a"]}'), "{}", False),
        (schema('{"type": "object"}'), "{} ", True),
        (schema("true"), "NaN", False),
        (schema("true"), "[" * 60_000, False),
        (schema('{"$ref": "#/$defs/n", "$defs": {"n": {"type": "integer"}}}'), "3", True),
        (schema('{"$ref": "#/$defs/m"}'), "3", False),
        (schema('{"pattern": "(a+)+$"}'), f'"{"a" * 40}b"', False),
    ],
)
def test_a_text_keeps_a_format_or_does_not(form: model.ResponseFormat, text: str, kept: bool) -> None:
    check(form)
    assert keeps(form, text) is kept
