"""The run folder's images: the stored bytes are read, also where the file was damaged or removed."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from helpers.report_runs import puzzle

from lyncean.model.v1 import model_pb2 as model
from orchestrator.run_folder.errors import RunLogError
from orchestrator.run_folder.image_store import ImageStore
from orchestrator.run_folder.records import answer_of_line


@pytest.mark.parametrize("left", [b"", b"\0" * 700, None])
def test_what_a_power_cut_left_is_no_image(tmp_path: Path, left: bytes | None) -> None:
    data = puzzle(1)
    name = ImageStore(tmp_path / "images").put(data)
    assert name == hashlib.sha256(data).hexdigest()
    file = tmp_path / "images" / name
    # Of the right length where none is given: blocks that the disk never got.
    file.write_bytes(bytes(len(data)) if left is None else left)
    store = ImageStore(tmp_path / "images")
    parts = [{"image": {"media_type": "image/png", "sha256": name}}]
    line = {"key": "t/1:draw", "response": {"parts": parts, "finish_reason": "FINISH_REASON_END_OF_SEQUENCE"}}
    with pytest.raises(RunLogError, match=rf"'t/1:draw'.*{name} is damaged.*it is asked anew"):
        answer_of_line(line, store.get)
    assert store.put(data) == name
    assert file.read_bytes() == data
    assert answer_of_line(line, store.get).images == (model.Image(data=data, media_type="image/png"),)
