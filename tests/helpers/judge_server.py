"""A real HTTP server that behaves like a vendor's judge endpoint, faults included."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import Any

Answer = Callable[[str], dict[str, Any]]


@dataclass
class Vendor:
    """Behaviour of the server.

    Attributes:
        answer: Makes the reply's object from the user's text.
        faults: Consumed from the front, one for each live request: "429", "429 after",
            "500", "400", "404", "reset", "hang", "html", "cut", "empty", "no choices", "broken",
            "schema", "refusal", "length"; "hold" until `release` is set; "" is none.
        lasting: Fault of every live request once `faults` is used up.
        expire: Whether batches expire with half of their requests answered.
        pending: How often a batch says that it is still running.
        spoilt: Faults of a batch's lines by their index: a fault of a reply, "400" for a
            line in the error file, "garbled" for one that is not JSON, "missing" for none.
        batch_faults: "429", "500" and the like by step ("upload", "create", "poll", "download"),
            consumed from the front.
    """

    answer: Answer
    faults: list[str] = field(default_factory=list)
    lasting: str = ""
    expire: bool = False
    pending: int = 1
    spoilt: dict[int, str] = field(default_factory=dict)
    batch_faults: dict[str, list[str]] = field(default_factory=dict)
    release: threading.Event = field(default_factory=threading.Event)
    asked: Counter[str] = field(default_factory=Counter)
    requests: list[dict[str, Any]] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)
    files: dict[str, bytes] = field(default_factory=dict)
    batches: dict[str, dict[str, Any]] = field(default_factory=dict)
    charged: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def fault_of(self, step: str) -> str:
        with self.lock:
            left = self.batch_faults.get(step)
            return left.pop(0) if left else ""

    def completion(self, body: dict[str, Any], fault: str = "") -> dict[str, Any]:
        user = body["messages"][-1]["content"]
        text = user if isinstance(user, str) else user[0]["text"]
        content, finish, refusal = json.dumps(self.answer(text)), "stop", None
        if fault == "broken":
            content = content[:-1]
        elif fault == "schema":
            content = '{"other": 1}'
        elif fault == "refusal":
            content, refusal = None, "I would rather not."
        elif fault == "length":
            content, finish = content[:5], "length"
        self.charged += 1
        self.asked[text] += 1
        message = {"role": "assistant", "content": content, "refusal": refusal}
        return {
            "id": "c", "object": "chat.completion", "created": 0, "model": f"{body['model']}-2026",
            "choices": [{"index": 0, "finish_reason": finish, "message": message}],
            "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110},
        }  # fmt: skip


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Any

    def log_message(self, *_: Any) -> None:
        pass

    def _json(self, status: int, value: Any, **headers: str) -> None:
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", headers.pop("kind", "application/json"))
        self.send_header("content-length", str(len(data)))
        for name, text in headers.items():
            self.send_header(name.replace("_", "-"), text)
        self.end_headers()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # whoever asked may be gone: some are killed
            self.wfile.write(data)

    def do_POST(self) -> None:
        vendor: Vendor = self.server.vendor
        data = self.rfile.read(int(self.headers["content-length"]))
        vendor.keys.add(self.headers.get("authorization", ""))
        if self.path.endswith("/chat/completions"):
            self._chat(vendor, json.loads(data))
        elif self._refused(vendor, "upload" if self.path.endswith("/files") else "create"):
            pass
        elif self.path.endswith("/files"):
            content = next(part for part in data.split(b"\r\n\r\n") if part.startswith(b"{")).split(b"\r\n--")[0]
            with vendor.lock:
                name = f"file-{len(vendor.files)}"
                vendor.files[name] = content
            self._json(
                200,
                {
                    "id": name,
                    "object": "file",
                    "bytes": 1,
                    "created_at": 0,
                    "filename": "f",
                    "purpose": "batch",
                    "status": "processed",
                },
            )
        elif self.path.endswith("/batches"):
            with vendor.lock:
                name = f"batch-{len(vendor.batches)}"
                vendor.batches[name] = {"input": json.loads(data)["input_file_id"], "left": vendor.pending}
            self._json(200, self._batch(name, "validating"))

    def _refused(self, vendor: Vendor, step: str) -> bool:
        fault = vendor.fault_of(step)
        if fault == "reset":
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
        elif fault:
            self._json(int(fault), {"error": {"message": "not now"}}, retry_after="0.05")
        return bool(fault)

    def _chat(self, vendor: Vendor, body: dict[str, Any]) -> None:
        with vendor.lock:
            vendor.requests.append(body)
            vendor.times.append(time.monotonic())
            fault = vendor.faults.pop(0) if vendor.faults else vendor.lasting
        if fault == "429":
            self._json(429, {"error": {"message": "slow down"}})
        elif fault == "429 after":
            self._json(429, {"error": {"message": "slow down"}}, retry_after="0.3")
        elif fault == "500":
            self._json(500, {"error": {"message": "oops"}})
        elif fault == "400":
            self._json(400, {"error": {"message": "too many options"}})
        elif fault == "404":
            self._json(404, {"error": {"message": f"The model `{body['model']}` does not exist"}})
        elif fault == "reset":
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
        elif fault == "hang":
            time.sleep(2)
            self.close_connection = True
        elif fault == "html":
            self._json(200, b"<html>gateway</html>", kind="text/html")
        elif fault == "cut":
            self._json(200, b'{"choices": [')
        elif fault == "empty":
            self._json(200, {"choices": [{}]})
        elif fault == "no choices":
            self._json(200, {"choices": []})
        elif fault == "broken off":
            with vendor.lock:
                data = json.dumps(vendor.completion(body)).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data[: len(data) // 2])
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
        else:
            if fault == "hold":
                vendor.release.wait(60)
            with vendor.lock:
                done = vendor.completion(body, fault)
            self._json(200, done)

    def do_GET(self) -> None:
        vendor: Vendor = self.server.vendor
        parts = self.path.strip("/").split("/")
        name = parts[parts.index("files") + 1] if "files" in parts else parts[-1]
        if self._refused(vendor, "download" if "files" in parts else "poll"):
            return
        if "files" in parts:
            self._json(200, vendor.files[name], kind="application/octet-stream")
            return
        if name not in vendor.batches:
            self._json(404, {"error": {"message": "no such batch"}})
            return
        batch = vendor.batches[name]
        with vendor.lock:
            batch["left"] -= 1
            if batch["left"] >= 0:
                self._json(200, self._batch(name, "in_progress"))
                return
            if "output" not in batch:
                self._answer_batch(vendor, name, batch)
        self._json(200, self._batch(name, "expired" if vendor.expire else "completed", batch))

    @staticmethod
    def _answer_batch(vendor: Vendor, name: str, batch: dict[str, Any]) -> None:
        lines = [json.loads(line) for line in vendor.files[batch["input"]].splitlines()]
        files: dict[str, list[str]] = {"output": [], "error": []}
        for index, line in enumerate(lines):
            spoilt = vendor.spoilt.get(index, "")
            if vendor.expire and index >= len(lines) // 2:
                # Some endpoints name what expired, others leave it out.
                spoilt = "expired" if index % 2 else "missing"
            done = {"custom_id": line["custom_id"], "response": {"status_code": 200}}
            if spoilt == "400":
                body = {"error": {"message": "too many options"}}
                done |= {"response": {"status_code": 400, "body": body}, "error": None}
            elif spoilt == "expired":
                done |= {"response": None, "error": {"code": "batch_expired", "message": "the window has expired"}}
            elif spoilt not in ("missing", "garbled"):
                done["response"]["body"] = vendor.completion(line["body"], spoilt)
            if spoilt != "missing":
                text = json.dumps(done)
                files["error" if spoilt in ("400", "expired") else "output"].append(
                    text[:-2] if spoilt == "garbled" else text
                )
        for kind, texts in files.items():
            batch[kind] = f"{name}-{kind}" if texts else None
            vendor.files[f"{name}-{kind}"] = "\n".join(texts).encode()

    def _batch(self, name: str, status: str, files: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
        return {
            "id": name, "object": "batch", "endpoint": "/v1/chat/completions", "input_file_id": "x",
            "completion_window": "24h", "created_at": 0, "status": status,
            "output_file_id": files.get("output"), "error_file_id": files.get("error"),
        }  # fmt: skip


class JudgeServer:
    """The server on a free loopback port: `with JudgeServer(vendor) as url`."""

    def __init__(self, vendor: Vendor) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.vendor = vendor  # type: ignore[attr-defined]
        self._server.daemon_threads = True

    def __enter__(self) -> str:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
