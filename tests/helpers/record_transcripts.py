"""Runs the references of text protocols, as they are, on a scripted model, and keeps what they ask it.

    python tests/helpers/record_transcripts.py deepeyes eval_vstar.py
    python tests/helpers/record_transcripts.py qwen FOLDER-OF-qwen_agent
    python tests/helpers/record_transcripts.py deepeyesv2 FOLDER-OF-vlmeval/api
    python tests/helpers/record_transcripts.py thyme FOLDER-OF-vlmeval/vlm/thyme

The script or package is a checkout of the commit that the protocol names, with what it imports; it is never part of
this repository. Writes `tests/fixtures/transcript_NAME.json.xz`.
"""

from __future__ import annotations

import base64
import hashlib
import importlib
import json
import lzma
import os
import re
import subprocess
import sys
import tempfile
import threading
import types
from collections import defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from helpers.scripted_rows import ScriptedRow, added, joined, mark, rows, shown

FIXTURES = Path(__file__).parents[1] / "fixtures"
_ROW = re.compile(r"\[row (\d+)\]")
CALL = re.compile(r"# row (\d+) call (\d+)")


class Model(ThreadingHTTPServer):
    """A server of chat completions that says what the rows say, and keeps the requests."""

    def __init__(self, scripted: list[ScriptedRow]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.rows, self.requests, self.lock = scripted, defaultdict[int, list[Any]](list), threading.Lock()
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
        ("text", piece["text"])
        if piece["type"] == "text"
        else ("image", mark(base64.b64decode(piece["image_url"]["url"].split(",", 1)[1])))
        for piece in content
    )


def deepeyes(scripted: list[ScriptedRow], script: Path, folder: Path, model: Model) -> dict[int, str]:
    """Runs the evaluation of V*-Bench; returns its predictions."""
    for row in scripted:
        directory = folder / "bench" / ("direct_attributes" if row.number % 2 else "relative_position")
        directory.mkdir(parents=True, exist_ok=True)
        (directory / f"{row.number}.jpg").write_bytes(row.image)
        about = {"question": row.question, "options": row.options}
        (directory / f"{row.number}.json").write_text(json.dumps(about))
    options = {"model_name": "m", "eval_model_name": "m", "vstar_bench_path": folder / "bench"}
    options |= {"save_path": folder, "api_url": model.url, "num_workers": 2}
    flags = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    subprocess.run([sys.executable, script, *flags], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    lines = (json.loads(line) for file in folder.glob("m/*.jsonl") for line in file.read_text().splitlines())
    return {int(Path(line["image"]).stem): line["pred_ans"] for line in lines}


def qwen(scripted: list[ScriptedRow], package: Path, folder: Path, model: Model) -> dict[int, str]:
    """Runs the agent that calls functions, with the zoom, row by row; returns the text of its last message."""
    sys.path.insert(0, str(package.parent))
    from qwen_agent.agents import FnCallAgent
    from qwen_agent.tools import image_zoom_in_qwen3vl  # noqa: F401

    llm = {"model": "m", "model_type": "qwenvl_oai", "model_server": model.url, "api_key": "EMPTY"}
    finals = {}
    for row in scripted:
        directory = folder / str(row.number)
        directory.mkdir()
        (directory / "image_1.jpg").write_bytes(row.image)
        agent = FnCallAgent([{"name": "image_zoom_in_tool", "work_dir": str(directory)}], llm, system_message="")
        prompt = [{"image": str(directory / "image_1.jpg")}, {"text": row.question}]
        answers = list(agent.run_nonstream([{"role": "user", "content": prompt}]))
        finals[row.number] = answers[-1]["content"] if answers and answers[-1]["role"] == "assistant" else ""
    return finals


class _Sandbox(BaseHTTPRequestHandler):
    """Shows what the rows say that code shows, as the sandbox of DeepEyesV2 tells it."""

    def do_POST(self) -> None:
        code = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["code"]
        stdout, error, images = shown(*map(int, match.groups())) if (match := CALL.search(code)) else ("", "", [])
        shows = {"stdout": stdout, "stderr": error, "images": [base64.b64encode(image).decode() for image in images]}
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"status": "success", "output": shows}).encode())

    def log_message(self, *_: object) -> None:
        pass


def _alone(package: Path, name: str) -> None:
    """Makes a package whose own `__init__` is not run: it would import much that is not needed."""
    module = types.ModuleType(name)
    module.__path__ = [str(package)]
    sys.modules[name] = module


def deepeyesv2(scripted: list[ScriptedRow], package: Path, folder: Path, model: Model) -> dict[int, str]:
    """Runs the wrapper of VLMEvalKit that evaluates the model as an agent; returns its answers."""
    code = ThreadingHTTPServer(("127.0.0.1", 0), _Sandbox)
    threading.Thread(target=code.serve_forever, daemon=True).start()
    os.environ["CODE_SERVER_BASE"] = f"http://127.0.0.1:{code.server_port}/"
    _alone(package.parent, "vlmeval")
    _alone(package, "vlmeval.api")
    module = importlib.import_module("vlmeval.api.vllm_api")
    utils = sys.modules["vlmeval.api.agent_utils"]
    for patched in (module, utils):
        vars(patched).update(ORIGIN_PATH=str(folder), RESIZE_PATH=str(folder / "resized"))
    vars(module)["time"] = vars(utils)["time"] = types.SimpleNamespace(sleep=lambda _: None, time=lambda: 0)
    vars(sys.modules["time"])["sleep"] = lambda _: None
    api = module.VLLMAPIWrapper(model="m", retry=1, wait=0, verbose=False, api_base=model.url.removesuffix("/v1"))
    api.set_inference_mode("agent")
    finals = {}
    for row in scripted:
        (folder / f"{row.number}.png").write_bytes(row.image)
        prompt = [
            {"type": "image", "value": str(folder / f"{row.number}.png")},
            {"type": "text", "value": row.question},
        ]
        answer = api.generate(prompt)
        finals[row.number] = answer["response"] if isinstance(answer, dict) else f"failed: {answer}"
    return finals


