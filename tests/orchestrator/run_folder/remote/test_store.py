"""Guarantees that a run folder needs from each kind of store: whole objects, and one writer at a time."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from helpers.s3_server import BUCKET

from orchestrator.errors import ConfigError
from orchestrator.run_folder.errors import RunBusyError
from orchestrator.run_folder.remote import store as stores
from orchestrator.run_folder.remote.lease import WRITER, Lease
from orchestrator.run_folder.remote.store import RemoteError, Store

if TYPE_CHECKING:
    from obstore import UpdateVersion

FOREIGN = b'{"id":"x","host":"far","pid":1,"renewed":9e12,"seconds":9}'
DENIED = b"<Error><Code>AccessDenied</Code><Message>Not yours</Message><Key>planted-secret</Key></Error>"


class CloudStorage(BaseHTTPRequestHandler):
    """Google's XML API as far as a run folder needs it; fake-gcs-server knows only the JSON one."""

    objects: dict[str, tuple[int, bytes]]
    generations: Iterator[int]
    lock: threading.Lock

    def do_GET(self) -> None:
        path, query = unquote(urlsplit(self.path).path), parse_qs(urlsplit(self.path).query)
        if "list-type" not in query:
            generation, data = self.objects.get(path, (0, b""))
            return self.reply(200 if generation else 404, data, generation)
        prefix = query["prefix"][0]
        names = [name.removeprefix(f"/{BUCKET}/") for name in self.objects]
        entries = [
            f"<Contents><Key>{name}</Key><Size>{len(self.objects[f'/{BUCKET}/{name}'][1])}</Size><ETag>x</ETag>"
            "<LastModified>2026-01-31T09:00:00.000Z</LastModified></Contents>"
            for name in names
            if name.startswith(prefix) and "/" not in name.removeprefix(prefix)
        ]
        self.reply(200, f"<ListBucketResult>{''.join(entries)}</ListBucketResult>".encode())

    def do_PUT(self) -> None:
        path, data = unquote(self.path), self.rfile.read(int(self.headers["Content-Length"]))
        if not path.startswith(f"/{BUCKET}/"):
            return self.reply(404, b"<Error><Code>NoSuchBucket</Code><Message>none</Message></Error>")
        with self.lock:
            now = self.objects.get(path, (0, b""))[0]
            if self.headers.get("x-goog-if-generation-match", str(now)) != str(now):
                return self.reply(412)
            generation = next(self.generations)
            self.objects[path] = generation, data
        self.reply(200, generation=generation)

    def do_DELETE(self) -> None:
        self.reply(204 if self.objects.pop(unquote(self.path), None) else 404)

    def reply(self, status: int, data: bytes = b"", generation: int = 0) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("ETag", f'"{generation}"')
        self.send_header("x-goog-generation", str(generation))
        self.send_header("Last-Modified", "Sat, 31 Jan 2026 09:00:00 GMT")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


class Denying(CloudStorage):
    """Denies everything."""

    def do_GET(self) -> None:
        self.reply(403, DENIED)


def served(kind: type[CloudStorage]) -> Iterator[str]:
    kind.objects, kind.generations, kind.lock = {}, iter(range(1, 1_000_000)), threading.Lock()
    server = ThreadingHTTPServer(("127.0.0.1", 0), kind)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def google() -> Iterator[str]:
    yield from served(CloudStorage)


@pytest.fixture(scope="module")
def denying() -> Iterator[str]:
    yield from served(Denying)


