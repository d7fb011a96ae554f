"""Servers of tools in a run's pods: sidecars that listen in the pod alone, with limits of their own."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lyncean.errors import UserError

FIRST_PORT = 50053
IMAGE = "lyncean-tool-server"
_TAG = "dev"
"""Tag of our images that the overlays have; --tag sets another."""
_OURS = ("host", "port", "port-file", "health-port", "token-file")
_RESOURCES = {"requests": {"cpu": "500m", "memory": "512Mi"}, "limits": {"memory": "4Gi"}}
_HARDENED = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}


def addresses(commands: Sequence[str]) -> list[str]:
    """Returns the addresses at which the servers of the commands listen."""
    return [f"127.0.0.1:{FIRST_PORT + number}" for number in range(len(commands))]


def read_files(commands: Sequence[str]) -> dict[str, str]:
    """Returns the Python files of this machine that commands name, with their contents.

    Raises:
        UserError: If a file cannot be read, or two have the same name.
    """
    paths = dict.fromkeys(word for command in commands for word in _words(command) if word.endswith(".py"))
    if len({Path(path).name for path in paths}) < len(paths):
        raise UserError(f"--tool-server: two files of one name among {', '.join(paths)}: rename one")
    try:
        return {path: Path(path).read_text(encoding="utf-8") for path in paths}
    except OSError as error:
        raise UserError(f"--tool-server: {error.filename} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"--tool-server: {', '.join(paths)}: save the file as UTF-8 ({error})") from error


def containers(commands: Sequence[str], folder: str) -> list[dict[str, Any]]:
    """Returns a container for each command.

    Args:
        commands: Command lines of `tool-server`, without its name.
        folder: Folder of this machine's files in the pod, in the volume `tasks`.
    """
    containers = []
    for number, (command, address) in enumerate(zip(commands, addresses(commands), strict=True)):
        arguments = [f"{folder}/{Path(word).name}" if word.endswith(".py") else word for word in _words(command)]
        mounts: list[dict[str, Any]] = [{"name": f"tools-{number}", "mountPath": "/tmp"}]  # noqa: S108 - a container's own
        if any(word.startswith(f"{folder}/") for word in arguments):
            mounts.append({"name": "tasks", "mountPath": folder, "readOnly": True})
        host, port = address.split(":")
        # The command of an MCP server follows `--`.
        end = arguments.index("--") if "--" in arguments else len(arguments)
        args = [*arguments[:end], f"--host={host}", f"--port={port}", *arguments[end:]]
        containers.append(
            {
                "name": f"tools-{number}",
                "image": f"{IMAGE}:{_TAG}",
                "restartPolicy": "Always",
                "args": args,
                "resources": _RESOURCES,
                "securityContext": _HARDENED,
                "volumeMounts": mounts,
            }
        )
    return containers


def patches(commands: Sequence[str], folder: str, pod: str) -> list[dict[str, Any]]:
    """Returns JSON Patch operations that add the servers to a Job, whose pod spec is at the path `pod`."""
    sidecars = containers(commands, folder)
    volumes = ({"name": one["name"], "emptyDir": {}} for one in sidecars)
    return [
        *({"op": "add", "path": f"{pod}/initContainers/0", "value": one} for one in reversed(sidecars)),
        *({"op": "add", "path": f"{pod}/volumes/-", "value": one} for one in volumes),
    ]


def ports(flags: Sequence[str]) -> set[int]:
    """Returns the ports of the servers of tools that flags of `eval` name."""
    places = (flag.removeprefix("--tools=grpc:").rpartition(":") for flag in flags if flag.startswith("--tools=grpc:"))
    return {int(port) for _, _, port in places if port.isdecimal()}


def _words(command: str) -> list[str]:
    """Returns the words of a command.

    Raises:
        UserError: If it is malformed, or sets an option that is set here.
    """
    try:
        arguments = shlex.split(command)
    except ValueError as error:
        raise UserError(f"--tool-server {command!r}: {error}") from error
    ours = arguments[: arguments.index("--")] if "--" in arguments else arguments
    if not ours or ours[0].startswith("-"):
        raise UserError(f"--tool-server {command!r}: give a command of tool-server, for example sandbox")
    for word in ours:
        name = word.partition("=")[0].removeprefix("--")
        if word.startswith("--") and (name in _OURS or name.startswith("tls-")):
            raise UserError(f"--tool-server {command!r}: --{name} is set here: the server listens in the pod alone")
    return arguments
