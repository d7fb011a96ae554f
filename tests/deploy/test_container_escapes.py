"""The image of the tools' server in a container of docker, hardened as the page says: code stays in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers import builder, engine
from helpers.engine_cluster import HERE, environment
from helpers.escapes import ESCAPES, SECRET
from helpers.escaping import OPTIONS
from helpers.manifests import REPOSITORY

pytestmark = [
    pytest.mark.weekly,
    pytest.mark.timeout(2400),
    pytest.mark.skipif(bool(why := engine.missing()), reason=why or "runs"),
]
IMAGE = "lyncean-tool-server:tested"
HARDENED = "--read-only --cap-drop ALL --security-opt no-new-privileges --tmpfs /tmp --memory"


@pytest.fixture
def docker() -> Iterator[dict[str, str]]:
    builder.build("tool-server")
    with engine.engine() as variables:
        engine.load(builder.name_of("tool-server"), variables, IMAGE)
        yield variables


def test_no_code_gets_out_of_a_container(docker: dict[str, str], tmp_path: Path) -> None:
    assert f"docker run {HARDENED} " in (REPOSITORY / "docs" / "tools.md").read_text()
    for name, mode in (("token", 0o600), ("open", 0o666)):
        (tmp_path / name).write_text(SECRET)
        os.chown(tmp_path / name, 65532, 65532)
        (tmp_path / name).chmod(mode)
    os.chown(tmp_path, 65532, 65532)

    def ran(*args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["docker", *args], env=docker, capture_output=True, text=True, check=True)

    sandbox = ["sandbox", "--host=0.0.0.0", "--port=50053", *OPTIONS]
    args = ["--detach", *HARDENED.split(), "4g", f"--volume={tmp_path}:/secrets", IMAGE, *sandbox]
    container = ran("run", *args).stdout.strip()
    try:
        address = ran("inspect", "--format={{.NetworkSettings.IPAddress}}", container).stdout.strip()
        end = time.monotonic() + 200
        while " listens on " not in ran("logs", container).stderr:
            assert time.monotonic() < end
            time.sleep(0.1)
        places = {"address": f"{address}:50053", "secret": "/secrets/token", "open": "/secrets/open", "server": 1}
        beside = ["nsenter", f"--net=/proc/{Path(docker['HOME'], 'pid').read_text().strip()}/ns/net"]
        command = [*beside, sys.executable, str(HERE / "escaping.py"), json.dumps(places | {"names": list(ESCAPES)})]
        done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == {}
        changed = [
            line for line in ran("diff", container).stdout.splitlines() if not line.endswith((" /tmp", " /secrets"))
        ]
        assert not changed, "its root is read only"
    finally:
        ran("rm", "--force", container)
    assert [(tmp_path / name).read_text() for name in ("token", "open")] == [SECRET] * 2
    assert (tmp_path / "token").stat().st_mode & 0o777 == 0o600
