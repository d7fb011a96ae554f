"""Trajectories in a real browser: calls in their order, crops beside their places, filters by calls and tool errors."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from helpers.report_runs import Writer
from helpers.trajectories import png

from orchestrator.report import write_report
from orchestrator.run_folder.lines import sealed

pytestmark = pytest.mark.full

NASTY = '</script><img src=x onerror="window.pwned=1">'


def tool_line(key: str, call: dict[str, str], content: list[Any], **fields: Any) -> bytes:
    sample, _, turn = key.partition(":")
    tool = {"tool_call": call, "content": content, **fields}
    line = {"key": key, "sample": sample, "turn": turn, "task": "zoom", "request": None, "attempts": 0, "tool": tool}
    return sealed(orjson.dumps(line | {"scoring": None})) + b"\n"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    writer = Writer(tmp_path_factory.mktemp("runs") / "run", tasks=["zoom"])
    picture, crop = writer.image(png(200, 100)), writer.image(png(64, 64, (1, 99, 9)))
    for number, errors in enumerate((0, 1)):
        key, facts = f"zoom/{number}", {"calls": 2 + errors, "tool_calls": 1, "tool_errors": errors}
        writer.item(f"{key}:call1", parts=[picture, {"text": "Q?"}], answer=f"I look. {NASTY}", scored=False)
        call = {"id": "1", "name": "zoom", "arguments": f'{{"box": "{NASTY}"}}'}
        box = {"source": 0, "box": [100, 0, 200, 50], "source_size": [200, 100]}
        content = [{"text": f"no box {NASTY}"}] if errors else [{"text": "Image 2:"}, crop | box]
        writer.responses.append(tool_line(f"{key}:call1-tool1", call, content, is_error=bool(errors)))
        writer.item(f"{key}:call2", answer="B", scored=False)
        writer.item(key, parts=[picture, {"text": "Q?"}], answer="B", score=1.0, verdict={"facts": facts})
        line = orjson.loads(writer.responses[-1])
        del line["crc32"]
        writer.responses[-1] = sealed(orjson.dumps(line | {"facts": facts})) + b"\n"
    writer.close()
    return write_report(writer.path).as_uri()


@pytest.mark.parametrize("width", [400, 1280])
def test_a_trajectory_is_played_with_each_crop_beside_its_place(tab: Any, report: str, width: int) -> None:
    tab.page.set_viewport_size({"width": width, "height": 900})
    page = tab.open(f"{report}#sample=zoom/0")
    tab.until("document.querySelectorAll('.trajectory .turn').length === 3")
    steps = page.locator(".trajectory .turn")
    assert [text.split("\n")[0] for text in steps.all_inner_texts()] == [
        "call 1, 12 tokens",
        "zoom",
        "call 2, 12 tokens",
    ]
    tab.until("document.querySelector('.cut > img')?.naturalWidth === 64")
    tab.until("document.querySelector('.placed svg')?.getBoundingClientRect().height > 0")
    image, box, crop = page.evaluate("""[".placed img", ".placed rect", ".cut > img"].map(
        name => document.querySelector(name).getBoundingClientRect().toJSON())""")
    assert box["x"] + box["width"] / 2 == pytest.approx(image["x"] + 0.75 * image["width"], abs=4)
    assert box["y"] + box["height"] / 2 == pytest.approx(image["y"] + 0.25 * image["height"], abs=4)
    assert crop["x"] >= image["x"] + image["width"]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert tab.complaints == []
    assert page.evaluate("window.pwned") is None


def test_items_are_filtered_by_calls_and_tool_errors(tab: Any, report: str) -> None:
    page = tab.open(report)
    assert page.locator("#status").inner_text() == "2 of 2 items"
    page.locator("#controls [name=tool_errors]").select_option("1")
    tab.settle()
    assert page.locator("#status").inner_text() == "1 of 2 items"
    tab.heading("zoom/1")
    tab.until("document.querySelectorAll('.trajectory .turn.failed').length === 1")
    page.locator("#controls [name=tool_errors]").select_option("")
    page.locator("#controls [name=calls]").select_option("2")
    tab.settle()
    tab.heading("zoom/0")
    assert page.evaluate("window.pwned") is None
