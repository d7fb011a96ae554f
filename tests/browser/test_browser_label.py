"""The page of labels in a real browser, by keyboard, over a real command."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from helpers.label_runs import NASTY, judged_run
from helpers.report_runs import Writer

from orchestrator.report import write_report
from orchestrator.report.labels import draw
from orchestrator.run_folder import labels
from orchestrator.run_folder.reader import open_run

pytestmark = pytest.mark.full

ORCHESTRATOR = Path(sys.executable).with_name("orchestrator")


class Server:
    """One person's `orchestrator label`."""

    def __init__(self, run: Path, *args: str) -> None:
        command = [str(ORCHESTRATOR), "label", str(run), "--port", "0", *args]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout
        self.address = self.process.stdout.readline().split()[0]

    def end(self, number: int = signal.SIGINT) -> None:
        if self.process.poll() is None:
            self.process.send_signal(number)
            self.process.communicate()


@pytest.fixture
def servers() -> Iterator[Any]:
    with ExitStack() as stack:

        def start(run: Path, *args: str) -> Server:
            server = Server(run, *args)
            stack.callback(server.end)
            return server

        yield start


def shown(tab: Any, key: str) -> None:
    tab.until("key => document.getElementById('item').dataset.shown === key", key)


def test_a_sample_is_labelled_by_keyboard(tab: Any, servers: Any, tmp_path: Path) -> None:
    run = judged_run(tmp_path / "run")
    keys = [unit.keys[0] for unit in draw(open_run(run), "marvel", 0).units[:60]]
    server, page = servers(run, "--as", "ann", "--n", "60"), tab.page
    page.goto(server.address)
    shown(tab, keys[0])
    text = page.locator("#item").inner_text()
    assert NASTY in text
    assert "SECRET" not in text
    assert "a dog" in text
    tab.until("document.querySelector('.pictures img')?.naturalWidth > 0")
    assert not page.locator("#score").count(), "scores are right or wrong in this run"
    for index, key in enumerate("yn10u"):
        page.keyboard.press(key)
        shown(tab, keys[index + 1])
    page.keyboard.press("s")
    shown(tab, keys[6])
    page.keyboard.press("z")
    shown(tab, keys[4])
    page.keyboard.press("y")
    shown(tab, keys[6])
    assert page.locator("#status").inner_text() == "5 of 60 labelled"

    # Killed, started anew: nothing is lost, and what was skipped comes again.
    server.end(signal.SIGKILL)
    page.keyboard.press("y")
    tab.until("document.getElementById('problem').textContent.startsWith('not saved')")
    assert list(labels.read(run)[1]["ann"]) == keys[:5]
    page.goto(servers(run, "--as", "ann", "--n", "60").address)
    shown(tab, keys[5])
    for key in [*keys[6:], ""]:
        page.keyboard.press("y")
        shown(tab, key)
    assert "60 labels, all saved" in page.locator("#item").inner_text()
    page.get_by_role("button", name="Where do the verdicts say otherwise?").click()
    page.locator("tbody tr").first.wait_for()
    assert not page.get_by_role("toolbar").is_visible(), "who has seen verdicts labels no more"
    scores = {key: line.score for key, line in labels.read(run)[1]["ann"].items()}
    assert scores == dict.fromkeys(keys, 1.0) | {keys[1]: 0.0, keys[3]: 0.0}
    assert page.evaluate("window.pwned") is None
    assert all("ERR_CONNECTION" in line for line in tab.complaints), "only of the killed server"

    tab.open(write_report(run).as_uri())
    section = page.locator("#labels").inner_text()
    assert "60 of 120 labelled by ann" in section
    assert "verdicts and labels" in section


def test_two_people_and_scores_between(tab: Any, servers: Any, tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run")
    for number in range(5):
        writer.item(
            f"marvel/{number}", answer=f"dog {number}", score=number / 4, targets=["a", "b"], options=["x", "y"]
        )
    run = writer.close({"marvel": [{"name": "mean", "metric": "mean", "value": 0.5}]})
    page = tab.page
    for person, score in (("ann", "0.25"), ("bob", "0,75")):
        page.goto(servers(run, "--as", person).address)
        tab.until("document.getElementById('item').dataset.shown")
        first = page.locator("#item").get_attribute("data-shown")
        page.keyboard.press(".")
        page.keyboard.type("2y")
        page.keyboard.press("Enter")
        tab.until("document.getElementById('problem').textContent.includes('from 0 to 1')")
        page.locator("#score").fill(score)
        page.keyboard.press("Enter")
        tab.until("key => !['', key].includes(document.getElementById('item').dataset.shown)", first)
    assert labels.scores(labels.read(run)[1]) == {first: [0.25, 0.75]}
    assert tab.complaints == []


@pytest.mark.parametrize("width", [400, 1280])
def test_it_fits_its_window(tab: Any, servers: Any, tmp_path: Path, width: int) -> None:
    page = tab.page
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(servers(judged_run(tmp_path / "run")).address)
    tab.until("document.querySelector('.pictures img')?.naturalWidth > 0")
    assert page.evaluate("document.documentElement.scrollWidth") == width
    bar = page.get_by_role("toolbar").bounding_box()
    assert bar["y"] + bar["height"] == pytest.approx(800, abs=1)
    assert bar["height"] < 120
