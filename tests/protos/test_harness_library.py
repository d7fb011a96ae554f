"""Code of a foreign task that asks a judge without a key is found, whatever it makes of the failure."""

from __future__ import annotations

import contextlib
import socket

import pytest

from lyncean.harness.library import CLOSED, no_judge_of_its_own


def test_a_judge_that_nobody_gave_a_key_for_is_no_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    def swallows() -> int:
        with contextlib.suppress(OSError):
            socket.create_connection(CLOSED, timeout=1).close()
        return 0

    monkeypatch.setenv("OPENAI_API_KEY", "none")
    with pytest.raises(RuntimeError, match=r"asks a server of its own .*: set OPENAI_API_KEY"), no_judge_of_its_own():
        swallows()
    with no_judge_of_its_own():
        pass
    monkeypatch.setenv("OPENAI_API_KEY", "a real one")
    with no_judge_of_its_own():
        assert swallows() == 0
