"""Checkpoints in folders that a training writes: which are complete, and in what order."""

from __future__ import annotations

import json
import os
import shutil
import struct
import time
from pathlib import Path

import pytest

from orchestrator.errors import ConfigError
from orchestrator.suite.checkpoints import INDEX, MARKERS, SETTLED, find, fingerprint, is_complete, step_of

PAST = 10 * SETTLED


def tensors(size: int = 8) -> bytes:
    header = json.dumps({"w": {"dtype": "F32", "shape": [size // 4], "data_offsets": [0, size]}}).encode()
    return struct.pack("<Q", len(header)) + header + bytes(size)


def broken(end: object) -> bytes:
    header = json.dumps({"w": {"data_offsets": [0, 8]}, "v": {"data_offsets": [0, end]}}).encode()
    return struct.pack("<Q", len(header)) + header + bytes(8)


def checkpoint(folder: Path, name: str, *, age: float = PAST, **files: bytes) -> Path:
    path = folder / name
    path.mkdir(parents=True)
    for file, data in (files or {"config.json": b"{}", "model.safetensors": tensors()}).items():
        (path / file).write_bytes(data)
    aged(path, age)
    return path


def aged(path: Path, age: float) -> None:
    then = time.time() - age
    for entry in (*path.iterdir(), path):
        os.utime(entry, (then, then))


def test_whole_weights_are_complete_and_cut_ones_are_not(tmp_path: Path) -> None:
    path = checkpoint(tmp_path, "step_1")
    assert is_complete(path)
    (path / "model.safetensors").write_bytes(tensors()[:-1])
    aged(path, PAST)
    assert not is_complete(path)
    (path / "model.safetensors").write_bytes(tensors() + b"x")
    aged(path, PAST)
    assert not is_complete(path)
    (path / "model.safetensors").write_bytes(b"\xff" * 64)
    aged(path, PAST)
    assert not is_complete(path)


def test_shards_wait_for_their_index_and_for_each_other(tmp_path: Path) -> None:
    one, two = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
    path = checkpoint(tmp_path, "step_1", **{"config.json": b"{}", one: tensors()})
    assert not is_complete(path), "its index is not there"
    (path / INDEX).write_text(json.dumps({"weight_map": {"a": one, "b": two}}))
    aged(path, PAST)
    assert not is_complete(path), "the second shard is not there"
    (path / two).write_bytes(tensors(16))
    aged(path, PAST)
    assert is_complete(path)
    (path / INDEX).write_text('{"weight_map": {"a"')
    aged(path, PAST)
    assert not is_complete(path)


def test_weights_that_were_just_written_wait_for_the_tokenizer(tmp_path: Path) -> None:
    path = checkpoint(tmp_path, "step_1")
    changed = max(file.stat().st_mtime for file in path.iterdir())
    assert not is_complete(path, now=changed + SETTLED / 2)
    assert is_complete(path, now=changed + SETTLED)


def test_other_weights_wait_a_minute_or_for_a_marker(tmp_path: Path) -> None:
    path = checkpoint(tmp_path, "step_1", **{"config.json": b"{}", "pytorch_model.bin": b"w"})
    changed = max(file.stat().st_mtime for file in path.iterdir())
    assert not is_complete(path, now=changed + 59)
    assert is_complete(path, now=changed + 60)
    (path / MARKERS[0]).touch()
    assert is_complete(path, now=changed)
    assert not is_complete(checkpoint(tmp_path, "step_2", **{"config.json": b"{}"})), "it has no weights"


def test_they_stand_by_step_and_what_is_none_is_left_out(tmp_path: Path) -> None:
    for name in ("step_1000", "step_200", "step_30", "step_40.tmp", "tmp-step_50", "last"):
        checkpoint(tmp_path, name)
    (tmp_path / "step_7").write_text("a file")
    waiting = checkpoint(tmp_path, "step_2000", age=0)
    checkpoints, left = find(str(tmp_path / "*"))
    assert [(one.name, one.step) for one in checkpoints] == [("step_30", 30), ("step_200", 200), ("step_1000", 1000)]
    assert left == [waiting]
    assert find(str(tmp_path / "none_*")) == ([], [])


@pytest.mark.parametrize(
    ("path", "known"),
    [
        ("ckpt/step_100", ("step_100", 100)),
        ("ckpt/checkpoint-0500", ("checkpoint-0500", 500)),
        ("ckpt/epoch=3-step=1200", ("epoch=3-step=1200", 1200)),
        ("ckpt/step_100_hf", ("step_100_hf", 100)),
        ("ckpt/last", None),
    ],
)
def test_the_step_is_the_last_number_of_the_last_name_that_has_one(path: str, known: object) -> None:
    assert step_of(Path(path)) == known


def test_a_step_may_stand_above_the_folder_where_the_pattern_says_so(tmp_path: Path) -> None:
    path = checkpoint(tmp_path, "run3/global_step_20/actor/huggingface")
    assert step_of(path) is None
    checkpoints, _ = find(str(tmp_path / "run3/global_step_*/actor/huggingface"))
    assert [(one.name, one.step, one.path) for one in checkpoints] == [("global_step_20", 20, path)]


def test_what_cannot_be_ordered_is_refused(tmp_path: Path) -> None:
    checkpoint(tmp_path, "a/step_1")
    checkpoint(tmp_path, "b/step_1")
    with pytest.raises(ConfigError, match=r"a/step_1 and .*b/step_1 are both of step 1"):
        find(str(tmp_path / "*/step_*"))
    checkpoint(tmp_path, "c/last")
    with pytest.raises(ConfigError, match="has no step in its name"):
        find(str(tmp_path / "c" / "l*"))
    checkpoint(tmp_path, "d/step=1")
    with pytest.raises(ConfigError, match="name the folder by letters"):
        find(str(tmp_path / "d" / "*"))


def test_a_copy_elsewhere_is_the_same_and_other_weights_are_not(tmp_path: Path) -> None:
    path = checkpoint(tmp_path, "step_1", **{"config.json": b"{}", "model.safetensors": bytes(3 << 20)})
    before = fingerprint(path)
    copy = Path(shutil.copytree(path, tmp_path / "elsewhere" / "step_1"))
    assert fingerprint(copy) == before
    (copy / "trainer_state.json").write_text("{}")
    assert fingerprint(copy) == before, "the training's own notes are not the model's"
    with (copy / "model.safetensors").open("r+b") as file:
        file.seek((3 << 20) - 1)
        file.write(b"x")
    assert fingerprint(copy) != before
    (path / "config.json").write_text('{"a": 1}')
    assert fingerprint(path) != before


@pytest.mark.parametrize("end", ["eight", None, [8], {}])
def test_a_safetensors_file_with_a_wrong_header_is_not_complete(tmp_path: Path, end: object) -> None:
    path = checkpoint(tmp_path, "step_1", **{"config.json": b"{}", "model.safetensors": broken(end)})
    assert not is_complete(path)
