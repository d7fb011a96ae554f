"""A folder with a scorer and models, shared by the tests of a file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from helpers.engine_cluster import Cluster, Server


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("place"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def half(place: Cluster) -> Server:
    """A model that is right in about 75% of the items."""
    return place.model("--weights", "2", "--concurrency", "4", "--delay", "0.01")
