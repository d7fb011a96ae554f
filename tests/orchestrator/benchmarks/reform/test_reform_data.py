"""The 61 datasets' files: three layouts, six image keys, boxes and crops, and what is wrong with a file."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path

import pytest
from helpers.reform_folder import write_folder
from PIL import Image

from orchestrator.benchmarks.reform.datasets import DATASETS, DIMENSIONS, Boxes, groups
from orchestrator.benchmarks.reform.families import FAMILIES
from orchestrator.benchmarks.reform.files import open_reform
from orchestrator.benchmarks.reform.images import decoded, shown
from orchestrator.benchmarks.reform.synthetic import rows
from orchestrator.data.rows import DataError
from orchestrator.samples import BadRowError


@pytest.fixture(scope="module")
def hub(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("hub")
    write_folder(folder, 3)
    return folder


def change(folder: Path, task: str, edit) -> Path:
    file = folder / "huggingface_data" / DATASETS[task].file
    content = json.loads(file.read_text())
    file.write_text(json.dumps(edit(content)))
    return file


def test_the_61():
    assert len(DATASETS) == 61
    by_dimension = {key: len(groups()[f"reform_{key}"]) for key in DIMENSIONS}
    assert by_dimension == {"cg": 9, "fg": 10, "stp": 15, "vgr": 12, "spatial": 3, "dialog": 2, "cmi": 6, "desc": 4}
    assert len(groups()["reform"]) == 61
    assert {*groups()["reform_perception"], *groups()["reform_cognition"]} == set(DATASETS)
    assert {"reform_vqa_v2", "reform_ok_vqa", "reform_vizwiz_yesno", "reform_tdiuc_color", "reform_flickr30k"} <= set(
        DATASETS
    )


@pytest.mark.parametrize("task", DATASETS)
def test_each_of_them_opens(task, hub):
    source = open_reform(task, str(hub))
    read_rows = list(source)
    assert source.count == len(read_rows) == 3
    assert len(source.digest) == 64
    for row, drawn in zip(read_rows, rows(task, 0), strict=False):
        assert (row.image() or b"").startswith(b"\x89PNG")
        assert set(row.fields) == set(drawn.fields)
        assert not any(isinstance(value, str) and len(value) > 400 for value in row.fields.values())


def test_a_folder_may_be_the_inner_one_or_a_file_alone(hub):
    assert open_reform("reform_gqa", str(hub / "huggingface_data")).count == 3
    assert open_reform("reform_gqa", str(hub / "huggingface_data" / DATASETS["reform_gqa"].file)).count == 3
    alone = hub / "huggingface_data" / DATASETS["reform_tdiuc_color"].file
    with pytest.raises(DataError, match="the folder that holds both"):
        open_reform("reform_tdiuc_color", str(alone))


def test_tdiuc_joins_by_question_id_in_its_order(hub):
    read_rows = list(open_reform("reform_tdiuc_sport", str(hub)))
    # The question file is written in reverse; numbers follow the ids.
    assert sorted(row["row"] for row in read_rows) == [0, 1, 2]
    by_number = sorted(read_rows, key=lambda row: row["row"])
    assert [row["question_id"] for row in by_number] == sorted(row["question_id"] for row in read_rows)


def test_tdiucs_tables_may_have_other_names(tmp_path):
    write_folder(tmp_path, 2, tasks=["reform_tdiuc_color"])
    folder = tmp_path / "huggingface_data" / "TDIUC"
    (folder / "TDIUC_val_ques.json").rename(folder / "tenth_questions.json")
    (folder / "TDIUC_val_anns.json").rename(folder / "tenth_annotations.json")
    assert open_reform("reform_tdiuc_color", str(tmp_path)).count == 2


def test_numbers_as_options_are_texts_or_places_as_the_family_has_it():
    record = {"question_id": 1, "question": "q", "answer": "2", "answer_options": ["2", "1", "0"]}
    assert FAMILIES["vqa"].read(record, 0, DATASETS["reform_gqa"]).answer == 0
    assert FAMILIES["objects"].read(record, 0, DATASETS["reform_mscoco_mci"]).answer == 2


def test_dialogues_count_their_rounds(hub):
    assert [row["first_round"] for row in open_reform("reform_visdial", str(hub))] == [0, 4, 8]


@pytest.mark.parametrize(
    ("task", "edit", "says"),
    [
        ("reform_gqa", lambda content: content["data"], "should be an object"),
        ("reform_cifar10", lambda content: {"data": content}, "should be an array"),
        ("reform_gqa", lambda content: {**content, "data": []}, "no rows"),
        ("reform_gqa", lambda content: {"data": content["data"]}, "no version"),
        ("reform_medic", lambda content: {**content, "dataset_name": "WikiHow"}, "'WikiHow'"),
        ("reform_snli_ve", lambda content: {**content, "gt_info": {"0": "neutral"}}, "gt_info"),
    ],
)
def test_a_wrong_file_is_named(task, edit, says, tmp_path):
    write_folder(tmp_path, 2, tasks=[task])
    change(tmp_path, task, edit)
    with pytest.raises(DataError, match=says):
        open_reform(task, str(tmp_path))


def test_broken_json_and_missing_keys(tmp_path):
    write_folder(tmp_path, 2, tasks=["reform_gqa"])
    file = tmp_path / "huggingface_data" / DATASETS["reform_gqa"].file
    content = json.loads(file.read_text())
    del content["data"][1]["answer_options"]
    file.write_text(json.dumps(content))
    with pytest.raises(DataError, match="row 2, lacks answer_options"):
        list(open_reform("reform_gqa", str(tmp_path)))
    file.write_bytes(file.read_bytes()[:200])
    with pytest.raises(DataError, match="is not JSON"):
        open_reform("reform_gqa", str(tmp_path))
    with pytest.raises(DataError, match=r"has no huggingface_data/WikiHow"):
        open_reform("reform_wikihow", str(tmp_path))
    with pytest.raises(DataError, match="no data at"):
        open_reform("reform_wikihow", str(tmp_path / "nowhere"))


def test_twice_the_same_id_is_two_rows(tmp_path):
    write_folder(tmp_path, 3, tasks=["reform_gqa"])
    change(
        tmp_path,
        "reform_gqa",
        lambda content: {**content, "data": [{**record, "question_id": 7} for record in content["data"]]},
    )
    assert [row.fields.get("twin", 0) for row in open_reform("reform_gqa", str(tmp_path))] == [0, 1, 2]


def png(size=(20, 20)) -> bytes:
    encoded = io.BytesIO()
    Image.new("RGB", size, "white").save(encoded, "PNG")
    return encoded.getvalue()


def opened(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data))


def test_images_in_base64():
    text = base64.encodebytes(png()).decode()
    assert decoded(text, "x") == decoded(f"data:image/png;base64,{text}", "x") == png()
    assert decoded("", "x") is None
    with pytest.raises(DataError, match="row 3"):
        decoded("no image!", "row 3")
    with pytest.raises(DataError, match="int"):
        decoded(7, "x")


@pytest.mark.parametrize(
    ("boxes", "box", "outline"),
    [
        (Boxes(False, False, 3), [5, 5, 8, 8], [(5, 5), (4, 9), (6, 9), (13, 13), (14, 9)]),
        (Boxes(True, False, 2), [5.9, 5.2, 12, 12], [(5, 5), (4, 9), (12, 12), (12, 9)]),
    ],
)
def test_boxes_are_outlines_about_the_box(boxes, box, outline):
    image = opened(shown(png(), boxes, box))
    assert image.size == (20, 20)
    assert all(image.getpixel(pixel) == (255, 0, 0) for pixel in outline)
    assert image.getpixel((9, 9)) == (255, 255, 255)
    assert image.getpixel((1, 1)) == (255, 255, 255)


def test_several_boxes_have_colours_of_their_own():
    image = opened(shown(png((40, 40)), Boxes(False, True, 3), [[2, 2, 4, 4], [20, 20, 6, 6]]))
    assert image.getpixel((2, 3)) == (255, 0, 0)
    assert image.getpixel((20, 22)) == (0, 128, 0)
    with pytest.raises(BadRowError, match="5 boxes"):
        shown(png(), Boxes(False, True, 3), [[1, 1, 2, 2]] * 5)


def test_a_crop_is_the_box():
    assert opened(shown(png(), Boxes(False, False, 0), [2, 3, 5, 7])).size == (5, 7)
    assert opened(shown(png(), Boxes(False, False, 0), [15, 15, 50, 50])).size == (5, 5)
    with pytest.raises(BadRowError, match="cuts nothing"):
        shown(png(), Boxes(False, False, 0), [30, 30, 5, 5])
    with pytest.raises(BadRowError, match="four numbers"):
        shown(png(), Boxes(False, False, 0), [1, 2, None, 3])
    with pytest.raises(BadRowError, match="cannot be decoded"):
        shown(b"nonsense", Boxes(False, False, 0), [1, 2, 3, 4])


def test_without_boxes_the_files_own_bytes_are_sent():
    assert shown(b"as they are", None, None) == b"as they are"


def test_every_image_key_is_read():
    assert {key for family in FAMILIES.values() for key in family.image} == {
        "image", "image_id", "img", "Image_ID", "image_base64"
    }  # fmt: skip
