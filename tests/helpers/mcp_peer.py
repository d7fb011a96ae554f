"""An MCP server over stdio in a few lines, which also does what no server should: see `TOOLS`."""

from __future__ import annotations

import base64
import json
import os
import sys
from pathlib import Path
from typing import Any

_IMAGE = {"type": "string", "description": "An image."}
TOOLS: dict[str, tuple[str, dict[str, Any]]] = {
    "count": ("Counts its calls.", {}),
    "environment": ("Names the environment.", {}),
    "size": ("Tells the bytes of an image.", {"image": _IMAGE}),
    "size_of_bytes": ("The same.", {"image": {"type": "array", "items": {"type": "integer"}}}),
    "size_of_file": ("The same, with the path.", {"image": _IMAGE}),
    "show": ("Shows an image again, and further content.", {"image": _IMAGE}),
    "structured": ("Answers without content.", {}),
    "fail": ("Is an error for the model.", {}),
    "refuse": ("Refuses its arguments.", {}),
    "break": ("Is an error of the protocol.", {}),
    "die": ("Ends the server.", {}),
    "hang": ("Does not answer.", {}),
    "change": ("Changes the list of tools.", {}),
    "flood": ("Writes a message without an end.", {}),
    "not_base64": ("Returns an image that is none.", {}),
    "noise": ("Writes other things than messages, and controls to stderr.", {}),
}
_state = {"count": 0, "changed": 0}


def _text(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}]}


def _call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    image = arguments.get("image")
    match name:
        case "count":
            _state["count"] += 1
            return _text(f"{_state['count']}")
        case "environment":
            return _text(json.dumps(dict(os.environ)))
        case "size":
            return _text(f"{len(base64.b64decode(str(image)))} bytes")
        case "size_of_bytes":
            return _text(f"{len(bytes(image or ()))} bytes")
        case "size_of_file":
            return _text(f"{Path(str(image)).stat().st_size} bytes in {image}")
        case "show":
            about = {"uri": "file:///a", "mimeType": "text/plain", "text": "inside"}
            content = [
                {"type": "image", "data": image, "mimeType": "image/png"},
                {"type": "resource", "resource": about},
                {"type": "resource_link", "uri": "file:///b", "name": "b"},
                {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
                {"type": "image", "data": "AAAA", "mimeType": "image/png"},
            ]
            return {"content": content}
        case "structured":
            return {"content": [], "structuredContent": {"answer": 7}}
        case "fail":
            return _text("no such thing") | {"isError": True}
        case "not_base64":
            return {"content": [{"type": "image", "data": "?", "mimeType": "image/png"}]}
        case "noise":
            print("hello", flush=True)
            print("\x1b[31mred", file=sys.stderr, flush=True)
            return _text("quiet")
        case "change":
            _state["changed"] = 1
            return _text("changed")
        case "die":
            os._exit(1)
        case "flood":
            while True:
                sys.stdout.write("x" * (1 << 20))
        case "hang":
            sys.stdin.read()
    raise ValueError(name)


def _answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    if method == "initialize":
        version = params["protocolVersion"]
        return {
            "protocolVersion": version,
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "peer", "version": "1"},
        }
    if method == "tools/list":
        more = " Now differently." if _state["changed"] else ""
        return {
            "tools": [
                {
                    "name": name,
                    "description": about + more,
                    "inputSchema": {"type": "object", "properties": properties, "required": list(properties)},
                    "annotations": {"readOnlyHint": name != "change"},
                }
                for name, (about, properties) in TOOLS.items()
            ]
        }
    return _call(params["name"], params.get("arguments") or {})


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        method, params = message["method"], message.get("params") or {}
        codes = {"refuse": -32602, "break": -32603}
        answer: dict[str, Any]
        if method not in ("initialize", "tools/list", "tools/call"):
            answer = {"error": {"code": -32601, "message": "no such method"}}
        elif method == "tools/call" and params["name"] in codes:
            answer = {"error": {"code": codes[params["name"]], "message": f"{params['name']}d"}}
        else:
            answer = {"result": _answer(method, params)}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)


if __name__ == "__main__":
    main()
