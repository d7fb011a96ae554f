"""An S3 server for the tests of remote run folders."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from helpers.s3_server import S3Server


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    server = S3Server(tmp_path_factory.mktemp("s3"))
    server.start()
    yield server
    server.kill()
