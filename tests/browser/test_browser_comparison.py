"""The page of a comparison in a real browser, opened as a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from helpers.report_runs import Writer, marvel_run, puzzle

from orchestrator.compare.result import compare
from orchestrator.report.comparison import MOST, beside, render

pytestmark = pytest.mark.full

NASTY = '</script><script>window.pwned=1</script><img src=x onerror="window.pwned=1">'


def write(target: Path, *runs: Path, most: int = MOST, embed: bool = False) -> str:
    comparison = compare(runs)
    target.write_text(render(comparison, beside(comparison, target.parent), most, embed=embed), encoding="utf-8")
    return target.as_uri()


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("runs")
    before, after = marvel_run(folder / "before", skill=0.9), marvel_run(folder / "after", skill=0.5, seed=1)
    return write(folder / "compare.html", before, after)


def prompts(folder: Path, second: str, picture: int = 1, first: str = "Which panel is next?") -> str:
    """A comparison of two runs of one item; the second has another prompt, or another image."""
    runs = []
    for name, text, number in (("before", first, 1), ("after", second, picture)):
        writer = Writer(folder / name)
        answer = {"parts": [{"text": "It is 2."}], "reasoning": f"<b>{name}</b> thinks"}
        writer.item("marvel/1", parts=[writer.image(puzzle(number)), {"text": text}], response=answer,
                    score=float(name == "before"), verdict={"extracted": "2"})  # fmt: skip
        runs.append(writer.close())
    return write(folder / "compare.html", *runs)


def counts(tab: Any, name: str) -> list[str]:
    field = tab.page.locator(f"#controls [name='{name}']")
    read = "field => [...field.options].filter(one => !one.hidden).map(one => one.textContent)"
    return list(field.evaluate(read))[1:]


def test_both_answers_are_beside_each_other_with_the_image(tab: Any, comparison: str) -> None:
    page = tab.open(comparison)
    tab.until("document.querySelector('#detail .pictures img')?.naturalWidth > 0")
    tab.until("document.querySelector('.row .thumb img')?.naturalWidth > 0")
    assert page.locator("#detail .pictures img").count() == 1, "what both were shown is there once"
    assert page.locator("#detail .text .turn pre").count() == 1
    first, second = (page.get_by_role("region", name=name, exact=True) for name in ("before", "after"))
    assert first.bounding_box()["x"] + first.bounding_box()["width"] <= second.bounding_box()["x"]
    verdict, heading = (
        page.locator(".row[aria-selected=true] .took").inner_text(),
        page.locator("#detail header").inner_text(),
    )
    assert verdict in heading
    before, after = verdict.split(", ")[0].split(" → ")
    assert [first.locator("h3").inner_text(), second.locator("h3").inner_text()] == [
        f"✓ before said {before}", f"✗ after said {after}"
    ]  # fmt: skip
    assert tab.complaints == []
    assert all(url.startswith(("file:", "data:")) for url in tab.requests)


def test_filters_count_and_combine(tab: Any, comparison: str) -> None:
    page = tab.open(comparison)
    shown = page.locator("#results .counts").inner_text()
    worse, better = (int(count) for count in counts_of(counts(tab, "change")))
    assert shown == f"{worse} worse and {better} better of 154 items"
    page.get_by_role("link", name=f"{better} better").click()
    tab.until("document.querySelector('#controls [name=change]').value === 'better'")
    tab.settle()
    assert set(page.locator(".row .sign").all_inner_texts()) == {"↑"}
    page.locator("#controls [name='label.pattern']").select_option("Quantities")
    tab.settle()
    assert sum(map(int, counts_of(counts(tab, "change")))) < worse + better
    page.keyboard.press("Escape")
    page.keyboard.press("w")
    tab.settle()
    assert page.locator("#controls [name=change]").input_value() == "worse"
    page.keyboard.press("x")
    page.keyboard.press("/")
    page.keyboard.type("completes it")
    tab.until("new URLSearchParams(location.hash.slice(1)).get('q') === 'completes it'")
    tab.settle()
    assert page.locator("#status").inner_text() == f"{worse + better} of {worse + better} items"
    page.locator("#controls [name=q]").fill("nowhere to be found")
    tab.until("document.getElementById('status').textContent.startsWith('0 of')")


def counts_of(options: list[str]) -> list[str]:
    return [option.rpartition("(")[2].rstrip(")") for option in options]


def test_keys_move_and_each_item_has_a_link(tab: Any, comparison: str) -> None:
    page = tab.open(comparison)
    names = page.locator(".row .name").all_inner_texts()
    page.keyboard.press("j")
    page.keyboard.press("j")
    tab.heading(names[2])
    page.keyboard.press("k")
    tab.heading(names[1])
    address = page.locator("#detail header a").evaluate("link => link.href")
    page.keyboard.press("?")
    assert page.locator("#help").is_visible()
    page.keyboard.press("Escape")
    page.goto("about:blank")
    tab.open(address)
    tab.heading(names[1])
    assert page.locator("#list").get_attribute("role") == "listbox"
    active = page.locator("#list").get_attribute("aria-activedescendant")
    assert page.locator(f"#{active}").get_attribute("aria-selected") == "true"
    nameless = page.evaluate("""Array.from(document.querySelectorAll('button, select, input, a, img, section')).filter(
        node => !node.closest('[aria-hidden=true]') && !(node.textContent.trim() || node.getAttribute('aria-label') ||
        node.getAttribute('alt') || node.labels?.length)).map(node => node.outerHTML.slice(0, 200))""")
    assert nameless == []


def test_words_that_differ_are_marked(tab: Any, tmp_path: Path) -> None:
    page = tab.open(prompts(tmp_path, "Think first. Which dot is next?"))
    assert page.locator("#detail .pictures img").count() == 1
    assert page.locator("#detail del").all_inner_texts() == ["panel"]
    assert page.locator("#detail ins").all_inner_texts() == ["Think first. ", "dot"]
    assert page.get_by_role("region", name="after").locator(".turn pre").first.inner_text() == (
        "Think first. Which dot is next?"
    )
    assert page.get_by_text("The runs differ in the prompt: both are below.").is_visible()
    assert "score 1 → score 0" in page.locator("#detail header").inner_text(), "both said 2"
    reasoning = page.get_by_role("region", name="after").locator(".reasoning")
    assert not reasoning.locator("pre").is_visible()
    reasoning.locator("summary").click()
    assert reasoning.locator("pre").inner_text() == "<b>after</b> thinks"


def test_images_that_differ_are_both_shown(tab: Any, tmp_path: Path) -> None:
    page = tab.open(prompts(tmp_path, "Which panel is next?", picture=2))
    assert page.locator("#detail .text .turn pre").count() == 1
    sources = [
        page.get_by_role("region", name=name).locator("img").evaluate("image => image.src")
        for name in ("before", "after")
    ]
    assert [source.split("/")[-3] for source in sources] == ["before", "after"]
    assert sources[0].split("/")[-1] != sources[1].split("/")[-1]
    assert page.locator("#detail :is(ins, del)").count() == 0


def test_long_prompts_are_compared_in_bounded_time(tab: Any, tmp_path: Path) -> None:
    """Beyond a bound the words between the first and the last that differ are marked as one."""
    one, other = (" ".join(f"{letter}{number}" for number in range(3000)) for letter in "ab")
    page = tab.open(prompts(tmp_path, f"Which {other} next?", first=f"Which {one} next?"))
    assert page.locator("#detail :is(ins, del)").all_inner_texts() == [one, other]


def test_three_runs(tab: Any, tmp_path: Path) -> None:
    runs = [
        marvel_run(tmp_path / name, puzzles=60, skill=skill) for name, skill in zip("abc", (0.9, 0.5, 0.2), strict=True)
    ]
    page = tab.open(write(tmp_path / "compare.html", *runs, embed=True))
    assert [text.rpartition(" ")[0] for text in counts(tab, "run")] == ["b", "c"]
    page.locator("#results .counts").nth(1).get_by_role("link", name="worse").click()
    tab.until("document.querySelector('#controls [name=run]').value === 'c'")
    tab.settle()
    assert all(name.endswith(" → c") for name in page.locator(".row .name").all_inner_texts())
    assert page.locator("#detail section.side").nth(1).get_attribute("aria-label") == "c"
    assert page.locator("#detail .pictures img").get_attribute("src").startswith("data:image/png;base64,")


def test_nothing_of_a_run_becomes_markup(tab: Any, tmp_path: Path) -> None:
    runs = []
    for name, score in (("one", 1.0), ("<b>two", 0.0)):
        writer = Writer(tmp_path / name, NASTY, tasks=["marvel"], hint=NASTY + name)
        parts = [{"text": NASTY + name}, {"image": {"media_type": NASTY, "sha256": "../../x"}}]
        response = {"parts": [{"text": NASTY}], "reasoning": NASTY}
        verdict = {"extracted": NASTY + name, "detail": NASTY, "judge": {"model": NASTY, "words": NASTY}}
        writer.item("marvel/1" + NASTY, parts=parts, response=response, score=score, labels={NASTY: NASTY},
                    targets=[NASTY], options=[NASTY, "b"], group=NASTY, verdict=verdict)  # fmt: skip
        writer.item("marvel/2", score=1 - score, answer="1", labels={NASTY: "b"})
        runs.append(writer.close())
    page = tab.open(write(tmp_path / "compare.html", *runs))
    for details in page.locator("#detail details summary").all():
        details.click()
    assert page.locator("#detail").inner_text().count(NASTY) >= 9
    assert page.evaluate("window.pwned") is None
    assert page.locator("#detail script, #list script, #detail img, #detail .side b b").count() == 0
    assert tab.complaints == []


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (400, "dark")])
def test_it_fits_the_screen(tab: Any, comparison: str, width: int, scheme: str) -> None:
    tab.page.set_viewport_size({"width": width, "height": 800})
    tab.page.emulate_media(color_scheme=scheme)
    page = tab.open(comparison)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    first, second = (page.locator("#detail section.side").nth(number).bounding_box() for number in (0, 1))
    assert (first["y"] == second["y"]) is (width == 1280)


def test_twenty_thousand_items_that_changed(tab: Any, tmp_path: Path) -> None:
    runs = [marvel_run(tmp_path / name, puzzles=30_000, skill=skill) for name, skill in (("a", 1.0), ("b", 0.0))]
    page = tab.open(write(tmp_path / "compare.html", *runs, most=20_000))
    held = int(page.locator("#status").inner_text().split(" ")[0].replace(",", ""))
    assert held > 18_000
    assert page.locator(".row").count() < 60
    page.locator("#list").focus()
    page.keyboard.press("End")
    selected = "document.querySelector('.row[aria-selected=true]')"
    tab.until(f"{selected}?.getAttribute('aria-posinset') === '{held}'")
    assert tab.complaints == []


def test_nothing_changed(tab: Any, tmp_path: Path) -> None:
    run = marvel_run(tmp_path / "run", puzzles=9)
    page = tab.page
    page.goto(write(tmp_path / "compare.html", run, run))
    assert page.get_by_text("None: the runs score all items that both have alike.").is_visible()
    assert tab.complaints == []
