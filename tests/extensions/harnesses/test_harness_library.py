"""Code of a foreign task that asks a server of its own is reported, however it handles the failure."""

from __future__ import annotations

import contextlib
import socket

import pytest

from lyncean_harnesses.library import judge_url, use_judge
from lyncean_harnesses.library.foreign import no_other_server


def test_a_server_that_nobody_named_is_no_zero() -> None:
    def swallows(port: int) -> int:
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        return 0

    before = judge_url()
    use_judge("http://127.0.0.1:9/v1")
    try:
        with no_other_server():  # its judge is not another server
            assert swallows(9) == 0
        with pytest.raises(RuntimeError, match=r"asks a server of its own \(127.0.0.1:10\)"), no_other_server():
            swallows(10)
    finally:
        use_judge(before)
