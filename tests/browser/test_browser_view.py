"""The page over a folder of runs, live, and the page of a comparison."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from helpers.report_runs import Writer, marvel_run

from orchestrator.cli.compare import command
from orchestrator.report.live.local import HOST
from orchestrator.report.live.server import serve

pytestmark = pytest.mark.full


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    marvel_run(tmp_path / "runs" / "<i>done", puzzles=30)
    server = serve(tmp_path / "runs", 0)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://{HOST}:{server.server_address[1]}/"
    server.shutdown()
    server.server_close()
    thread.join()


def test_runs_appear_and_grow_without_a_reload(tab: Any, address: str, tmp_path: Path) -> None:
    page = tab.page
    page.goto(address)
    page.locator("#runs tr", has_text="<i>done").wait_for()
    assert "complete" in page.locator("#runs tr").inner_text()
    writer = Writer(tmp_path / "runs" / "live", "<script>window.pwned=1</script>")
    writer.item("marvel/1", answer="1", score=1.0, verdict={"extracted": "1"})
    writer.close(complete=False)
    row = page.locator("#runs tr", has_text="live")
    row.wait_for()
    assert "<script>window.pwned=1</script>" in row.inner_text()
    assert "1 scored" in row.inner_text()
    writer.item("marvel/2", answer="?", outcome="unparsed", score=0.0)
    writer.close(complete=False)
    row.filter(has_text="1 unparsed").wait_for()
    writer.close()
    row.filter(has_text="complete").wait_for()
    assert page.evaluate("window.pwned") is None
    assert all(url.startswith((address, "data:")) for url in tab.requests)
    assert tab.complaints == []


def test_a_run_opens_with_its_images(tab: Any, address: str) -> None:
    page = tab.page
    page.goto(address)
    page.locator("#runs a").first.click()
    page.locator("#detail img").scroll_into_view_if_needed()
    tab.until("document.querySelector('#detail img')?.naturalWidth > 0")
    assert tab.complaints == []


def test_a_comparison_opens_with_its_images(tab: Any, tmp_path: Path) -> None:
    runs = [marvel_run(tmp_path / "before", puzzles=40), marvel_run(tmp_path / "after", puzzles=40, skill=0.9)]
    target = tmp_path / "compare.html"
    assert CliRunner().invoke(command, [*map(str, runs), "--html", str(target)]).exit_code == 0
    page = tab.page
    page.goto(target.as_uri())
    page.locator("details.flip summary").first.click()
    tab.until("document.querySelector('details[open] img').naturalWidth > 0")
    assert page.locator("details[open] mark").count() == 2
    assert tab.complaints == []
    assert all(url.startswith("file:") for url in tab.requests if not url.startswith("data:"))