@pytest.fixture(params=["file", "gs", pytest.param("s3", marks=pytest.mark.full)])
def base(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "file":
        return f"file://{tmp_path}"
    if request.param == "s3":
        request.getfixturevalue("s3").environment(monkeypatch)
    else:
        account = {"gcs_base_url": request.getfixturevalue("google"), "disable_oauth": True}
        account |= {"client_email": "", "private_key": "", "private_key_id": ""}
        monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT_KEY", json.dumps(account))
    return f"{request.param}://{BUCKET}"


@pytest.fixture
def store(base: str, request: pytest.FixtureRequest) -> Store:
    return Store(f"{base}/runs/{request.node.originalname} #1 ü%20")


def test_objects_are_written_whole_and_listed(store: Store) -> None:
    assert store.names("responses") == {}
    assert store.get("manifest.json") is None
    large = bytes(range(256)) * 16_000
    store.put("responses/0-4096000.jsonl", large)
    store.put("manifest.json", b"{}")
    store.put("manifest.json", b"{}\n")
    assert store.get("responses/0-4096000.jsonl") == large
    assert store.get("manifest.json") == b"{}\n"
    assert store.names("responses") == {"0-4096000.jsonl": len(large)}
    assert store.names("") == {"manifest.json": 3}
    store.delete("manifest.json")
    store.delete("manifest.json")
    assert store.get("manifest.json") is None


def test_a_version_is_replaced_by_one_writer(store: Store) -> None:
    first = store.put_version(WRITER, b"first", None)
    assert first
    assert store.put_version(WRITER, b"second", None) is None
    assert store.get_version(WRITER) == (b"first", first)
    second = store.put_version(WRITER, b"second", first)
    assert second
    assert store.put_version(WRITER, b"third", first) is None
    assert store.get_version(WRITER) == (b"second", second)
    store.delete(WRITER)
    assert store.put_version(WRITER, b"third", second) is None
    assert store.get_version(WRITER) == (None, None)


def test_of_writers_at_once_none_is_overwritten(store: Store) -> None:
    store.put(WRITER, b"0")

    def add() -> None:
        for _ in range(20):
            while True:
                data, version = store.get_version(WRITER)
                if store.put_version(WRITER, str(int(data or 0) + 1).encode(), version):
                    break

    threads = [threading.Thread(target=add) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.get(WRITER) == b"60"


def test_a_folder_taken_over_just_before_a_renewal_stays_the_others(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = Lease(store, 100)
    lease.renew()
    put = store.put_version
    with monkeypatch.context() as patch:
        patch.setattr(store, "put_version", lambda *arguments: (store.put(WRITER, FOREIGN), put(*arguments))[1])
        with pytest.raises(RunBusyError, match="far, pid 1"):
            lease.renew()
    for _ in range(2):
        with pytest.raises(RunBusyError, match="far, pid 1"):
            lease.renew()
        lease.release()
    assert store.get(WRITER) == FOREIGN


class Lossy(Store):
    """Loses the reply to every other conditional write."""

    lost = False

    def put_version(self, name: str, data: bytes, version: UpdateVersion | None) -> UpdateVersion | None:
        written = super().put_version(name, data, version)
        self.lost = not self.lost
        return None if self.lost else written


def test_a_renewal_whose_reply_is_lost_is_a_renewal(store: Store) -> None:
    lease = Lease(Lossy(store.url), 100)
    lease.renew()
    lease.renew()
    with pytest.raises(RunBusyError):
        Lease(store, 100)
    lease.release()
    Lease(store, 100)


def test_a_bucket_that_is_not_there_is_named(base: str) -> None:
    if base.startswith("file:"):
        return
    scheme = base.partition(":")[0]
    with pytest.raises(RemoteError, match=rf"{scheme}://none-such/run cannot be reached \(NoSuchBucket: "):
        Store(f"{scheme}://none-such/run").put("manifest.json", b"{}")


@pytest.mark.parametrize("variable", ["AWS_SECRET_ACCESS_KEY", None])
def test_errors_are_one_line_without_secrets(
    denying: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str | None
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", denying)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    if variable:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "name")
        monkeypatch.setenv(variable, "planted-secret")
    else:
        (tmp_path / ".aws").mkdir()
        (tmp_path / ".aws" / "credentials").write_text(
            "[default]\naws_access_key_id = name\naws_secret_access_key = planted-secret\n"
        )
    with pytest.raises(RemoteError) as caught:
        Store("s3://bucket/run").names("")
    assert str(caught.value) == "s3://bucket/run cannot be reached (AccessDenied: Not yours)"


def test_a_host_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(stores._RETRIES, "max_retries", 0)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "name")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "planted-secret")
    with pytest.raises(RemoteError) as caught:
        Store("s3://bucket/run").get("manifest.json")
    assert str(caught.value) == "s3://bucket/run cannot be reached (http://127.0.0.1:1: error sending request)"


def test_missing_credentials_are_said() -> None:
    text = (
        "Generic S3 error: Error performing PUT http://169.254.169.254/latest/api/token in 1.8ms - HTTP error: sent\n\n"
    )
    assert stores._reason(OSError(f"{text}Debug source:\nx")) == "no credentials found"


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("s3://name:planted@bucket/run", "leave credentials out of the URL"),
        ("nowhere://bucket/run", "give a folder or a URL of s3://, gs://, az://, file://"),
        ("az://container/run", "Account must be specified"),
        ("s3://", "s3:"),
    ],
)
def test_urls_that_cannot_be_used(monkeypatch: pytest.MonkeyPatch, url: str, message: str) -> None:
    for name in ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_USE_EMULATOR"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigError, match=message) as caught:
        Store(url)
    assert "planted" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore.exceptions", None)
    with pytest.raises(ConfigError, match=r"s3://bucket/run: pip install 'lyncean\[remote\]'"):
        Store("s3://bucket/run")