def thyme(scripted: list[ScriptedRow], package: Path, folder: Path, model: Model) -> dict[int, str]:
    """Runs the model class of VLMEvalKit on a scripted model; its processor and sandbox are stand-ins."""
    _alone(package.parents[1], "vlmeval")
    _alone(package.parent, "vlmeval.vlm")
    _alone(package, "vlmeval.vlm.thyme")
    sys.modules["vlmeval.vlm.base"] = types.SimpleNamespace(BaseModel=object)  # type: ignore[assignment]
    sys.modules["vlmeval.smp"] = types.SimpleNamespace(listinstr=None)  # type: ignore[assignment]
    sys.modules["qwen_vl_utils"] = types.SimpleNamespace(process_vision_info=lambda _: (None, None))  # type: ignore[assignment]
    module = importlib.import_module("vlmeval.vlm.thyme.model")
    finals = {}
    for row in scripted:
        (folder / f"{row.number}.png").write_bytes(row.image)
        agent = object.__new__(module.Thyme)
        stand_in = _Processor(row, model.requests[row.number], folder)
        vars(module)["execute_code_in_sandbox"] = stand_in.run
        agent.__dict__.update(
            processor=stand_in, model=stand_in, max_iterations=5, max_retry=1, verbose=False, post_process=True,
            generate_kwargs={"stop_strings": []}, temperature=0.01, min_pixels=None, max_pixels=None, system_prompt="",
        )  # fmt: skip
        prompt = [
            {"type": "image", "value": str(folder / f"{row.number}.png")},
            {"type": "text", "value": row.question},
        ]
        answer = agent.generate_inner(prompt)
        finals[row.number] = "" if stand_in.fell_back else answer
    return finals


class _Inputs(dict[str, Any]):
    input_ids = ((0,),)

    def to(self, _: str) -> _Inputs:
        return self


class _Processor:
    """Takes the place of a processor and of a model: keeps what they are asked, and says what a row says."""

    def __init__(self, row: ScriptedRow, requests: list[Any], folder: Path) -> None:
        self.row, self.requests, self.folder, self.fell_back = row, requests, folder, False
        self.tokenizer = types.SimpleNamespace(eos_token_id=1, batch_decode=lambda *_, **__: self._says())

    def apply_chat_template(self, chats: Any, **_: Any) -> list[str]:
        system, prompt, *answers = chats[0]
        if isinstance(system["content"], str) and len(system["content"]) < 100:
            self.fell_back = True  # the prompt without code, after the last try
            return [""]
        messages = [[entry["role"], self._pieces(entry["content"])] for entry in (system, prompt)]
        pieces = (piece for message in answers for piece in message["content"])  # its one message grows
        self.requests.append(messages + [["assistant", self._pieces([piece])] for piece in pieces])
        return [""]

    def _pieces(self, content: Any) -> list[str]:
        if isinstance(content, str):
            return [content]
        path = str(self.folder / f"{self.row.number}.png")
        return joined(
            ("text", piece["text"].replace(path, "/session/image_1.png"))
            if piece["type"] == "text"
            else ("image", mark(Path(piece["image"].removeprefix("file://")).read_bytes()))
            for piece in content
        )

    def __call__(self, **_: Any) -> _Inputs:
        return _Inputs()

    def generate(self, **_: Any) -> list[tuple[int, ...]]:
        return [(0, 2)]

    def _says(self) -> list[str]:
        return [self.row.says(len(self.requests) - 1)]

    def run(self, code: str, *_: Any, **__: Any) -> tuple[list[str], str, str | None, dict[str, Any]]:
        text, error, images = shown(*map(int, CALL.search(code).groups()))  # type: ignore[union-attr]
        if error or not (images or text.strip()):
            return [], "", error or "nothing", {}
        for image in images:
            (self.folder / f"{hashlib.sha256(image).hexdigest()}.png").write_bytes(image)
        paths = [str(self.folder / f"{hashlib.sha256(image).hexdigest()}.png") for image in images]
        return paths or [text.strip()], text, None, {}


def main(name: str, path: str) -> None:
    """Records a protocol's reference."""
    scripted, source = rows(name), Path(path).resolve()
    files = [source] if source.is_file() else sorted(source.rglob("*.py"))
    hashes = {str(file.relative_to(source.parent)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
    model = Model(scripted)
    with tempfile.TemporaryDirectory() as folder:
        run = {"deepeyes": deepeyes, "qwen": qwen, "deepeyesv2": deepeyesv2, "thyme": thyme}[name]
        finals = run(scripted, source, Path(folder), model)
    kept = [
        {"image": hashlib.sha256(row.image).hexdigest()[:16], "texts": row.texts, "final": finals[row.number],
         "requests": added(model.requests[row.number])}
        for row in scripted
    ]  # fmt: skip
    content = json.dumps({"files": hashes, "rows": kept}, ensure_ascii=False).encode()
    (FIXTURES / f"transcript_{name}.json.xz").write_bytes(lzma.compress(content, preset=9))
    print(f"{len(kept)} rows, {sum(map(len, model.requests.values()))} requests, {len(content):,} bytes")


if __name__ == "__main__":
    main(*sys.argv[1:])
