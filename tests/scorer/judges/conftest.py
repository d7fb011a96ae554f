"""A judge's endpoint that answers like the `vendor` of the test file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from helpers.judge_server import JudgeServer, Vendor


@pytest.fixture
def url(vendor: Vendor) -> Iterator[str]:
    with JudgeServer(vendor) as address:
        yield address
