"""What fences in a run whose scorer runs code of others: its policies, and the ports that it still reaches."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

POLICIES = "network-policies"
"""The component whose policies shut a run in."""

_URL = "OPENAI_BASE_URL"
"""Variable that names the endpoint of judges whose words name none."""


def shut(components: Sequence[Path], folder: Path, *, runs_code: bool) -> list[Path]:
    """Returns a run's components, with the one of policies if its scorer runs code of others.

    Args:
        components: Folders of those that the command names.
        folder: `deploy/components`.
        runs_code: Whether its scorer does.
    """
    named = any(one.name == POLICIES for one in components)
    return [*components, *([(folder / POLICIES).resolve()] if runs_code and not named else [])]


def judge_ports(manifests: Iterable[Mapping[str, Any]]) -> set[int]:
    """Returns the ports of the judges that the scorers of some manifests ask."""
    found = set()
    for one in manifests:
        pod = one.get("spec", {}).get("template", {}).get("spec", {})
        for container in (*pod.get("initContainers", ()), *pod.get("containers", ())):
            judges = [word.partition("=")[2] for word in container.get("args", ()) if word.startswith("--judge=")]
            default = next((each.get("value") for each in container.get("env", ()) if each["name"] == _URL), None)
            found |= {_port(judge, default) for judge in judges}
    return found


def _port(judge: str, default: str | None) -> int:
    if address := re.match(r"grpcs?:.*:(\d+)", judge):
        return int(address[1])
    url = urlsplit(judge.partition("@")[2] or default or "https://any")
    return url.port or (80 if url.scheme == "http" else 443)
