"""A bucket that goes silent: Ctrl-C and SIGTERM end the wait for it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest
from helpers.s3_server import BUCKET, S3Server
from helpers.silent_proxy import SilentProxy

from orchestrator.errors import StoppedError
from orchestrator.run_folder.errors import RunLogError
from orchestrator.run_folder.remote import RemoteError, grace, writing
from orchestrator.run_folder.remote.lease import Lease
from orchestrator.run_folder.remote.store import Store
from orchestrator.suite.bucket import kept

pytestmark = pytest.mark.full
STOPPED = r"\(no answer, and the command was stopped\)"


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A folder that no other test's process holds."""
    return f"s3://{BUCKET}/{tmp_path.name}"


@pytest.fixture
def proxy(tmp_path: Path, s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[SilentProxy]:
    """Stands before the bucket; the time after a signal is short."""
    s3.environment(monkeypatch)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(grace, "SECONDS", 0.2)
    with SilentProxy(s3.port) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{proxy.port}")
        yield proxy


def test_once_the_time_is_over_nothing_new_is_written(tmp_path: Path) -> None:
    store = Store(f"file://{tmp_path}")
    grace.begin(at_once=True)
    with pytest.raises(RemoteError, match="the command was stopped"):
        store.put("part", b"lines")
    assert not (tmp_path / "part").exists()


def silent_and_signalled(monkeypatch: pytest.MonkeyPatch, proxy: SilentProxy, number: signal.Signals) -> None:
    """Makes the bucket silent now; the next renewal of a lease, which an upload begins with, is interrupted."""
    renew = Lease.renew

    def renewed(lease: Lease, *, take: bool = False) -> None:
        threading.Timer(0.2, os.kill, (os.getpid(), number)).start()
        monkeypatch.setattr(Lease, "renew", renew)
        renew(lease, take=take)

    proxy.silent.set()
    monkeypatch.setattr(Lease, "renew", renewed)


@pytest.mark.parametrize("error", [None, RunLogError("the log"), StoppedError("stopped")])
def test_however_a_run_ends_after_a_signal_its_upload_has_some_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception | None
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(grace, "SECONDS", 1.0)
    answered = threading.Event()
    with pytest.raises(type(error)) if error else nullcontext():
        with writing(f"file://{tmp_path}/bucket") as (_, _):
            grace.end_soon()
            if error:
                raise error
    with pytest.raises(TimeoutError, match="the command was stopped"):
        grace.within(lambda: answered.wait(120))
    answered.set()


def run_on(url: str, meanwhile: Callable[[], None]) -> None:
    with writing(url) as (folder, _):
        assert folder is not None
        folder.mkdir(parents=True)
        (folder / "manifest.json").write_text("{}")
        meanwhile()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_last_upload_of_a_run_ends(
    proxy: SilentProxy, url: str, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    with pytest.raises(RemoteError, match=f"not all of the run is uploaded: {url} cannot be reached {STOPPED}"):
        run_on(url, lambda: silent_and_signalled(monkeypatch, proxy, number))


def test_the_last_upload_of_a_suite_ends(proxy: SilentProxy, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RemoteError, match=f"not all of the suite is uploaded: {url} cannot be reached {STOPPED}"):
        with kept(url):
            silent_and_signalled(monkeypatch, proxy, signal.SIGTERM)


def test_a_run_that_was_stopped_ends(proxy: SilentProxy, url: str) -> None:
    def stopped() -> None:
        proxy.silent.set()
        raise StoppedError("by somebody")

    with pytest.raises(StoppedError, match="by somebody"):
        run_on(url, stopped)


def test_the_wait_before_a_run_ends(proxy: SilentProxy, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    silent_and_signalled(monkeypatch, proxy, signal.SIGTERM)
    with pytest.raises(StoppedError, match="stopped; run the same command again"), writing(url):
        raise AssertionError("it is not begun")


@pytest.mark.parametrize("use", [writing, kept])
def test_a_signal_that_comes_as_a_folder_is_taken_leaves_it_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, use: Callable[[str], AbstractContextManager[object]]
) -> None:
    monkeypatch.chdir(tmp_path)
    renew = Lease.renew

    def renewed(lease: Lease, *, take: bool = False) -> None:
        renew(lease, take=take)
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(Lease, "renew", renewed)
    url = f"file://{tmp_path}/bucket"
    with pytest.raises(StoppedError), use(url):
        raise AssertionError("it is not begun")
    assert (tmp_path / "bucket/writer.json").read_bytes() == b"{}"


def test_a_later_use_has_its_time(proxy: SilentProxy, url: str) -> None:
    grace.begin(at_once=True)
    assert Store(url).get("nothing") is None
