"""A folder with a scorer and models, shared by the tests of a file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from helpers.engine_cluster import Cluster, Server


@pytest.fixture(scope="module")
def shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    instance = Cluster(tmp_path_factory.mktemp("place"))
    yield instance
    instance.close()


@pytest.fixture(scope="module")
def half(shared_cluster: Cluster) -> Server:
    """A model that is right in about 75% of the items."""
    return shared_cluster.model("--weights", "2", "--concurrency", "4", "--delay", "0.01")
