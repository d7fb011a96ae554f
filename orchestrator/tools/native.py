"""The contract's own tools: the server tells the model of them, and parses its calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lyncean.model.v1 import model_pb2 as model
from orchestrator.samples import Answer, Call, Message, Part, ToolCall, ToolResult, text_part
from orchestrator.tools.arguments import MAX_CALLS, tool_error
from orchestrator.tools.types import Picture, RemoteCall, Tool, ToolOutput, stored_pictures

_OUTPUT_TOKENS = 4096
"""Least bound on an output: the benchmark's own is often that of a single letter."""


@dataclass(frozen=True, slots=True)
class Native:
    """Calls and results as parts of messages; see `orchestrator.tools.types.Protocol`."""

    name: str = "native"
    max_calls: int = 12
    judged_at_limit: bool = False

    def first(self, call: Call, tools: Sequence[Tool]) -> Call:
        """Returns the request with the tools."""
        config = model.GenerationConfig()
        config.CopyFrom(call.config)
        config.max_output_tokens = max(config.max_output_tokens, _OUTPUT_TOKENS)
        config.ClearField("stop")
        return replace(call, config=config, tools=tuple(tool.describe() for tool in tools))

    def pictures(self, call: Call) -> list[Picture]:
        """Returns the images of a task's request as they are stored."""
        return stored_pictures(call)

    def read(self, answer: Answer) -> tuple[ToolCall, ...]:
        """Returns the calls as the server parsed them; those beyond `MAX_CALLS` without their name."""
        calls = answer.tool_calls
        return calls[:MAX_CALLS] + tuple(replace(call, name="") for call in calls[MAX_CALLS:])

    def again(self, answer: Answer) -> bool:
        """Never: an answer without a call is the last one."""
        return False

    def call(self, call: ToolCall, tools: Sequence[Tool], pictures: Sequence[Picture]) -> ToolOutput | RemoteCall:
        """Runs the tool that the call names."""
        if not call.name:
            return tool_error("The call was not run: it has no name, or {most} were run before.", most=str(MAX_CALLS))
        by_name = {tool.describe().name: tool for tool in tools}
        if tool := by_name.get(call.name):
            return tool.call(call.arguments, pictures)
        return tool_error("There is no tool {name}. The tools are: {names}.", name=call.name, names=", ".join(by_name))

    def next(self, answer: Answer, results: Sequence[ToolResult], turn: int) -> tuple[Message, ...]:
        """Returns the model's message with its calls, and that of the tools."""
        text = (text_part(answer.text),) if answer.text else ()
        calls = tuple(Part(tool_call=call) for call in answer.tool_calls)
        outputs = tuple(Part(tool_result=result) for result in results)
        message = Message(model.ROLE_ASSISTANT, text + calls, answer.reasoning, answer.opaque)
        return message, Message(model.ROLE_TOOL, outputs)

    def final(self, answer: Answer) -> Answer:
        """Returns the answer: the text of a turn without a call."""
        return answer
