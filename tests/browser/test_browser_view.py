"""The page over a folder of runs, live."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from helpers.report_runs import Writer, marvel_run

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
    assert row.locator("svg[role=img]").get_attribute("aria-label") == "1 scored"
    writer.item("marvel/2", answer="?", outcome="unparsed", score=0.0)
    writer.close(complete=False)
    row.filter(has_text="1 not scored").wait_for()
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


def names(page: Any) -> list[str]:
    return list(page.locator("#runs th a").all_inner_texts())


@pytest.fixture
def several(tmp_path: Path, address: str) -> str:
    """Three more runs: another model on the same task, one with two tasks, and one that is not complete."""
    marvel_run(tmp_path / "runs" / "better", puzzles=30, skill=1.0, model="qwen-tiny")
    for name, complete in (("two", True), ("stopped", False)):
        writer = Writer(tmp_path / "runs" / name, tasks=["marvel", "vstar"])
        for task in ("marvel", "vstar"):
            writer.item(f"{task}/1", answer="1", score=1.0)
        writer.close(complete=complete)
    return address


def opened(tab: Any, address: str, runs: int) -> Any:
    tab.page.goto(address)
    tab.until("count => document.querySelectorAll('#runs tr').length === count", runs)
    return tab.page


def test_the_table_sorts_and_filters(tab: Any, several: str) -> None:
    page = opened(tab, several, 4)
    head = page.get_by_role("columnheader", name="Metric, 95% CI")
    head.get_by_role("button").click()
    assert head.get_attribute("aria-sort") == "descending"
    assert names(page) == ["two", "better", "<i>done", "stopped"], "what has no metric yet comes last"
    head.get_by_role("button").press("Enter")
    assert head.get_attribute("aria-sort") == "ascending"
    assert names(page) == ["<i>done", "better", "two", "stopped"]
    read = "field => [...field.options].map(one => one.textContent)"
    assert page.locator("[name=metric]").evaluate(read) == [
        "all", "marvel: accuracy (1)", "marvel: AVR (2)", "vstar: accuracy (1)"
    ]  # fmt: skip
    page.locator("[name=metric]").select_option("marvel: AVR")
    assert names(page) == ["<i>done", "better"]
    assert page.locator("[name=model]").evaluate(read) == ["all", "llava-tiny (1)", "qwen-tiny (1)"]
    address = page.url
    page.keyboard.press("Escape")
    page.locator("h1").click()
    page.keyboard.press("x")
    assert len(names(page)) == 4
    page.keyboard.press("/")
    page.keyboard.type("QWEN")
    assert names(page) == ["better"]
    assert page.locator("#status").inner_text() == "1 of 4 runs"
    page.goto("about:blank")
    assert names(opened(tab, address, 2)) == ["<i>done", "better"], "the address holds the view"
    assert tab.complaints == []


def test_runs_are_chosen_and_compared_by_keyboard(tab: Any, several: str) -> None:
    page = opened(tab, several + "#sort=run", 4)
    assert names(page) == ["<i>done", "better", "stopped", "two"]
    for key in ("j", "j", "Space", "k", "Space"):
        page.keyboard.press(key)
    assert page.get_by_role("checkbox", name="Compare better").is_checked()
    bar = page.get_by_role("complementary", name="Runs to compare")
    assert bar.locator("p").inner_text() == "better → <i>done"
    page.keyboard.press("c")
    page.wait_for_url("**/compare/?run=better&run=*")
    tab.settle()
    assert page.locator("h1").inner_text() == "better → <i>done"
    tab.until("document.querySelector('#detail .pictures img')?.naturalWidth > 0")
    page.get_by_role("link", name="All runs").click()
    page.get_by_role("checkbox", name="Compare two").check()
    assert not page.locator("#compare").count(), "one is chosen"
    page.get_by_role("checkbox", name="Compare better").check()
    page.get_by_role("link", name="Compare", exact=True).click()
    page.wait_for_url("**/compare/**")
    assert page.get_by_role("heading", name="These runs cannot be compared").is_visible()
    assert [line for line in tab.complaints if "409" not in line] == []


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (400, "dark")])
def test_the_table_fits_the_screen_and_each_control_has_a_name(tab: Any, several: str, width: int, scheme: str) -> None:
    tab.page.set_viewport_size({"width": width, "height": 800})
    tab.page.emulate_media(color_scheme=scheme)
    page = opened(tab, several, 4)
    page.get_by_role("checkbox").first.check()
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert all(n.is_visible() for n in page.locator("#runs .value-line", has_text="n=").get_by_text("n=").all())
    assert page.get_by_role("row").count() == 5
    assert page.get_by_role("rowheader").count() == 4
    nameless = page.evaluate("""Array.from(document.querySelectorAll('button, select, input, a, svg, th')).filter(
        node => !(node.textContent.trim() || node.getAttribute('aria-label') || node.labels?.length)
    ).map(node => node.outerHTML.slice(0, 200))""")
    assert nameless == []
    page.keyboard.press("?")
    assert page.get_by_role("dialog", name="Keys").is_visible()


def test_many_runs(tab: Any, address: str, tmp_path: Path) -> None:
    for number in range(300):
        writer = Writer(tmp_path / "runs" / f"run{number}")
        writer.item("marvel/1", answer="1", score=float(number % 2))
        writer.close()
    page = opened(tab, address, 301)
    page.get_by_role("button", name="Run", exact=True).click()
    assert names(page)[:4] == ["<i>done", "run0", "run1", "run2"], "9 before 17"
    page.keyboard.press("/")
    page.keyboard.type("run29")
    assert len(names(page)) == 11
    assert tab.complaints == []


@pytest.mark.weekly
@pytest.mark.timeout(1800)
def test_two_hundred_thousand_items(tab: Any, address: str, tmp_path: Path) -> None:
    """Two runs of that many are listed at once; a run and a comparison open, and are looked at, by keyboard alone."""
    items = 200_000
    for name, every in (("large", 3), ("larger", 4)):
        writer = Writer(tmp_path / "runs" / name, tasks=["marvel"])
        for number in range(items):
            right = number % every != 0
            writer.item(
                f"marvel/{number}",
                answer="1" if right else "2",
                score=float(right),
                labels={"kind": "abcd"[number % 4]},
            )
        writer.close()
    tab.page.context.set_default_timeout(600_000)
    page = opened(tab, address + "#sort=items", 3)
    assert names(page)[:2] == ["large", "larger"]
    assert "200,000" in page.get_by_role("row", name="larger").inner_text()
    for key in ("j", "Space", "j", "Space", "k"):
        page.keyboard.press(key)
    with timed("report"):
        page.keyboard.press("Enter")
        page.wait_for_url("**/runs/large/")
        tab.settle()
    assert "200,000 planned = 200,000 scored" in page.get_by_role("region", name="Completeness").inner_text()
    with timed("wrong only"):
        page.keyboard.press("w")
        tab.settle()
    page.keyboard.press("j")
    tab.settle()
    assert page.locator("#list").get_by_role("option", selected=True).count() == 1
    page.go_back()
    page.get_by_role("complementary", name="Runs to compare").wait_for()
    with timed("comparison"):
        page.keyboard.press("c")
        page.wait_for_url("**/compare/**")
        tab.until("document.getElementById('status')?.dataset.done === 'true'")
    assert "of 200,000 items" in page.get_by_role("region", name="Results").inner_text()
    assert tab.complaints == []


@contextmanager
def timed(label: str) -> Iterator[None]:
    """Prints how long something took (pytest -s); nothing is asserted of it."""
    began = time.monotonic()
    yield
    print(f"{label}: {time.monotonic() - began:.1f} s")
