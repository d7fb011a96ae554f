"""The page of trainings: legible at every width and in both themes, without a script."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from helpers.series_runs import change, series

from orchestrator.report import series as pages
from orchestrator.suite import training

pytestmark = pytest.mark.full


@pytest.fixture
def page(tmp_path: Path) -> str:
    changes = [change(4, -0.4, why="fell <b>beyond</b> chance", noise=0.01)]
    warm = series(tmp_path / "warm", (0.2, 0.5, 0.8, 0.4, 0.9) * 3, changes=changes)
    cold = series(tmp_path / "cold", (0.1, 0.2, 0.3), baseline="reference", fixed=0.6)
    trainings = training.named([warm, cold])
    path = tmp_path / "both.html"
    path.write_text(pages.render(trainings, pages.beside(trainings, tmp_path)))
    return path.as_uri()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_it_fits_and_is_legible(tab: Any, page: str, width: int, scheme: str) -> None:
    tab.page.set_viewport_size({"width": width, "height": 800})
    tab.page.emulate_media(color_scheme=scheme)
    tab.page.goto(page)
    assert tab.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert tab.requests == [page]
    assert tab.complaints == []
    # Numbers of the steps do not cover each other, and every mark stands out from the paper.
    boxes = [text.bounding_box() for text in tab.page.locator(".curve").first.locator("text.across").all()]
    places = sorted((box["x"], box["x"] + box["width"]) for box in boxes[:-1])
    assert all(one[1] < other[0] for one, other in pairwise(places))
    marks = ("path.line.series1", "path.line.series2", "circle.alarm")
    tones = {
        tab.page.locator(f".curve {mark}").first.evaluate("mark => getComputedStyle(mark).stroke") for mark in marks
    }
    paper = tab.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert len(tones | {paper}) == 4


def test_items_that_changed_open_by_their_link(tab: Any, page: str) -> None:
    tab.page.goto(page)
    table = tab.page.locator("details table").first
    assert not table.is_visible()
    tab.page.locator("td.note a").first.click()
    table.wait_for()
    assert "marvel/" in table.inner_text()
    assert tab.page.locator("#alarms b").count() == 0
