"""The two calls of a turn whose task makes tool calls from the model's first answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from lyncean.model.v1 import model_pb2 as model
from orchestrator.engine.trajectory import Ask, Done, Equipped, Play, Trajectory
from orchestrator.errors import ConfigError
from orchestrator.samples import Answer, Call, ToolCall, ToolResult


class LookupTrajectory(Trajectory):
    """The calls of one item so far; arguments and errors as of `Trajectory`.

    Raises:
        ConfigError: If the run has no such tool.
    """

    def __init__(self, equipment: Equipped, call: Call, key: str, decoded: Callable[[Call], Call]) -> None:
        if equipment.lookups.tool not in (tool.describe().name for tool in equipment.play.box.tools):
            raise ConfigError(f"no server of --tools has the tool {equipment.lookups.tool}, which the task calls")
        super().__init__(equipment, call, key, decoded)
        self._lookups, self._equipment, self._decoded = equipment.lookups, equipment.play, decoded
        self._first = self._call
        self._found: list[ToolResult] = []

    @property
    def _play(self) -> Play:
        return self._equipment

    def search(self, labels: Mapping[str, str]) -> None:
        """Adds the facts that the task knows of the results."""
        self.facts |= self._lookups.facts(self._found)

    def _take(self, answer: Answer) -> None:
        if self.answered > 1:
            self._ended = Done(answer)
            return
        listed = enumerate(self._lookups.calls(answer))
        self.calls = tuple(ToolCall(f"call_{number}", self._lookups.tool, arguments) for number, arguments in listed)

    def _next(self, answer: Answer, info: model.GetModelInfoResponse) -> Ask | Done:
        self._found = list(self._results)
        call = self._decoded(self._lookups.follow(self._first, self._found))
        self._call = replace(call, stage=self._first.stage)
        return self._asked(call.messages, len(call.messages), info)
