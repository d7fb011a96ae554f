"""Runs the references of text protocols, as they are, on a scripted model, and keeps what they ask it.

    python tests/helpers/record_transcripts.py deepeyes eval_vstar.py
    python tests/helpers/record_transcripts.py qwen FOLDER-OF-qwen_agent

The script or package is a checkout of the commit that the protocol names, with what it imports; it is never part of
this repository. Writes `tests/fixtures/transcript_NAME.json.xz`.
"""

from __future__ import annotations

import base64
import hashlib
import json
import lzma
import re
import subprocess
import sys
import tempfile
import threading
from collections import defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from helpers.scripted_rows import ScriptedRow, added, joined, mark, rows

FIXTURES = Path(__file__).parents[1] / "fixtures"
_ROW = re.compile(r"\[row (\d+)\]")


class Model(ThreadingHTTPServer):
    """A server of chat completions that says what the rows say, and keeps the requests."""

    def __init__(self, found: list[ScriptedRow]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.rows, self.requests, self.lock = found, defaultdict[int, list[Any]](list), threading.Lock()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.server_port}/v1"

    def says(self, request: dict[str, Any]) -> str:
        """Keeps a request and returns the answer to it."""
        messages = [[message["role"], _pieces(message["content"])] for message in request["messages"]]
        number = int(_ROW.search(json.dumps(messages))[1])
        with self.lock:
            self.requests[number].append(messages)
            return self.rows[number].says(len(self.requests[number]) - 1)


class _Handler(BaseHTTPRequestHandler):
    server: Model

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        stream, message = request.get("stream"), {"role": "assistant", "content": self.server.says(request)}
        choice = {"index": 0, "delta" if stream else "message": message, "finish_reason": "stop"}
        kind = "chat.completion.chunk" if stream else "chat.completion"
        reply = json.dumps({"id": "1", "object": kind, "created": 0, "model": "m", "choices": [choice]})
        reply = f"data: {reply}\n\ndata: [DONE]\n\n" if stream else reply
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream" if stream else "application/json")
        self.end_headers()
        self.wfile.write(reply.encode())

    def log_message(self, *_: object) -> None:
        pass


def _pieces(content: Any) -> list[str]:
    if isinstance(content, str):
        return joined([("text", content)])
    return joined(
        ("text", each["text"])
        if each["type"] == "text"
        else ("image", mark(base64.b64decode(each["image_url"]["url"].split(",", 1)[1])))
        for each in content
    )


def deepeyes(found: list[ScriptedRow], script: Path, folder: Path, model: Model) -> dict[int, str]:
    """Runs the evaluation of V*-Bench; returns its predictions."""
    for row in found:
        place = folder / "bench" / ("direct_attributes" if row.number % 2 else "relative_position")
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{row.number}.jpg").write_bytes(row.image)
        about = {"question": row.question, "options": row.options}
        (place / f"{row.number}.json").write_text(json.dumps(about))
    options = {"model_name": "m", "eval_model_name": "m", "vstar_bench_path": folder / "bench"}
    options |= {"save_path": folder, "api_url": model.url, "num_workers": 2}
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    subprocess.run([sys.executable, script, *words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    lines = (json.loads(line) for file in folder.glob("m/*.jsonl") for line in file.read_text().splitlines())
    return {int(Path(line["image"]).stem): line["pred_ans"] for line in lines}


def qwen(found: list[ScriptedRow], package: Path, folder: Path, model: Model) -> dict[int, str]:
    """Runs the agent that calls functions, with the zoom, row by row; returns the text of its last message."""
    sys.path.insert(0, str(package.parent))
    from qwen_agent.agents import FnCallAgent
    from qwen_agent.tools import image_zoom_in_qwen3vl  # noqa: F401

    llm = {"model": "m", "model_type": "qwenvl_oai", "model_server": model.url, "api_key": "EMPTY"}
    finals = {}
    for row in found:
        place = folder / str(row.number)
        place.mkdir()
        (place / "image_1.jpg").write_bytes(row.image)
        agent = FnCallAgent([{"name": "image_zoom_in_tool", "work_dir": str(place)}], llm, system_message="")
        asked = [{"image": str(place / "image_1.jpg")}, {"text": row.question}]
        said = list(agent.run_nonstream([{"role": "user", "content": asked}]))
        finals[row.number] = said[-1]["content"] if said and said[-1]["role"] == "assistant" else ""
    return finals


def main(name: str, path: str) -> None:
    """Records a protocol's reference."""
    found, place = rows(name), Path(path).resolve()
    files = [place] if place.is_file() else sorted(place.rglob("*.py"))
    hashes = {str(file.relative_to(place.parent)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
    model = Model(found)
    with tempfile.TemporaryDirectory() as folder:
        finals = {"deepeyes": deepeyes, "qwen": qwen}[name](found, place, Path(folder), model)
    kept = [
        {"image": hashlib.sha256(row.image).hexdigest()[:16], "texts": row.texts, "final": finals[row.number],
         "requests": added(model.requests[row.number])}
        for row in found
    ]  # fmt: skip
    content = json.dumps({"files": hashes, "rows": kept}, ensure_ascii=False).encode()
    (FIXTURES / f"transcript_{name}.json.xz").write_bytes(lzma.compress(content, preset=9))
    print(f"{len(kept)} rows, {sum(map(len, model.requests.values()))} requests, {len(content):,} bytes")


if __name__ == "__main__":
    main(*sys.argv[1:])
