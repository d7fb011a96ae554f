"""Reads tool calls from the text of open models, by the mark-up of their families. Unreadable calls stay text.

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
        name: The tool's name.
        arguments: JSON text; not always valid.
        id: The call's id, if the model writes one.
    """

    name: str
    arguments: str
    id: str = ""


Types = Mapping[str, Mapping[str, Any]]
"""The schema of each argument, by the names of tool and argument."""
Read = Callable[[str, Types], tuple[list[Written], int] | None]
"""Reads calls at the beginning of a text; returns them and the index of their end, None without a call."""


class Form(NamedTuple):
    """A family's mark-up.

    Attributes:
        name: The family's name.
        opens: The mark before a call; "" if the output consists of calls alone or has none.
        closes: The mark after it; "" if there is none.
        read: Reads the text between them.
    """

    name: str
    opens: str
    closes: str
    read: Read

    def pieces(self, text: str, types: Types) -> list[str | Written]:
        """Returns the texts and calls of an output in their order; white space around calls is left out."""
        if not self.opens:
            reading = self.read(text.strip(), types)
            return list(reading[0]) if reading and reading[0] and reading[1] == len(text.strip()) else [text]
        pieces: list[str | Written] = []
        plain = position = 0  # start of the text not yet taken; start of the search for the next mark
        while (start := text.find(self.opens, position)) >= 0:
            position = start + len(self.opens)
            close = text.find(self.closes or self.opens, position)
            if close < 0 and self.closes:  # of several marks none of which is closed, the last may have a call
                start = text.rfind(self.opens)
                position = start + len(self.opens)
            calls, end = self._calls(text[position : close if close >= 0 else len(text)], close >= 0, types)
            if calls:
                before = text[plain:start]
                pieces += [before.strip() if pieces else before.rstrip(), *calls]
                plain = position = position + end + (len(self.closes) if close >= 0 else 0)
        if not pieces:
            return [text]
        return [piece for piece in (*pieces, text[plain:].strip()) if piece]

    def _calls(self, body: str, closed: bool, types: Types) -> tuple[list[Written], int]:
        """Returns the calls after a mark and the index of their end; an empty list if there are none."""
        read = self.read if closed or not self.closes else _unclosed.get(self.read, _nothing)
        reading = read(body, types)
        if reading is None or (self.closes and body[reading[1] :].strip()):
            return [], 0
        return reading[0], len(body) if self.closes else reading[1]


def types_of(tools: Sequence[model.Tool]) -> dict[str, dict[str, Any]]:
    """Returns the schema of each argument of some tools."""
    schemas = {tool.name: json.loads(tool.input_schema) if tool.input_schema else {} for tool in tools}
    properties = {name: schema.get("properties") for name, schema in schemas.items()}
    return {name: types if isinstance(types, dict) else {} for name, types in properties.items()}


_DECODER = json.JSONDecoder()
_BLANK = re.compile(r"\s*")
_BETWEEN = re.compile(r"\s*;?\s*")
_BROKEN = re.compile(
    r'\s*+\{\s*+"name"\s*+:\s*+"([^"\\]*)"\s*+,\s*+"(?:arguments|parameters)"\s*+:\s*+(.*)\}\s*+', re.DOTALL
)
_MOST_PYTHON = 65_536


def _skip(text: str, start: int, between: re.Pattern[str] = _BLANK) -> int:
    """Returns the end of the white space, or of another separator between values."""
    blank = between.match(text, start)
    return blank.end() if blank else start


def _value(text: str, start: int) -> tuple[Any, int]:
    """Returns the JSON value after white space and the index of its end; raises ValueError if there is none."""
    try:
        return _DECODER.raw_decode(text, _skip(text, start))
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _members(text: str, start: int) -> tuple[dict[str, str], int]:
    """Returns the members of a JSON object as texts and the index of its end; raises ValueError for other text."""
    value, end = _value(text, start)
    if not isinstance(value, dict):
        raise ValueError("not an object")
    members: dict[str, str] = {}
    position = text.index("{", start) + 1
    for _ in value:
        key, position = _value(text, position)
        begin = _skip(text, text.index(":", position) + 1)
        _, position = _value(text, begin)
        members[key] = text[begin:position]
        position = _skip(text, position) + 1
    return members, end


