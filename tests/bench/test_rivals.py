"""The servers that `make gpu` measures itself beside."""

from __future__ import annotations

import sys

import pytest
from helpers.page_commands import ROOT

DEAF = """
import http.server, signal, sys

class Healthy(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()

signal.signal(signal.SIGTERM, signal.SIG_IGN)
http.server.HTTPServer((sys.argv[2], int(sys.argv[4])), Healthy).serve_forever()
"""


def test_a_rival_that_ignores_sigterm_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    from gpu_parts import rivals

    monkeypatch.setattr(rivals, "_ENDS_WITHIN", 0.1)
    with rivals._served([sys.executable, "-c", DEAF]) as url:
        assert rivals._answers(url)
    assert not rivals._answers(url)
