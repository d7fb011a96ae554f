"""Tool calls in the text of open models, by the mark-up of their families. What cannot be read stays text.

Arguments are the text that the model wrote where its mark-up is JSON; mark-up of tags is turned into JSON by the types
of the tool's schema. Nothing is executed.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from lyncean.model.v1 import model_pb2 as model


class Written(NamedTuple):
    """A call as the model wrote it.

    Attributes:
        name: The tool's.
        arguments: JSON text; not always valid.
        id: The call's, where the model writes one.
    """

    name: str
    arguments: str
    id: str = ""


Types = Mapping[str, Mapping[str, Any]]
"""The schema of each argument, by the names of tool and argument."""
Read = Callable[[str, Types], tuple[list[Written], int] | None]
"""Reads calls at the beginning of a text; returns them and where they end, None where there is none."""


class Form(NamedTuple):
    """A family's mark-up.

    Attributes:
        name: The family's.
        opens: What stands before a call; "" where the whole output is calls or none.
        closes: What stands behind it; "" where nothing does.
        read: Reads what is between them.
    """

    name: str
    opens: str
    closes: str
    read: Read

    def pieces(self, text: str, types: Types) -> list[str | Written]:
        """Returns the texts and calls of an output in their order; white space around calls is left out."""
        if not self.opens:
            found = self.read(text.strip(), types)
            return list(found[0]) if found and found[0] and found[1] == len(text.strip()) else [text]
        pieces: list[str | Written] = []
        plain = place = 0  # where the text that is not yet taken begins, and where the next mark is looked for
        while (start := text.find(self.opens, place)) >= 0:
            place = start + len(self.opens)
            close = text.find(self.closes or self.opens, place)
            if close < 0 and self.closes:  # of several marks none of which is closed, the last may have a call
                start = text.rfind(self.opens)
                place = start + len(self.opens)
            calls, end = self._calls(text[place : close if close >= 0 else len(text)], close >= 0, types)
            if calls:
                before = text[plain:start]
                pieces += [before.strip() if pieces else before.rstrip(), *calls]
                plain = place = place + end + (len(self.closes) if close >= 0 else 0)
        if not pieces:
            return [text]
        return [piece for piece in (*pieces, text[plain:].strip()) if piece]

    def _calls(self, body: str, closed: bool, types: Types) -> tuple[list[Written], int]:
        """Returns the calls behind a mark, and where they end; none where it has none."""
        read = self.read if closed or not self.closes else _unclosed.get(self.read, _nothing)
        found = read(body, types)
        if found is None or (self.closes and body[found[1] :].strip()):
            return [], 0
        return found[0], len(body) if self.closes else found[1]


def types_of(tools: Sequence[model.Tool]) -> dict[str, dict[str, Any]]:
    """Returns the schema of each argument of some tools."""
    schemas = {tool.name: json.loads(tool.input_schema) if tool.input_schema else {} for tool in tools}
    found = {name: schema.get("properties") for name, schema in schemas.items()}
    return {name: each if isinstance(each, dict) else {} for name, each in found.items()}


_DECODER = json.JSONDecoder()
_BLANK = re.compile(r"\s*")
_BETWEEN = re.compile(r"\s*;?\s*")
_BROKEN = re.compile(
    r'\s*+\{\s*+"name"\s*+:\s*+"([^"\\]*)"\s*+,\s*+"(?:arguments|parameters)"\s*+:\s*+(.*)\}\s*+', re.DOTALL
)
_MOST_PYTHON = 65_536


def _skip(text: str, start: int, between: re.Pattern[str] = _BLANK) -> int:
    """Returns where some white space ends, or what else may stand between values."""
    found = between.match(text, start)
    return found.end() if found else start


def _value(text: str, start: int) -> tuple[Any, int]:
    """Returns the JSON value behind some white space, and where it ends; raises ValueError where there is none."""
    try:
        return _DECODER.raw_decode(text, _skip(text, start))
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _members(text: str, start: int) -> tuple[dict[str, str], int]:
    """Returns the members of a JSON object as their texts, and where it ends; raises ValueError where it is none."""
    value, end = _value(text, start)
    if not isinstance(value, dict):
        raise ValueError("not an object")
    members: dict[str, str] = {}
    place = text.index("{", start) + 1
    for _ in value:
        key, place = _value(text, place)
        begin = _skip(text, text.index(":", place) + 1)
        _, place = _value(text, begin)
        members[key] = text[begin:place]
        place = _skip(text, place) + 1
    return members, end


def _object(text: str, start: int = 0) -> tuple[Written, int]:
    """Returns the call that a JSON object is, and where it ends; raises ValueError where it is none."""
    members, end = _members(text, start)
    name = json.loads(members.get("name", "null"))
    arguments = members.get("arguments", members.get("parameters", "{}"))
    id_ = json.loads(members.get("id", '""'))
    if not isinstance(name, str):
        raise ValueError("no name")
    if arguments.startswith('"'):  # some write JSON within JSON
        arguments = json.loads(arguments)
    return Written(name, arguments, id_ if isinstance(id_, str) else ""), end


def _hermes(body: str, types: Types) -> tuple[list[Written], int] | None:
    broken = _BROKEN.fullmatch(body)
    return _one(body, types) or (([Written(broken[1], broken[2].strip())], len(body)) if broken else None)


def _one(body: str, types: Types) -> tuple[list[Written], int] | None:
    """Reads a JSON object."""
    try:
        call, end = _object(body)
    except ValueError:
        return None
    return [call], end


def _nothing(body: str, types: Types) -> tuple[list[Written], int] | None:
    return None


_unclosed: dict[Read, Read] = {_hermes: _one}
"""How calls without a closing mark are read, where that can be: JSON shows by itself that it is whole."""


def _llama(body: str, types: Types) -> tuple[list[Written], int] | None:
    calls, place = [], 0
    try:
        while place < len(body):
            call, place = _object(body, place)
            if not call.arguments.startswith("{"):
                return None
            calls.append(call)
            place = _skip(body, place, _BETWEEN)
    except ValueError:
        return None
    return calls, place


def _mistral(body: str, types: Types) -> tuple[list[Written], int] | None:
    """Reads a JSON list of calls; newer models write the name, in between [CALL_ID] and an id, [ARGS], and JSON."""
    if named := re.match(r"\s*([\w.-]+)\s*(?:\[CALL_ID\]\s*(\w+))?\s*(?:\[ARGS\])?\s*(?=\{)", body):
        try:
            _, end = _value(body, named.end())
        except ValueError:
            end = len(body.rstrip())
        return [Written(named[1], body[named.end() : end], named[2] or "")], end
    place = _skip(body, 0)
    if not body.startswith("[", place):
        return None
    calls = []
    try:
        while body[place] != "]":  # behind the bracket, and behind each comma
            call, place = _object(body, place + 1)
            place = _skip(body, place)
            calls.append(call)
            if body[place] not in ",]":
                return None
    except (ValueError, IndexError):
        return None
    return calls, place + 1


def _tagged(value: str, schema: Any) -> Any:
    """Returns the value of an argument that stands between tags: text where its schema says so or it is not JSON."""
    kind = schema.get("type") if isinstance(schema, dict) else None
    if kind == "string":
        return value
    try:
        return json.loads({"True": "true", "False": "false", "None": "null"}.get(value.strip(), value))
    except (ValueError, RecursionError):
        return value


def _tags(name: str, pairs: Sequence[tuple[str, str]], types: Types) -> Written:
    known = types.get(name, {})
    arguments = {key.strip(): _tagged(value, known.get(key.strip())) for key, value in pairs}
    return Written(name, json.dumps(arguments, ensure_ascii=False))


_FUNCTION = re.compile(r"\s*<function=([^>\n]+)>(.*?)</function>", re.DOTALL)
_PARAMETER = re.compile(r"<parameter=([^>\n]+)>\n?(.*?)\n?</parameter>", re.DOTALL)
_GLM_NAME = re.compile(r"\s*([^\s<]+)\s*")
_GLM_PAIR = re.compile(r"<arg_key>(.*?)</arg_key>\s*+<arg_value>(.*?)</arg_value>", re.DOTALL)


def _qwen_coder(body: str, types: Types) -> tuple[list[Written], int] | None:
    if not (found := _FUNCTION.match(body)) or _PARAMETER.sub("", found[2]).strip():
        return None
    return [_tags(found[1].strip(), _PARAMETER.findall(found[2]), types)], found.end()


def _glm(body: str, types: Types) -> tuple[list[Written], int] | None:
    found = _GLM_NAME.match(body)
    if not found or _GLM_PAIR.sub("", body[found.end() :]).strip():
        return None
    return [_tags(found[1], _GLM_PAIR.findall(body[found.end() :]), types)], len(body)


_GEMMA_NAME = re.compile(r"\s*([\w.-]+)\s*(?=\{)")
_GEMMA_WORDS = re.compile(r'<\|"\|>(.*?)<\|"\|>|(?<![\w.-])([A-Za-z_][\w.-]*+)(?=\s*+:)', re.DOTALL)


def _gemma(body: str, types: Types) -> tuple[list[Written], int] | None:
    """Reads a name and an object whose keys stand without quotes, and whose strings have marks in their place."""
    if not (found := _GEMMA_NAME.match(body)):
        return None
    quoted = _GEMMA_WORDS.sub(
        lambda word: json.dumps(word[2] or word[1] or "", ensure_ascii=False), body[found.end() :]
    )
    return [Written(found[1], quoted.strip())], len(body)


def _pythonic(body: str, types: Types) -> tuple[list[Written], int] | None:
    """Reads a list of calls in Python's form. The text is parsed, and never executed."""
    if not (body.startswith("[") and body.endswith("]")) or len(body) > _MOST_PYTHON:
        return None
    try:
        tree = ast.parse(body, mode="eval").body
        calls = [_python_call(each) for each in tree.elts] if isinstance(tree, ast.List) else []
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return None
    return (calls, len(body)) if calls else None


def _python_call(node: ast.expr) -> Written:
    if not isinstance(node, ast.Call) or node.args or not all(each.arg for each in node.keywords):
        raise ValueError("not a call with names")
    values = {str(each.arg): ast.literal_eval(each.value) for each in node.keywords}
    return Written(ast.unparse(node.func), json.dumps(values, ensure_ascii=False))


FORMS = (
    Form("hermes", "<tool_call>", "</tool_call>", _hermes),  # Qwen 2.5 and 3, Qwen3-VL, InternVL on these
    Form("qwen3_coder", "<tool_call>", "</tool_call>", _qwen_coder),  # Qwen3-Coder, Qwen 3.5
    Form("glm", "<tool_call>", "</tool_call>", _glm),  # GLM 4.5 and later
    Form("mistral", "[TOOL_CALLS]", "", _mistral),
    Form("gemma4", "<|tool_call>call:", "<tool_call|>", _gemma),
    Form("llama_json", "", "", _llama),  # Llama 3
    Form("pythonic", "", "", _pythonic),  # Llama 4, Gemma 3
)
"""The families that are known here. Which one a checkpoint's is, its template shows: see `model_server.hf.tools`."""
