"""The published contract: its pages are those that the comments make."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

from google.protobuf import json_format

from lyncean.model.v1 import model_pb2 as model

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "contract"


def test_pages_are_current(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("document", ROOT / "protos" / "document.py")
    assert spec
    assert spec.loader
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.document(tmp_path)
    made = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert made == {path.name: path.read_text() for path in PAGES.iterdir()}, "run `python protos/document.py`"


def test_every_rpc_has_its_page_and_every_link_leads_somewhere() -> None:
    page = (ROOT / "docs" / "contract.md").read_text()
    links = re.findall(r"\]\(contract/([^)]+)\)", page)
    assert sorted(links) == sorted(path.name for path in PAGES.iterdir())


def test_grpcurl_lines_hold_requests_of_the_contract() -> None:
    found = 0
    for file in PAGES.glob("ModelService.*.md"):
        for body, method in re.findall(r"-d '([^']*)' \S+ \S+/(\w+)", file.read_text()):
            json_format.ParseDict(json.loads(body), getattr(model, f"{method}Request")())
            found += 1
    assert found == 3
