"""orchestrator view: the page of trainings among the runs of a folder."""

from __future__ import annotations

import http.client
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson
import pytest
from helpers.series_runs import run, series

from orchestrator.report.live.local import HOST
from orchestrator.report.live.server import serve

Get = Callable[[str], tuple[int, str]]


@pytest.fixture
def get(tmp_path: Path) -> Iterator[Get]:
    series(tmp_path / "runs/warm start", (0.2, 0.5, 0.8), begun=1)
    series(tmp_path / "runs/deep/cold", (0.1, 0.3))
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret/suite.json").write_text("{}")
    server = serve(tmp_path / "runs", 0)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()

    def get(path: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection(HOST, server.server_address[1], timeout=30)
        connection.request("GET", path)
        response = connection.getresponse()
        body = response.read().decode()
        connection.close()
        return response.status, body

    yield get
    server.shutdown()
    server.server_close()
    thread.join()


def test_the_list_leads_to_each_and_each_to_the_others(get: Get) -> None:
    listed = re.findall(r'href="(series/[^"]*)"', get("/")[1])
    assert listed == ["series/?of=warm+start", "series/?of=deep%2Fcold"]
    status, page = get(f"/{listed[0]}")
    assert status == 200
    assert 'href="/series/?of=warm+start&amp;of=deep%2Fcold">with deep/cold' in page
    assert 'href="/runs/warm%20start/step_200-marvel/"' in page
    status, both = get("/series/?of=warm+start&of=deep%2Fcold")
    assert (status, both.count('<path class="line')) == (200, 2)
    compare = re.search(r'href="(/compare/[^"]*)"', page)
    assert compare
    assert get(compare[1].replace("&amp;", "&"))[0] == 200


def test_it_follows_the_training(get: Get, tmp_path: Path) -> None:
    before = get("/series/?of=warm+start")[1]
    assert "not run" in before
    run(tmp_path / "runs/warm start/step_300-marvel", 0.9, "marvel", seed="new")
    after = get("/series/?of=warm+start")[1]
    assert "not run" not in after
    assert after.count("<circle") == before.count("<circle") + 1


@pytest.mark.parametrize("query", ["", "?of=", "?of=..%2Fsecret", "?of=%2Fetc", "?of=warm+start%2Fstep_100-marvel"])
def test_nothing_else_is_served(get: Get, query: str) -> None:
    assert get(f"/series/{query}")[0] == 404


def test_a_damaged_one_is_not_listed(get: Get, tmp_path: Path) -> None:
    folder = tmp_path / "runs/warm start"
    found = orjson.loads((folder / "suite.json").read_bytes())
    found["cells"][0]["name"] = "../../secret"
    (folder / "suite.json").write_bytes(orjson.dumps(found))
    assert "warm" not in get("/")[1].partition("by step")[2].partition("</p>")[0]
    assert get("/series/?of=warm+start")[0] == 404
