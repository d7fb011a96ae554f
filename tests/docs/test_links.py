"""Every link of a page leads to a file that exists, and to a heading of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from helpers.page_commands import PAGES, ROOT

ALL = [*PAGES, ROOT / "CHANGELOG.md"]


def anchors(page: Path) -> set[str]:
    """Returns the anchors of a page's headings, as GitHub names them."""
    titles = re.findall(r"^#+ (.*)", page.read_text(encoding="utf-8"), re.MULTILINE)
    headings = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).strip().lower() for title in titles)
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in headings}


@pytest.mark.parametrize("page", ALL, ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if link.startswith("http"):
            continue
        file, _, anchor = link.partition("#")
        target = page.parent / file if file else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link
