"""Network policies of a run whose scorer executes foreign code, and the ports that they leave open."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

POLICIES = "network-policies"
"""The component with the policies."""

_URL = "OPENAI_BASE_URL"
"""Variable with the endpoint of judges whose option does not name one."""


def shut(components: Sequence[Path], folder: Path, *, runs_code: bool) -> list[Path]:
    """Returns a run's components, with that of the policies if its scorer executes foreign code.

    Args:
        components: Folders of the components that the command names.
        folder: `deploy/components`.
        runs_code: True if the scorer executes foreign code.
    """
    named = any(one.name == POLICIES for one in components)
    return [*components, *([(folder / POLICIES).resolve()] if runs_code and not named else [])]


def judge_ports(manifests: Iterable[Mapping[str, Any]]) -> set[int]:
    """Returns the ports of the judges that the scorers in the manifests call."""
    ports = set()
    for one in manifests:
        pod = one.get("spec", {}).get("template", {}).get("spec", {})
        for container in (*pod.get("initContainers", ()), *pod.get("containers", ())):
            judges = [word.partition("=")[2] for word in container.get("args", ()) if word.startswith("--judge=")]
            default = next((env.get("value") for env in container.get("env", ()) if env["name"] == _URL), None)
            ports |= {_port(judge, default) for judge in judges}
    return ports


def _port(judge: str, default: str | None) -> int:
    if address := re.match(r"grpcs?:.*:(\d+)", judge):
        return int(address[1])
    url = urlsplit(judge.partition("@")[2] or default or "https://any")
    return url.port or (80 if url.scheme == "http" else 443)
