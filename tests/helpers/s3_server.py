"""An S3-compatible server as a process of its own."""

from __future__ import annotations

import subprocess
import sys
import urllib.error
import urllib.request
from importlib.util import find_spec
from pathlib import Path

import pytest

from helpers.engine_cluster import free_port, wait_for

BUCKET = "lyncean-tests"
SECRET = "planted-secret-8b1f"


class S3Server:
    """moto's server; what it holds is gone when it ends."""

    def __init__(self, folder: Path) -> None:
        if find_spec("moto") is None or find_spec("flask_cors") is None:
            pytest.skip("no stand-in for S3: pip install 'moto[server]' flask-cors")
        self.port = free_port()
        self.folder = folder
        self.url = f"http://127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with (self.folder / "s3.log").open("ab") as log:
            command = [sys.executable, str(Path(__file__).with_name("atomic_s3.py")), "-p", str(self.port)]
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        wait_for(self._made)

    def _made(self) -> bool:
        request = urllib.request.Request(f"{self.url}/{BUCKET}", method="PUT")
        try:
            with urllib.request.urlopen(request) as reply:
                return bool(reply.status == 200)
        except urllib.error.URLError:
            return False

    def environment(self, patch: pytest.MonkeyPatch) -> None:
        patch.setenv("AWS_ENDPOINT_URL", self.url)
        patch.setenv("AWS_ACCESS_KEY_ID", "tester")
        patch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")

    def kill(self) -> None:
        if self.process:
            self.process.kill()
            self.process.wait()
