"""Calls in the text of open models: what is read, what stays text, and that no text breaks the reader."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from model_server.tool_calls import FORMS, Written

FORM = {form.name: form for form in FORMS}
TYPES: dict[str, dict[str, Any]] = {"zoom": {"label": {"type": "string"}, "box": {"type": "array"}}}
ZOOM = Written("zoom", '{"a": 1}')
OPEN = '<tool_call>{"name": "zoom", "arguments": {"a": 1}'

READ: list[tuple[str, str, list[str | Written]]] = [
    ("hermes", f"Look.\n{OPEN}}}</tool_call>", ["Look.", ZOOM]),
    ("hermes", f"{OPEN}}}", [ZOOM]),  # JSON shows by itself that it is whole
    ("hermes", OPEN, [OPEN]),
    ("hermes", f"{OPEN}}}</tool_call>\nand {OPEN}}}</tool_call>", [ZOOM, "and", ZOOM]),
    ("hermes", '<tool_call>{"arguments":{"b" :[2]}, "name": "zoom"}</tool_call>', [Written("zoom", '{"b" :[2]}')]),
    ("hermes", '<tool_call>{"name": "zoom", "arguments": "{\\"a\\": 1}"}</tool_call>', [ZOOM]),
    ("hermes", '<tool_call>{"name": "zoom", "arguments": {a: 1}}</tool_call>', [Written("zoom", "{a: 1}")]),
    ("hermes", '<tool_call>{"name": 7}</tool_call>', ['<tool_call>{"name": 7}</tool_call>']),
    ("hermes", "<tool_call>x</tool_call> <tool_call>", ["<tool_call>x</tool_call> <tool_call>"]),
    (
        "qwen3_coder",
        "<tool_call>\n<function=zoom>\n<parameter=label>\n1\n2\n</parameter>\n<parameter=box>\n[1, 2]\n</parameter>\n"
        "<parameter=new>\nTrue\n</parameter>\n</function>\n</tool_call>",
        [Written("zoom", '{"label": "1\\n2", "box": [1, 2], "new": true}')],
    ),
    ("qwen3_coder", "<tool_call><function=zoom></function>", ["<tool_call><function=zoom></function>"]),
    (
        "glm",
        "<tool_call>zoom<arg_key>box</arg_key><arg_value>nowhere</arg_value></tool_call>",
        [Written("zoom", '{"box": "nowhere"}')],
    ),
    ("glm", "<tool_call>zoom the cup</tool_call>", ["<tool_call>zoom the cup</tool_call>"]),
    (
        "mistral",
        'So: [TOOL_CALLS][{"name": "zoom", "arguments": {"a": 1}, "id": "abcdefghi"}, {"name": "b", "arguments": {}}]',
        ["So:", Written("zoom", '{"a": 1}', "abcdefghi"), Written("b", "{}")],
    ),
    (
        "mistral",
        '[TOOL_CALLS]zoom[CALL_ID]abcdefghi[ARGS]{"a": 1}[TOOL_CALLS]zoom{"a": 1}',
        [Written("zoom", '{"a": 1}', "abcdefghi"), ZOOM],
    ),
    ("mistral", '[TOOL_CALLS]zoom[ARGS]{"a": ', [Written("zoom", '{"a":')]),
    ("mistral", "[TOOL_CALLS][1]", ["[TOOL_CALLS][1]"]),
    (
        "gemma4",
        '<|tool_call>call:zoom{label:<|"|>a: {b}<|"|>,box:[1,2],on:true}<tool_call|>',
        [Written("zoom", '{"label":"a: {b}","box":[1,2],"on":true}')],
    ),
    ("llama_json", '{"name": "zoom", "parameters": {"a": 1}}; {"name": "zoom", "parameters": {"a": 1}}', [ZOOM, ZOOM]),
    (
        "llama_json",
        '{"name": "zoom", "parameters": {"a": 1}} it is',
        ['{"name": "zoom", "parameters": {"a": 1}} it is'],
    ),
    ("llama_json", '{"answer": "A"}', ['{"answer": "A"}']),
    ("pythonic", '[zoom(a=1), box.cut(to=["x", None])]', [ZOOM, Written("box.cut", '{"to": ["x", null]}')]),
    ("pythonic", "[zoom(a=open('x'))]", ["[zoom(a=open('x'))]"]),
    ("pythonic", "[0.1, 0.2]", ["[0.1, 0.2]"]),
]


@pytest.mark.parametrize(("form", "text", "pieces"), READ)
def test_calls_are_read_as_they_are_written(form: str, text: str, pieces: list[str | Written]) -> None:
    assert FORM[form].pieces(text, TYPES) == pieces


MARKS = [mark for form in FORMS for mark in (form.opens, form.closes) if mark]
SCRAPS = [
    *MARKS,
    "<function=zoom>",
    "</function>",
    "<parameter=box>",
    "</parameter>",
    "<arg_key>",
    "</arg_key>",
    "<arg",
]
SCRAPS += ["<arg_value>", "</arg_value>", "[ARGS]", "[CALL_ID]", '<|"|>', '{"name": "zoom"', '"arguments": ', "{", "}"]
SCRAPS += ["[", "]", ",", ":", "zoom", "zoom(", "a=", ")", '"', "\\", " ", "\n", "1e999", "NaN", "\ud83d", "9" * 5000]


@pytest.mark.parametrize("name", sorted(FORM))
@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(SCRAPS) | st.text(max_size=5), max_size=25))
def test_no_text_breaks_a_reader_and_none_is_lost(name: str, scraps: list[str]) -> None:
    text = "".join(scraps)
    pieces = FORM[name].pieces(text, TYPES)
    if not any(isinstance(piece, Written) for piece in pieces):
        assert pieces == [text]
    for piece in pieces:
        if isinstance(piece, Written):
            assert piece.name
            assert isinstance(piece.arguments, str)


@pytest.mark.parametrize("name", sorted(FORM))
@pytest.mark.parametrize(
    "scrap", ["[", "{", '{"a":', "(", "<tool_call>", "[TOOL_CALLS]", " ", "zoom(a=", "<parameter=a>"]
)
def test_long_and_deep_texts_are_read_or_left(name: str, scrap: str) -> None:
    for text in (scrap * 5_000, FORM[name].opens + scrap * 5_000, f"[{scrap * 5_000}]"):
        assert FORM[name].pieces(text, TYPES)


def test_arguments_between_tags_are_json_of_any_text() -> None:
    for value in ('"', "\\", "}</function>", "a\x00b", "é", "{", "NaN"):
        text = f"<tool_call><function=zoom><parameter=label>\n{value}\n</parameter></function></tool_call>"
        pieces = FORM["qwen3_coder"].pieces(text, TYPES)
        if isinstance(pieces[0], Written):
            assert json.loads(pieces[0].arguments) == {"label": value}