def _object(text: str, start: int = 0) -> tuple[Written, int]:
    """Returns the call that a JSON object describes and the index of its end; raises ValueError for other text."""
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
"""Readers of calls without a closing mark: a JSON object shows by itself where it ends."""


def _llama(body: str, types: Types) -> tuple[list[Written], int] | None:
    calls, position = [], 0
    try:
        while position < len(body):
            call, position = _object(body, position)
            if not call.arguments.startswith("{"):
                return None
            calls.append(call)
            position = _skip(body, position, _BETWEEN)
    except ValueError:
        return None
    return calls, position


def _mistral(body: str, types: Types) -> tuple[list[Written], int] | None:
    """Reads a JSON list of calls; newer models write the name, in between [CALL_ID] and an id, [ARGS], and JSON."""
    if named := re.match(r"\s*([\w.-]+)\s*(?:\[CALL_ID\]\s*(\w+))?\s*(?:\[ARGS\])?\s*(?=\{)", body):
        try:
            _, end = _value(body, named.end())
        except ValueError:
            end = len(body.rstrip())
        return [Written(named[1], body[named.end() : end], named[2] or "")], end
    position = _skip(body, 0)
    if not body.startswith("[", position):
        return None
    calls = []
    try:
        while body[position] != "]":  # after the bracket, and after each comma
            call, position = _object(body, position + 1)
            position = _skip(body, position)
            calls.append(call)
            if body[position] not in ",]":
                return None
    except (ValueError, IndexError):
        return None
    return calls, position + 1


def _tagged(value: str, schema: Any) -> Any:
    """Returns the value of an argument between tags: text if its schema says so or it is not JSON."""
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
    if not (match := _FUNCTION.match(body)) or _PARAMETER.sub("", match[2]).strip():
        return None
    return [_tags(match[1].strip(), _PARAMETER.findall(match[2]), types)], match.end()


def _glm(body: str, types: Types) -> tuple[list[Written], int] | None:
    match = _GLM_NAME.match(body)
    if not match or _GLM_PAIR.sub("", body[match.end() :]).strip():
        return None
    return [_tags(match[1], _GLM_PAIR.findall(body[match.end() :]), types)], len(body)


_GEMMA_NAME = re.compile(r"\s*([\w.-]+)\s*(?=\{)")
_GEMMA_WORDS = re.compile(r'<\|"\|>(.*?)<\|"\|>|(?<![\w.-])([A-Za-z_][\w.-]*+)(?=\s*+:)', re.DOTALL)


def _gemma(body: str, types: Types) -> tuple[list[Written], int] | None:
    """Reads a name and an object with unquoted keys, whose strings have marks in place of quotes."""
    if not (match := _GEMMA_NAME.match(body)):
        return None
    quoted = _GEMMA_WORDS.sub(
        lambda word: json.dumps(word[2] or word[1] or "", ensure_ascii=False), body[match.end() :]
    )
    return [Written(match[1], quoted.strip())], len(body)


def _pythonic(body: str, types: Types) -> tuple[list[Written], int] | None:
    """Reads a list of calls in Python's form. The text is parsed, and never executed."""
    if not (body.startswith("[") and body.endswith("]")) or len(body) > _MOST_PYTHON:
        return None
    try:
        tree = ast.parse(body, mode="eval").body
        calls = [_python_call(element) for element in tree.elts] if isinstance(tree, ast.List) else []
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return None
    return (calls, len(body)) if calls else None


def _python_call(node: ast.expr) -> Written:
    if not isinstance(node, ast.Call) or node.args or not all(keyword.arg for keyword in node.keywords):
        raise ValueError("not a call with names")
    values = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in node.keywords}
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
"""The known families. A checkpoint's template shows which one it uses: see `model_server.hf.tools`."""
