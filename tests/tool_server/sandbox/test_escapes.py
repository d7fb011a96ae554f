"""Code in the sandbox reaches nothing, however it tries; each attempt is refused by a name, and hurts itself alone."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.escapes import ESCAPES, SECRET

from tool_server.sandbox.limits import Limits
from tool_server.sandbox.toolset import Sandbox

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="code is closed in by Linux: run the tests there")
LIMITS = Limits(
    seconds=0.2, wall=3, memory=128 << 20, disk=32 << 20, files=200, characters=2000, images=2, pixels=1 << 20
)


def run(session: Any, code: str) -> tuple[str, bool]:
    """Returns the text of a call, and whether it is an error."""
    output = session.call("python", json.dumps({"code": code}), ())
    return "".join(piece if isinstance(piece, str) else "<image>" for piece in output.content), output.is_error


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    os.environ["LYNCEAN_TOKEN"] = SECRET
    opened = Sandbox(LIMITS)
    yield opened
    opened.close()
    del os.environ["LYNCEAN_TOKEN"]


@pytest.fixture(scope="module")
def victim(sandbox: Sandbox) -> Iterator[Any]:
    session = sandbox.open()
    code = f"secret = {SECRET!r}; open('mine.txt', 'w').write(secret); Image.new('L', (9, 9)).save('mine.png')"
    run(session, code)
    yield session
    session.close()


@pytest.fixture(scope="module")
def attacker(sandbox: Sandbox) -> Iterator[Any]:
    session = sandbox.open()
    yield session
    session.close()


@pytest.mark.parametrize("name", ESCAPES)
def test_an_escape_is_refused(name: str, attacker: Any, victim: Any, tmp_path: Path) -> None:
    secret, everybodys = tmp_path / "token", tmp_path / "open"
    for file in (secret, everybodys):
        file.write_text(SECRET)
    secret.chmod(0o600)
    everybodys.chmod(0o666)
    escape = ESCAPES[name]
    run(attacker, "kept = 1")
    code = escape.written(
        attacker._calls + 1,
        secret=secret,
        open=everybodys,
        other=victim._cell._process.pid,
        folder=victim._folder,
        server=os.getpid(),
    )
    result = run(attacker, code)
    assert not escape.wrong(name, *result, run(attacker, "'kept' in globals()")[0], LIMITS.characters)
    assert run(victim, "secret, open('mine.txt').read()")[0] == f"({SECRET!r}, {SECRET!r})\n"
    assert [file.read_text() for file in (secret, everybodys)] == [SECRET] * 2
    assert secret.stat().st_mode & 0o777 == 0o600
    assert not Path("/tmp/lyncean-escape").exists()
