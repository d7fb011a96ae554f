"""A stand-in for a model hub on the loopback: data sets with files, as the hub's own client asks for them."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self


class Hub:
    """Serves data sets and notes what was asked for.

    Args:
        repositories: Repository -> name of a file -> its bytes.
    """

    commit = "c0ffee" + 34 * "0"

    def __init__(self, repositories: Mapping[str, Mapping[str, bytes]]) -> None:
        self.paths: list[str] = []
        self.tokens: list[str] = []
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                pass

            def do_HEAD(self) -> None:
                self.do_GET()

            def do_GET(self) -> None:
                path = self.path.partition("?")[0]
                hub.paths.append(path)
                hub.tokens.append(self.headers.get("Authorization", ""))
                for name, files in repositories.items():
                    if path.startswith(f"/api/datasets/{name}/tree/"):
                        tree = [
                            {"type": "file", "path": file, "size": len(data), "oid": sha256(data).hexdigest()[:40]}
                            for file, data in files.items()
                        ]
                        return self._send(json.dumps(tree).encode(), "application/json")
                    if path.startswith(f"/api/datasets/{name}"):
                        siblings = [{"rfilename": file} for file in files]
                        about = {"id": name, "sha": hub.commit, "siblings": siblings, "private": False}
                        return self._send(json.dumps(about).encode(), "application/json")
                    file = path.removeprefix(f"/datasets/{name}/resolve/").partition("/")[2]
                    if file in files:
                        return self._send(files[file], "application/octet-stream")
                self.send_response(404)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return None

            def _send(self, data: bytes, kind: str) -> None:
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(data)))
                self.send_header("ETag", f'"{sha256(data).hexdigest()}"')
                self.send_header("X-Repo-Commit", hub.commit)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(data)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
