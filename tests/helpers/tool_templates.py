"""Chat templates with the mark-up of tools that families of models have, short."""

from __future__ import annotations

_TEXT = (
    "{% macro words(content) %}{% if content is string %}{{ content }}{% else %}{% for c in content %}"
    "{% if c.type == 'image' %}IMAGE{% else %}{{ c.text }}{% endif %}{% endfor %}{% endif %}{% endmacro %}"
)
_TOOLS = "{% if tools %}<|im_start|>system\n{% for t in tools %}{{ t | tojson }}\n{% endfor %}<|im_end|>\n{% endif %}"
_PROMPT = "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"


def _chat(calls: str, results: str, tools: str = _TOOLS, more: str = "") -> str:
    return (
        _TEXT
        + tools
        + "{% for m in messages %}{% if m.role == 'tool' %}"
        + results
        + "{% else %}<|im_start|>{{ m.role }}\n"
        + more
        + "{{ words(m.content) }}{% for c in m.tool_calls or [] %}{% set f = c.function %}"
        + calls
        + "{% endfor %}<|im_end|>\n{% endif %}{% endfor %}"
        + _PROMPT
    )


_JSON = '{{ "\n" }}<tool_call>\n{"name": "{{ f.name }}", "arguments": {{ ARGUMENTS }}}\n</tool_call>'
_IN_RESULT = "<|im_start|>user\n<tool_response>\n{{ words(m.content) }}\n</tool_response><|im_end|>\n"
_THOUGHTS = "{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n\n{% endif %}"
_AS_WRITTEN = "f.arguments if f.arguments is string else f.arguments | tojson"

HERMES = _chat(_JSON.replace("ARGUMENTS", _AS_WRITTEN), _IN_RESULT, more=_THOUGHTS)
HERMES_JSON = _chat(_JSON.replace("ARGUMENTS", "f.arguments | tojson"), _IN_RESULT)
CODER = _chat(
    "{{ '\n' }}<tool_call>\n<function={{ f.name }}>\n{% for k, v in f.arguments | items %}<parameter={{ k }}>\n"
    "{{ v if v is string else v | tojson }}\n</parameter>\n{% endfor %}</function>\n</tool_call>",
    _IN_RESULT,
)
GLM = _chat(
    "{{ '\n' }}<tool_call>{{ f.name }}\n{% for k, v in f.arguments.items() %}<arg_key>{{ k }}</arg_key>\n"
    "<arg_value>{{ v if v is string else v | tojson }}</arg_value>\n{% endfor %}</tool_call>",
    "<|observation|>\n<tool_response>\n{{ m.content }}\n</tool_response>\n",
)
MISTRAL = _chat(
    "{% if c.id | length != 9 %}{{ raise_exception('ids have nine signs') }}{% endif %}"
    "{{ '[TOOL_CALLS] [' if loop.first else ', ' }}"
    '{"name": "{{ f.name }}", "arguments": {{ f.arguments | tojson }}, "id": "{{ c.id }}"}'
    "{{ ']' if loop.last }}",
    '[TOOL_RESULTS] {"content": {{ m.content }}, "call_id": "{{ m.tool_call_id }}"}[/TOOL_RESULTS]',
)
GEMMA = _chat(
    "<|tool_call>call:{{ f.name }}{{ '{' }}{% for k, v in f.arguments.items() %}{{ ',' if not loop.first }}{{ k }}:"
    "{% if v is string %}<|\"|>{{ v }}<|\"|>{% else %}{{ v | tojson }}{% endif %}{% endfor %}{{ '}' }}<tool_call|>",
    '<|tool_response>response:{{ m.name }}{value:<|"|>{{ words(m.content) }}<|"|>}<tool_response|>',
).replace("{{ words(m.content) }}{% for c", "{{ words(m.content) if not m.tool_calls }}{% for c")
LLAMA = (
    "{% if tools %}{{ tools | tojson(indent=2) }}{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}<|im_end|>\n\n"
    "{% if 'tool_calls' in m %}{% if m.tool_calls | length != 1 %}{{ raise_exception('one at a time') }}{% endif %}"
    '{"name": "{{ m.tool_calls[0].function.name }}", "parameters": {{ m.tool_calls[0].function.arguments | tojson }}}'
    "{% elif m.role == 'tool' %}{{ m.content | tojson }}{% else %}{{ m.content }}{% endif %}</s>{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant<|im_end|>\n\n{% endif %}"
)
IMAGES_BEHIND = HERMES.replace("{{ words(m.content) }}\n</tool_response>", "{{ m.content }}\n</tool_response>")
"""Takes a text as a result; images stand in messages of the user alone."""

DROPS_TOOLS = _chat(_JSON.replace("ARGUMENTS", _AS_WRITTEN), _IN_RESULT, tools="")
DROPS_CALLS = _chat("", _IN_RESULT)
DROPS_RESULTS = _chat(_JSON.replace("ARGUMENTS", _AS_WRITTEN), "<tool_response></tool_response>")
PRINTS_PARTS = HERMES.replace("words(m.content)", "m.content")
DROPS_ARGUMENTS = _chat('<tool_call>{"name": "{{ f.name }}", "arguments": {}}</tool_call>', _IN_RESULT)
