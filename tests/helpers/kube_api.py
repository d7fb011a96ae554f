"""A stand-in for a cluster's API server, for the real kubectl: Jobs, pods and ConfigMaps, no controllers."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, urlsplit

KINDS = {
    "pods": ("v1", "Pod"),
    "configmaps": ("v1", "ConfigMap"),
    "jobs": ("batch/v1", "Job"),
    "networkpolicies": ("networking.k8s.io/v1", "NetworkPolicy"),
    "services": ("v1", "Service"),
    "poddisruptionbudgets": ("policy/v1", "PodDisruptionBudget"),
    "leaderworkersets": ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"),
}


class KubeApi:
    """Serves on loopback until it is left; use it as a context manager.

    Args:
        objects: What the cluster holds.
        logs: What each pod's containers have written, by its name.
    """

    def __init__(self, objects: list[dict[str, Any]], logs: dict[str, str]) -> None:
        self.objects, self.logs = objects, logs
        api = self

        class Handler(BaseHTTPRequestHandler):
            def _serve(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                code, answer = api.answer(self.command, self.path, self.rfile.read(length))
                data = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
                self.send_response(code)
                self.send_header("Content-Type", "text/plain" if isinstance(answer, str) else "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_DELETE = _serve  # noqa: N815 - the library's names

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    def __enter__(self) -> KubeApi:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()

    def config(self, file: Path) -> Path:
        """Writes a kubeconfig of this cluster and returns its path."""
        cluster = {"server": f"http://127.0.0.1:{self._server.server_port}"}
        config = {
            **{"apiVersion": "v1", "kind": "Config", "current-context": "here"},
            "clusters": [{"name": "here", "cluster": cluster}],
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
            "users": [{"name": "me", "user": {}}],
        }
        file.write_text(json.dumps(config))
        return file

    def answer(self, method: str, url: str, body: bytes) -> tuple[int, Any]:
        """Returns status and body of one request."""
        path, query = urlsplit(url).path.strip("/").split("/"), parse_qs(urlsplit(url).query)
        if "namespaces" not in path:
            return self._discovery("/".join(path))
        resource, *rest = path[path.index("namespaces") + 2 :]
        matching = [one for one in self.objects if one["kind"] == KINDS[resource][1]]
        if method == "POST":
            return self._create(json.loads(body))
        if not rest:
            for key in ("labelSelector", "fieldSelector"):
                for name, _, value in (word.partition("=") for text in query.get(key, ()) for word in text.split(",")):
                    matching = [one for one in matching if _value(one["metadata"], key, name) == value]
            version, kind = KINDS[resource]
            return 200, {"apiVersion": version, "kind": f"{kind}List", "metadata": {}, "items": matching}
        named = [one for one in matching if one["metadata"]["name"] == rest[0]]
        if not named:
            return 404, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}
        if rest[1:] == ["log"]:
            waits = {"message": "container is waiting to start", "reason": "BadRequest", "code": 400}
            failed = {"kind": "Status", "apiVersion": "v1", "status": "Failure", **waits}
            return (200, self.logs[rest[0]]) if rest[0] in self.logs else (400, failed)
        if method == "DELETE":
            self.objects.remove(named[0])
            return 200, {"kind": "Status", "apiVersion": "v1", "status": "Success"}
        return 200, named[0]

    def _create(self, one: dict[str, Any]) -> tuple[int, Any]:
        """Takes an object in, unless it has what only a cluster gives."""
        template = one["spec"].get("template", {}).get("metadata", {}).get("labels", {})
        if {"uid", "resourceVersion"} & one["metadata"].keys() or "selector" in one["spec"] or "job-name" in template:
            reason = {"message": "what only a cluster gives", "reason": "Invalid", "code": 422}
            return 422, {"kind": "Status", "apiVersion": "v1", "status": "Failure", **reason}
        self.objects.append(one)
        return 201, one

    @staticmethod
    def _discovery(path: str) -> tuple[int, Any]:
        if path == "api":
            return 200, {"kind": "APIVersions", "versions": ["v1"]}
        if path == "apis":
            groups = []
            for version in sorted({version for version, _ in KINDS.values() if "/" in version}):
                served = {"groupVersion": version, "version": version.partition("/")[2]}
                groups.append({"name": version.partition("/")[0], "versions": [served], "preferredVersion": served})
            return 200, {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
        held = [name for name, (version, _) in KINDS.items() if path in (f"api/{version}", f"apis/{version}")]
        if not held:
            return 404, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404}
        verbs = ["create", "delete", "deletecollection", "get", "list", "watch"]
        resources = [
            {"name": name, "singularName": "", "namespaced": True, "kind": KINDS[name][1], "verbs": verbs}
            for name in held
        ]
        version = KINDS[held[0]][0]
        return 200, {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": resources}


def _value(metadata: dict[str, Any], key: str, name: str) -> str | None:
    value = metadata.get("labels", {}).get(name) if key == "labelSelector" else metadata[name.rpartition(".")[2]]
    return str(value) if value is not None else None
