"""A model server that operates what an agentic task of lmms-eval describes, each row in a manner of its own.

Each answer follows from the request alone. `python tests/helpers/operating_server.py --port 0`.
"""

from __future__ import annotations

import json
import re

from model_server.kit import Model, Output, Request, main

TOOLS = {
    "vending": [("get_vending_status", {}), ("restock", {"units": 5}), ("simulate_days", {"days": 20})],
    "line": [("get_line_status", {}), ("disable_airplane_mode", {}), ("enable_roaming", {}), ("reset_network", {})],
}


def tool_call(name: str, arguments: object) -> str:
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


class Operating(Model):
    """Knows how far it is by the length of what its request says of the state."""

    name = "operating"
    revision = "1"
    max_context_tokens = 1 << 20
    max_concurrency = 8

    def generate(self, request: Request) -> Output:
        (text,) = ("".join(part.text for part in message.parts) for message in request.messages)
        manner = re.search(r"manner (\w+)", text)[1]
        steps = TOOLS["vending" if "vending" in text else "line"]
        last = re.search(r"^Tool result: (.*)$", text, re.MULTILINE)
        match manner:
            case "stubborn":
                return Output(tool_call(*steps[0]))
            case "silent" if not last:
                return Output("I wonder what to do.")
            case "unknown" if not last:
                return Output(tool_call("__import__('os').abort()", {"days": "1"}))
            case "damaged":
                return Output("<tool_call>[1]</tool_call>")
            case "thorough" if not last:
                return Output("".join(tool_call(*step) for step in steps))
        return Output('<submit>{"final": "done"}</submit>')


if __name__ == "__main__":
    main(Operating)
