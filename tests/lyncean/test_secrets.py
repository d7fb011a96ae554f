"""Planted secrets stay where they were put: not in a run folder, not in any output, not in a server's log."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from helpers.loopback import Authority
from helpers.python_path import python_path

ROOT = Path(__file__).parents[2]
TOKEN = "planted-token-8d1f"
JUDGE_KEY = "planted-judge-key-77aa"
ENDPOINT_KEY = "planted-endpoint-key-31c0"


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": python_path(ROOT), "OMP_NUM_THREADS": "1", **more}


@contextmanager
def running(folder: Path, name: str, *args: str, env: dict[str, str]) -> Iterator[str]:
    """Runs a server with all its output in a file; gives its address and lets it drain at the end."""
    port = folder / f"{name}.port"
    with (folder / f"{name}.log").open("wb") as log:
        command = [sys.executable, "-m", *args, "--port", "0", "--port-file", str(port)]
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, env=env)
        try:
            end = time.monotonic() + 300
            while not port.exists():
                assert process.poll() is None, (folder / f"{name}.log").read_text()
                assert time.monotonic() < end
                time.sleep(0.02)
            yield f"localhost:{int(port.read_text())}"
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)


def outputs(folder: Path) -> dict[str, bytes]:
    """Everything written under a folder but the secrets themselves."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.parent.name != "secrets")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_no_secret_leaves_its_place(tmp_path: Path, authority: Authority) -> None:
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    certificate, key = authority.issue("localhost")
    (secrets / "token").write_text(TOKEN)
    (secrets / "judge").write_text(JUDGE_KEY)
    tls = ["--tls-cert", str(certificate), "--tls-key", str(key)]
    trusting = ["--tls-ca", str(authority.path)]
    # Servers take them from the environment, the orchestrator from a file and from the environment.
    env = environment(LYNCEAN_TOKEN=TOKEN, LYNCEAN_JUDGE_KEY=JUDGE_KEY, OPENAI_API_KEY=ENDPOINT_KEY)
    token, judge = ["--token-file", str(secrets / "token")], ["--judge-key-file", str(secrets / "judge")]
    work = tmp_path / "work"
    work.mkdir()
    judged = ["--judge", "openai:judge@http://127.0.0.1:9/v1", "--judge-patience", "1", *judge]
    with (
        running(work, "model", "model_server", "serve", "--backend", "demo", *tls, env=env) as model,
        running(work, "scorer", "scorer", "serve", *judged, *tls, *token, env=env) as scorer,
    ):
        asking = ["eval", "--task", "vstar_bench", "--synthetic", "--limit", "3", "--endpoint", model]
        command = [sys.executable, "-m", "orchestrator", *asking, "--scorer", scorer, "--run", "run", *trusting]
        done = subprocess.run([*command, *token], cwd=work, env=env, capture_output=True, timeout=300)
        assert done.returncode == 0, done.stderr.decode()
        # And one that is refused: errors quote what was given all too easily.
        (secrets / "wrong").write_text(f"{TOKEN}-wrong")
        wrong = [*command, "--run", "refused", "--token-file", str(secrets / "wrong")]
        refused = subprocess.run(wrong, cwd=work, env=env, capture_output=True, timeout=300)
        assert refused.returncode == 2, refused.stderr.decode()
    files = outputs(tmp_path) | {"stdout": done.stdout + refused.stdout, "stderr": done.stderr + refused.stderr}
    assert {"work/run/manifest.json", "work/run/report.html", "work/model.log", "work/scorer.log"} <= set(files)
    body = key.read_bytes().splitlines()[1]
    for secret in (TOKEN.encode(), JUDGE_KEY.encode(), ENDPOINT_KEY.encode(), body):
        holders = [name for name, data in files.items() if secret in data and not name.endswith(key.name)]
        assert not holders, f"{secret!r} in {holders}"
