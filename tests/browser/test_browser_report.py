"""The report in a real browser, opened as a file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import orjson
import pytest
from helpers.report_runs import Writer, marvel_run, puzzle, sliced

from orchestrator.report import write_report
from orchestrator.run_folder.reader import open_run

pytestmark = pytest.mark.full

NASTY = '</script><script>window.pwned=1</script><img src=x onerror="window.pwned=1"><svg onload="window.pwned=1">'


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_report(marvel_run(tmp_path_factory.mktemp("runs") / "run")).as_uri()


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_report(marvel_run(tmp_path_factory.mktemp("runs") / "large", puzzles=10_000)).as_uri()


def select(tab: Any, name: str, value: str) -> None:
    tab.page.locator(f"#controls [name='{name}']").select_option(value)
    tab.settle()


def search(tab: Any, text: str) -> None:
    tab.page.locator("#controls [name=q]").fill(text)
    tab.until("text => new URLSearchParams(location.hash.slice(1)).get('q') === (text || null)", text)
    tab.settle()


def status(tab: Any) -> str:
    return str(tab.page.locator("#status").inner_text())


def test_it_opens_quietly_and_asks_nobody(tab: Any, report: str) -> None:
    page = tab.open(report)
    assert status(tab) == "154 of 154 items"
    page.locator("#detail img").first.scroll_into_view_if_needed()
    tab.until("document.querySelector('#detail img')?.naturalWidth > 0")
    assert tab.complaints == []
    assert all(url.startswith(("file:", "data:")) for url in tab.requests)
    assert any("/images/" in url for url in tab.requests)


@pytest.mark.parametrize("width", [400, 1280])
def test_the_answer_comes_first_and_leads_to_what_is_wrong(tab: Any, tmp_path: Path, width: int) -> None:
    """The headline counts the items of its metric alone: steps of another kind are in the task too."""
    runs = []
    for name, scores in (("run", (1.0, 1.0, 0.0, 0.0)), ("blind", (1.0, 0.0, 0.0, 0.0))):
        writer = Writer(tmp_path / name)
        for number, score in enumerate(scores):
            labels = {"kind": "avr", "pattern": "ab"[number % 2]}
            writer.item(f"marvel/{number}:avr", answer="1", score=score, labels=labels)
        metrics = sliced("AVR", writer.verdicts, ("pattern",))
        metrics.append({**metrics[0], "name": "bias", "metric": "choice_bias"})
        for number in range(3):
            writer.item(f"marvel/{number}:fine", answer="1", score=0.0, labels={"kind": "fine"})
        path = writer.close({"marvel": metrics})
        manifest = orjson.loads((path / "manifest.json").read_bytes())
        manifest["metrics"] = {"marvel": [{"name": "AVR", "where": {"kind": {"values": ["avr"]}}}]}
        (path / "manifest.json").write_bytes(orjson.dumps(manifest))
        runs.append(path)
    page = tab.page
    page.set_viewport_size({"width": width, "height": 1000})
    tab.open(write_report(runs[0], blind=open_run(runs[1])).as_uri())
    card = page.get_by_role("article", name="marvel AVR")
    text = " ".join(card.inner_text().split())
    assert text.startswith("marvel AVR 50.0% 95% CI "), text
    assert "25.0 blind" in text
    assert "a 50.0 n=2 b 50.0 n=2" in text
    assert card.bounding_box()["y"] + card.bounding_box()["height"] < 1000
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert not page.get_by_role("heading", name="Configuration").is_visible()
    page.get_by_text("All metrics").click()
    assert "less is better" in page.get_by_role("row", name="bias").inner_text()
    assert "less is better" not in page.get_by_role("row", name="AVR").inner_text()
    card.get_by_role("link", name="2 wrong of 4: look").click()
    tab.settle()
    assert status(tab) == "2 of 7 items"
    assert page.locator(".row .name").all_inner_texts() == ["marvel/2:avr", "marvel/3:avr"]


def test_it_cannot_ask_even_if_it_wanted(tab: Any, report: str) -> None:
    page = tab.open(report)
    for attempt in ("fetch('https://example.com/')", "fetch('http://127.0.0.1:1/')"):
        assert page.evaluate(f"{attempt}.then(() => 'went out', () => 'stopped')") == "stopped"
    image = """new Promise(done => {
        const image = new Image();
        image.onload = () => done('went out');
        image.onerror = () => done('stopped');
        image.src = 'https://example.com/a.png';
    })"""
    assert page.evaluate(image) == "stopped"
    blocked = [line for line in tab.complaints if "Content Security Policy" in line]
    assert len(blocked) >= 3


def test_filters_narrow_and_combine(tab: Any, report: str) -> None:
    page = tab.open(report)
    select(tab, "outcome", "unparsed")
    assert status(tab) == "11 of 154 items"
    assert set(page.locator(".row .sign").all_inner_texts()) == {"?"}
    select(tab, "outcome", "")
    select(tab, "label.pattern", "Quantities")
    assert status(tab) == "32 of 154 items"
    select(tab, "verdict", "right")
    assert status(tab) == "13 of 154 items"
    page.get_by_role("button", name="Clear").click()
    tab.settle()
    assert status(tab) == "154 of 154 items"


def test_text_is_searched_in_prompts_answers_and_errors(tab: Any, report: str) -> None:
    page = tab.open(report)
    search(tab, "cannot be determined")
    assert status(tab) == "11 of 154 items"
    assert page.locator("#detail mark.found").first.inner_text() == "cannot be determined"
    search(tab, "connection lost")
    assert status(tab) == "3 of 154 items"
    search(tab, "COMPLETES IT (1-4)")
    assert status(tab) == "154 of 154 items"
    search(tab, "nowhere to be found")
    assert status(tab) == "0 of 154 items"


def test_anchors_bring_back_the_view(tab: Any, report: str) -> None:
    page = tab.open(f"{report}#outcome=unparsed&sample=marvel%2F26%3Aavr")
    assert status(tab) == "11 of 154 items"
    assert page.locator("#detail h2").inner_text() == "marvel/26:avr"
    assert page.locator("#controls [name=outcome]").input_value() == "unparsed"
    page.locator(".row", has_text="marvel/39:avr").click()
    tab.until("location.hash.includes('39%3Aavr')")
    address = page.url
    page.goto("about:blank")
    tab.open(address)
    tab.heading("marvel/39:avr")
    assert status(tab) == "11 of 154 items"


@pytest.mark.parametrize(
    ("link", "text"),
    [("q=cannot%20be+determined", "cannot be determined"), ("q=50%25", "50%"), ("q=50%", "50%"), ("q=%zz", "%zz")],
)
def test_a_link_with_a_search_is_one(tab: Any, report: str, link: str, text: str) -> None:
    """A sign that a person typed into the address and did not escape is a sign."""
    page = tab.open(f"{report}#{link}&sample=marvel%2F26%3Aavr")
    assert page.locator("#controls [name=q]").input_value() == text
    assert status(tab) == f"{11 if 'cannot' in text else 0} of 154 items"
    assert page.locator("#detail h2").inner_text() == "marvel/26:avr"
    assert tab.complaints == []


def test_what_went_wrong_leads_to_its_samples(tab: Any, report: str) -> None:
    page = tab.open(report)
    page.get_by_role("link", name="rejected · context_overflow").click()
    tab.until("document.getElementById('status').textContent.startsWith('4 of')")
    tab.settle()
    assert "4,211 tokens, 4,096 fit" in page.locator("#detail").inner_text()


def test_a_cell_of_the_heat_map_leads_to_its_samples(tab: Any, report: str) -> None:
    page = tab.open(report)
    page.locator("a[*|href*='label.pattern=Mathematical&label.configuration=Matrix']").first.click()
    tab.until("document.getElementById('status').textContent.startsWith('8 of')")
    assert page.locator("#controls [name='label.configuration']").input_value() == "Matrix"


def test_charts_answer_to_the_pointer_and_the_keyboard(tab: Any, report: str) -> None:
    page = tab.open(report)
    tip, shown = page.locator("#tip"), "words => document.getElementById('tip').textContent.startsWith(words)"
    assert not tip.is_visible()
    page.locator("figure.rows tbody tr", has_text="2D-Geometry").first.hover()
    tab.until(shown, "2D-Geometry: 53.6 [")
    page.locator("figure.heat_map a").first.focus()
    tab.until(shown, "2D-Geometry, Group: ")
    assert tip.is_visible()
    page.locator("figure.plane .band").nth(3).hover()
    tab.until(shown, "from ")
    page.keyboard.press("Escape")
    assert not tip.is_visible()
    assert tab.complaints == []


def test_the_extracted_part_is_marked(tab: Any, report: str) -> None:
    page = tab.open(f"{report}#sample=marvel%2F2%3Aavr")
    mark = page.locator("#detail .answer mark")
    assert mark.inner_text() == "4"
    assert page.locator("#detail .answer pre").inner_text().endswith("Choice 4 fits best.")


def test_spans_count_code_points(tab: Any, tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run")
    writer.item("marvel/1", answer="🦊🦊 so 3.", score=1.0, verdict={"extracted": "3", "span": {"start": 6, "end": 7}})
    page = tab.open(write_report(writer.close()).as_uri())
    assert page.locator("#detail .answer mark").inner_text() == "3"


def test_keys_move_and_filter(tab: Any, report: str) -> None:
    page = tab.open(report)
    heading = page.locator("#detail h2")
    page.keyboard.press("j")
    page.keyboard.press("j")
    tab.heading("marvel/3:avr")
    page.keyboard.press("k")
    tab.heading("marvel/2:avr")
    page.locator("#list").focus()
    page.keyboard.press("End")
    tab.heading("marvel/154:avr")
    page.keyboard.press("w")
    tab.settle()
    assert page.locator("#controls [name=verdict]").input_value() == "wrong"
    page.keyboard.press("/")
    page.keyboard.type("j7")
    assert page.locator("#controls [name=q]").input_value() == "j7", "letters in a field are text"
    page.keyboard.press("Escape")
    page.keyboard.press("x")
    tab.settle()
    assert status(tab) == "154 of 154 items"
    page.keyboard.press("?")
    assert page.locator("#help").is_visible()
    assert heading.count() == 1


@pytest.mark.parametrize("width", [400, 1280])
def test_the_verdict_comes_first_and_the_image_is_beside_the_text(tab: Any, report: str, width: int) -> None:
    tab.page.set_viewport_size({"width": width, "height": 900})
    page = tab.open(f"{report}#sample=marvel%2F3%3Aavr")
    row, head = page.locator(".row[aria-selected=true]"), page.locator("#detail > header")
    verdict = row.locator(".took").inner_text()
    assert re.fullmatch(r"said [1-4], right [1-4]", verdict), verdict
    assert head.inner_text().split("\n")[0].endswith(verdict)
    assert row.locator(".said").inner_text().startswith("You are given a puzzle. Please choose")
    tab.until("document.querySelector('.row[aria-selected=true] .thumb img')?.naturalWidth > 0")
    image, text = page.locator("#detail .pictures img").bounding_box(), page.locator("#detail .text").bounding_box()
    assert (image["x"] + image["width"] <= text["x"]) is (width == 1280)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    page.locator("#detail").evaluate("detail => { detail.scrollTop = 200; }")
    assert page.evaluate(
        "document.querySelector('#detail > header').getBoundingClientRect().top"
        " - document.querySelector('#detail').getBoundingClientRect().top < 2"
    )


def test_order_and_grid_by_keyboard(tab: Any, report: str) -> None:
    page = tab.open(report)
    select(tab, "sort", "highest score")
    assert page.locator(".row .took").first.inner_text().endswith(", right")
    page.locator("#list").focus()
    page.keyboard.press("g")
    tab.settle()
    assert not page.locator("#detail").is_visible()
    assert page.get_by_role("button", name="Grid").get_attribute("aria-pressed") == "true"
    page.keyboard.press("Home")
    position = (
        "[...document.querySelectorAll('.row[aria-selected=true]')].map(row => [row.offsetLeft, row.offsetTop])[0]"
    )
    first = page.evaluate(position)
    for key, side in (("ArrowRight", 0), ("ArrowDown", 1)):
        page.keyboard.press(key)
        assert page.evaluate(position)[side] > first[side]
    name = page.locator(".row[aria-selected=true] .name").inner_text()
    address = page.url
    page.keyboard.press("Enter")
    tab.heading(name)
    assert page.locator("#detail").is_visible()
    page.goto("about:blank")
    page = tab.open(address)
    assert page.locator(".row[aria-selected=true] .name").inner_text() == name
    page.keyboard.press("g")
    tab.settle()
    page.keyboard.press("z")
    assert page.locator("#zoom img").is_visible()
    assert tab.complaints == []


def test_counts_follow_the_filters_and_only_those_of_the_task_are_there(tab: Any, tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run", tasks=["a", "b"])
    for number in range(6):
        labels = {"size": "small" if number < 2 else "large", "level": "1"}
        writer.item(f"a/{number}", answer="1", score=float(number % 2), labels=labels)
    for number in range(4):
        writer.item(f"b/{number}", answer="1", score=1.0, labels={"level": "12"[number % 2]})
    page = tab.open(write_report(writer.close()).as_uri())

    def offered() -> dict[str, list[str]]:
        fields = page.locator("#controls label:not([hidden]) select").all()
        read = "field => [...field.options].filter(one => !one.hidden).map(one => one.textContent)"
        return {str(field.get_attribute("name")): field.evaluate(read)[1:] for field in fields}

    assert offered() == {
        "verdict": ["right (7)", "wrong (3)"], "outcome": ["scored (10)"], "task": ["a (6)", "b (4)"],
        "label.level": ["1 (8)", "2 (2)"],
        "sort": ["lowest score", "highest score"],
    }  # fmt: skip
    select(tab, "task", "a")
    offers = offered()
    assert (offers["verdict"], offers["task"]) == (["right (3)", "wrong (3)"], ["a (6)", "b (4)"])
    assert offers["label.size"] == ["large (4)", "small (2)"]
    assert "label.level" not in offers
    select(tab, "label.size", "small")
    assert offered()["verdict"] == ["right (1)", "wrong (1)"]
    search(tab, "a/0")
    assert offered()["verdict"] == ["wrong (1)"]


def test_ten_thousand_samples(tab: Any, large: str) -> None:
    page = tab.open(large)
    assert status(tab) == "10,000 of 10,000 items"
    assert page.locator(".row").count() < 60, "only what is seen is in the document"
    scroll = "share => { const list = document.getElementById('list'); list.scrollTop = share * list.scrollHeight; }"
    places = "Array.from(document.querySelectorAll('.row')).map(row => Number(row.getAttribute('aria-posinset')))"
    for share in (0.1, 0.5, 0.9):
        page.evaluate(scroll, share)
        tab.until(f"share => {places}.some(place => Math.abs(place - share * 10000) < 60)", share)
        assert page.locator(".row").count() < 60
    page.locator("#list").focus()
    page.keyboard.press("End")
    tab.heading("marvel/10000:avr")
    search(tab, "cannot be determined")
    # 13, 26, ... without those that 37 or 41 took before.
    wanted = sum(n % 13 == 0 and n % 37 != 0 and n % 41 != 0 for n in range(1, 10_001))
    assert status(tab) == f"{wanted:,} of 10,000 items"
    assert tab.complaints == []


def test_scripts_are_shown_as_text(tab: Any, tmp_path: Path) -> None:
    writer = Writer(tmp_path / "<b>run</b>", NASTY, data={NASTY: {"origin": NASTY}}, tasks=["marvel"])
    image = {"image": {"media_type": NASTY, "sha256": "../../x", "bytes_length": 1}}
    judge, span = {"model": NASTY, "words": NASTY}, {"start": 2, "end": 9}
    writer.item("marvel/1", parts=[{"text": NASTY}, image], answer=NASTY, score=0.5, replica=NASTY, group=NASTY,
                labels={"pattern": NASTY, NASTY: "a"}, targets=[NASTY], options=[NASTY, "b"],
                verdict={"extracted": NASTY, "detail": NASTY, "span": span, "judge": judge})  # fmt: skip
    error = {"code": NASTY, "reason": NASTY, "message": NASTY}
    writer.item("marvel/2", outcome="rejected", labels={"pattern": "b", NASTY: "b"}, error=error)
    writer.item("marvel/3" + NASTY, answer="x", score=0.0, labels={"pattern": "b", NASTY: "b"})
    page = tab.open(write_report(writer.close({"marvel": sliced(NASTY, writer.verdicts, ("pattern",))})).as_uri())
    for key in ("marvel/1", "marvel/2", "marvel/3" + NASTY):
        page.locator(".row", has_text=key).first.click()
        tab.heading(key)
        if key == "marvel/1":
            shown = page.locator("#detail").inner_text()
            assert shown.count(NASTY) >= 5
            assert page.locator("#detail mark").first.inner_text() == NASTY[2:9]
            assert page.locator("#detail img").count() == 0, "a name that is no hash is no address"
    search(tab, "<img src=x")
    page.get_by_role("button", name="Clear").click()
    assert page.evaluate("window.pwned") is None
    assert page.locator("#detail script, #list script, #detail svg").count() == 0
    assert tab.complaints == []


def test_images_embedded_beside_and_missing(tab: Any, tmp_path: Path) -> None:
    run = marvel_run(tmp_path / "run", puzzles=6, pictures=3)
    moved = tmp_path / "alone.html"
    moved.write_bytes(write_report(run, embed=True).read_bytes())
    page = tab.open(moved.as_uri())
    page.locator("#detail img").scroll_into_view_if_needed()
    tab.until("document.querySelector('#detail img')?.naturalWidth === 540")
    page.locator("#detail img").click()
    assert page.locator("#zoom img").is_visible()
    page.keyboard.press("Escape")
    moved.write_bytes(write_report(run).read_bytes())
    page = tab.open(moved.as_uri())
    page.locator("#detail").scroll_into_view_if_needed()
    page.locator("#detail .missing").wait_for()
    assert "is not beside this page" in page.locator("#detail .missing").inner_text()


def test_steps_of_a_sample_are_linked(tab: Any, tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run", tasks=["vcot"])
    drawn = writer.image(puzzle(5))
    writer.item(
        "vcot/1:draw", scored=False, response={"parts": [drawn], "finish_reason": "FINISH_REASON_END_OF_SEQUENCE"}
    )
    writer.item("vcot/1:read", answer="2", score=1.0, targets=["2"], verdict={"extracted": "2"})
    page = tab.open(write_report(writer.close()).as_uri())
    assert status(tab) == "1 of 1 items"
    page.keyboard.press("[")
    tab.heading("vcot/1:draw")
    tab.until("document.querySelector('#detail .answer img')?.naturalWidth > 0")
    page.keyboard.press("]")
    tab.heading("vcot/1:read")
    assert tab.complaints == []


def test_a_key_that_holds_colons_is_no_step_of_another(tab: Any, tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run", tasks=["t"])
    for key, sample in (
        ("t/coco:1", "t/coco:1"), ("t/coco:2:look", "t/coco:2"), ("t/coco:2:say", "t/coco:2"),
        ("t/coco:a", "t/coco"), ("t/coco:b:c:say", "t/coco:b:c"), ("t/coco:d:e", "t/coco"),
    ):  # fmt: skip
        writer.item(key, sample=sample, answer="1", score=1.0)
    page = tab.open(write_report(writer.close()).as_uri())
    steps = {}
    for index in range(6):
        page.locator(".row").nth(index).click()
        tab.heading(page.locator(".row .name").nth(index).inner_text())
        steps[page.locator("#detail h2").inner_text()] = page.locator("#detail button.tone-chip").all_inner_texts()
    assert steps == {
        "t/coco:1": [], "t/coco:2:look": ["• look", "say"], "t/coco:2:say": ["look", "• say"],
        "t/coco:a": ["• a", "d:e"], "t/coco:b:c:say": [], "t/coco:d:e": ["a", "• d:e"],
    }  # fmt: skip
    page.keyboard.press("[")
    tab.heading("t/coco:a")
    assert tab.complaints == []


def test_likelihoods_are_a_table(tab: Any, tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run", method="likelihood")
    scores = [{"logprob": -0.5, "token_count": 1, "is_greedy": True}, {"logprob": "-Infinity", "token_count": 2}]
    writer.item("marvel/1", rule="likelihood", targets=["B"], options=["yes", "no"], score=0.0,
                response={"scores": scores}, continuations=["yes", "no"], verdict={"extracted": "A"})  # fmt: skip
    page = tab.open(write_report(writer.close()).as_uri())
    page.locator(".likelihoods").wait_for()
    rows = [row.split("\t") for row in page.locator(".likelihoods tbody tr").all_inner_texts()]
    assert rows == [
        ["yes", "-0.500", "-0.500", "1", "highest sum, greedy, chosen"],
        ["no", "-Infinity", "-Infinity", "2", "target"],
    ]


def test_reasoning_is_folded_away(tab: Any, tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run", deviations={"generation": {"max_output_tokens": 8192}, "thinking": "<on>"})
    answered = {"parts": [{"text": "3"}], "finish_reason": "FINISH_REASON_END_OF_SEQUENCE"}
    usage = {"output_tokens": 1300, "reasoning_tokens": 1234}
    writer.item("marvel/1", score=1.0, response={**answered, "reasoning": "<b>It is 2.</b>", "usage": usage})
    cut = {"parts": [{"text": ""}], "finish_reason": "FINISH_REASON_MAX_TOKENS", "reasoning": "Perhaps"}
    error = {"code": "OK", "reason": "cut_reasoning", "message": "the limit ended the reasoning"}
    writer.item("marvel/2", outcome="unparsed", error=error, response=cut, verdict={"reason": "cut_reasoning"})
    address = write_report(writer.close()).as_uri()
    page = tab.open(f"{address}#sample=marvel%2F1")
    assert "max_output_tokens=8192, thinking <on>" in page.locator(".banner").inner_text()
    fold = page.locator("#detail .reasoning")
    assert not fold.locator("pre").is_visible()
    assert page.locator("#detail .answer").inner_text() == "3"
    fold.locator("summary").click()
    assert fold.inner_text().split("\n")[0] == "Its reasoning, 1,234 tokens"
    assert fold.locator("pre").inner_text() == "<b>It is 2.</b>"
    page = tab.open(f"{address}#sample=marvel%2F2")
    assert page.locator("#detail .reasoning summary").inner_text() == "Its reasoning, 7 characters"
    assert "cut_reasoning" in page.locator("#detail .answer").inner_text()


def test_options_carry_the_letters_of_the_key(tab: Any, tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run")
    writer.item("t/1", answer="B", score=0.0, rule="choice", targets=["(C)"], options=["red", "green", "blue"])
    writer.item("t/2", answer="2", score=1.0, targets=["2"], options=["1", "2"])
    page = tab.open(write_report(writer.close()).as_uri())
    assert page.locator("#detail .options li").all_inner_texts() == ["Ared", "Bgreen", "Cblue"]
    assert page.locator("#detail .options .target").all_inner_texts() == ["Cblue"]
    page.keyboard.press("j")
    tab.heading("t/2")
    assert page.locator("#detail .options li").all_inner_texts() == ["1", "2"]
    assert page.locator("#detail .options .target").all_inner_texts() == ["2"]


@pytest.mark.parametrize(("width", "scheme"), [(1300, "light"), (1300, "dark"), (390, "light"), (390, "dark")])
def test_it_fits_the_screen(tab: Any, report: str, width: int, scheme: str) -> None:
    tab.page.set_viewport_size({"width": width, "height": 800})
    tab.page.emulate_media(color_scheme=scheme)
    page = tab.open(report)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (dark == "rgb(20, 21, 24)") is (scheme == "dark")


def test_it_prints(tab: Any, report: str) -> None:
    page = tab.open(report)
    page.emulate_media(media="print")
    assert not page.locator("#list").is_visible()
    assert not page.locator("#controls").is_visible()
    assert page.locator("#detail").is_visible()
    assert page.pdf()[:5] == b"%PDF-"


def test_every_control_has_a_name(tab: Any, report: str) -> None:
    page = tab.open(report)
    nameless = page.evaluate("""Array.from(document.querySelectorAll(
        'button, select, input, a, img, [role=img], [role=listbox], metric svg[role], metric a'
    )).filter(node => !node.closest('[aria-hidden=true]') && !(
        node.textContent.trim() || node.getAttribute('aria-label') || node.getAttribute('alt') ||
        (node.labels && node.labels.length) || node.querySelector('[aria-label]')
    )).map(node => node.outerHTML.slice(0, 200))""")
    assert nameless == []
    active = page.locator("#list").get_attribute("aria-activedescendant")
    assert page.locator(f"#{active}").get_attribute("aria-selected") == "true"
