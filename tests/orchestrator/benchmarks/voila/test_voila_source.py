"""Opening VOILA's data, in every form."""

from __future__ import annotations

import csv
import io
import logging
import shutil

import datasets
import pytest
from helpers.bench_scoring import shared_data
from PIL import Image

from orchestrator.benchmarks.voila.generated import generated_rows
from orchestrator.benchmarks.voila.generator import COLUMNS
from orchestrator.benchmarks.voila.rules import ALL, ND_RULES, WD_RULES
from orchestrator.benchmarks.voila.sampling import draw_balanced
from orchestrator.benchmarks.voila.source import identify, open_voila
from orchestrator.benchmarks.voila.synthetic import draw
from orchestrator.benchmarks.voila.texts import SPECS, combined_description, describe, file_prefix, relations
from orchestrator.data.rows import DataError

CODE_HEADER = [*COLUMNS[:7], "desc_img4", "combined_descriptions", "image_question", "rule", "relations"]


def picture(spec) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (4, 4), (SPECS.index(spec) % 256, SPECS.index(spec) // 256, 0)).save(out, format="PNG")
    return out.getvalue()


def rows(rules=WD_RULES, count=38):
    questions = draw_balanced(rules, 5)
    return list(generated_rows((next(questions) for _ in range(count)), picture))


def write(path, records, header=COLUMNS, change=None):
    with path.open("w", encoding="utf-8", newline="") as lines:
        writer = csv.writer(lines, lineterminator="\n")
        writer.writerow(header)
        for number, row in enumerate(records):
            line = {name: row[name] for name in COLUMNS}
            if change:
                change(number, line)
            writer.writerow(line.values())
    return path


def save_images(folder, records):
    folder.mkdir(parents=True, exist_ok=True)
    for row in records:
        for image in (1, 2, 3):
            (folder / row[f"img{image}"]).write_bytes(row.image(f"image{image}"))


@pytest.mark.parametrize("folder", ["", "Test_Images"])
@pytest.mark.parametrize("header", [COLUMNS, CODE_HEADER])
def test_table_with_its_images(tmp_path, header, folder):
    records = rows()
    save_images(tmp_path / folder, records)
    path = write(tmp_path / "voila.csv", reversed(records), header)
    for data in (path, tmp_path):
        source = open_voila("voila_wd", str(data))
        assert source.count == 38
        for row, true in zip(source, reversed(records), strict=True):
            assert row["id"] == true["id"]
            assert identify(row.fields).problem == ""
            assert [row.image(f"image{n}") for n in (1, 2, 3)] == [true.image(f"image{n}") for n in (1, 2, 3)]
            assert row.image("collage") is None


def test_images_elsewhere_and_drawn(tmp_path):
    records = rows()
    path = write(tmp_path / "voila.csv", records)
    with pytest.raises(DataError, match="name their folder as TABLE,images=DIR"):
        open_voila("voila_wd", str(path))
    save_images(tmp_path / "far" / "away", records)
    source = open_voila("voila_wd", f"{path},images={tmp_path / 'far' / 'away'}")
    assert next(iter(source)).image("image2") == records[0].image("image2")
    pictured = open_voila("voila_wd", f"{path},images=drawn")
    question = identify(records[0].fields).question
    assert next(iter(pictured)).image("image2") == draw(question.images[1])
    assert source.digest != pictured.digest
    with pytest.raises(DataError, match="is not a folder of images"):
        open_voila("voila_wd", f"{path},images={tmp_path / 'nowhere'}")


def test_nd_takes_its_rules_of_a_wd_table(tmp_path):
    records = rows()
    save_images(tmp_path, records)
    source = open_voila("voila_nd", str(write(tmp_path / "voila.csv", records)))
    assert source.count == len(list(source)) == 14
    assert {row["rule"] for row in source} == {str(rule) for rule in ND_RULES}


def test_ids_are_the_numbers_of_the_questions_never_positions(tmp_path):
    records = rows()
    save_images(tmp_path, records)

    def renumber(number, line):
        line["question"] = f"image_questions_{7000 - 11 * number}.png"

    path = write(tmp_path / "voila.csv", records, change=renumber)
    assert [row["id"] for row in open_voila("voila_wd", str(path))][:3] == ["7000", "6989", "6978"]
    write(path, [*records, records[0]])
    with pytest.raises(DataError, match="stands twice"):
        list(open_voila("voila_wd", str(path)))


def test_the_drawn_collage_is_used_where_it_is(tmp_path):
    records = rows()
    save_images(tmp_path, records)
    path = write(tmp_path / "voila.csv", records)
    (tmp_path / "Image_Questions").mkdir()
    (tmp_path / "Image_Questions" / records[0]["question"]).write_bytes(b"a collage")
    first, second = list(open_voila("voila_wd", str(path)))[:2]
    assert first.image("collage") == b"a collage"
    assert second.image("collage") is None


def test_missing_images_are_counted(tmp_path, caplog):
    records = rows()
    save_images(tmp_path, records)
    (tmp_path / records[3]["img2"]).unlink()
    with caplog.at_level(logging.WARNING):
        source = open_voila("voila_wd", str(write(tmp_path / "voila.csv", records)))
    assert records[3]["img2"] in caplog.text
    with pytest.raises(DataError, match="neither in"):
        list(source)[3].image("image2")


@pytest.mark.parametrize(
    ("column", "value", "problem"),
    [
        ("rule", "3", "its rule is '3'"),
        ("desc_im4", "two cats walking", "its answer is 'two cats walking'"),
        ("Real_relations", "Number remains constant two. ", "its relations is"),
        ("desc_img2", "two flying cats", "it does not describe images 1 to 3"),
        ("desc_img2", None, "its descriptions follow none of the 19 rules"),
    ],
)
def test_a_row_that_contradicts_itself_is_known(column, value, problem):
    fields = dict(rows()[0].fields)
    fields[column] = value if value is not None else fields["desc_img1"]
    assert identify(fields).problem.startswith(problem)


def test_hub_rows_whatever_their_columns_are_called(tmp_path):
    """The hub's rows have images, and texts under names of their own; no number, and questions may come twice."""
    records = rows(count=19)
    records.append(records[4])
    table = {
        **{f"image{n}": [{"bytes": row.image(f"image{n}"), "path": None} for row in records] for n in (1, 2, 3)},
        "answer": [row["desc_im4"] for row in records],
        "captions": [row["combined_description"] for row in records],
        "changes": [row["Real_relations"] for row in records],
    }
    features = datasets.Features(
        {name: datasets.Image() if name[:5] == "image" else datasets.Value("string") for name in table}
    )
    made_of = datasets.Dataset.from_dict(table, features=features)
    made_of.save_to_disk(tmp_path / "saved")
    made_of.to_parquet(tmp_path / "data" / "train-00000-of-00001.parquet")
    for data in (tmp_path / "saved", tmp_path / "data"):
        opened = list(open_voila("voila_wd", str(data)))
        assert [row["id"] for row in opened] == [*(row["id"] for row in records[:-1]), records[4]["id"] + ".2"]
        assert all(identify(row.fields).problem == "" for row in opened)
        assert opened[7].image("image3") == records[7].image("image3")


def test_generated_slice():
    source = open_voila("voila_wd", "generated:start=157632380,count=4")
    assert source.count == 4
    assert [row["id"] for row in source] == ["157632381", "157632382", "157632383", "157632384"]
    row = next(iter(source))
    question = ALL.question(157_632_380)
    assert row["combined_description"] == combined_description(question)
    assert row["Real_relations"] == relations(question)
    assert row.image("image1") == draw(question.images[0])
    nd = open_voila("voila_nd", "generated:start=340703,count=2")
    assert [row["rule"] for row in nd] == [1, 5]


def test_generated_draw():
    source = open_voila("voila_wd", "generated:count=57,seed=4")
    opened = list(source)
    assert [row["rule"] for row in opened] == list(WD_RULES) * 3
    assert [row["id"] for row in opened] == [row["id"] for row in source]
    assert len({row["id"] for row in opened}) == 57
    assert source.digest != open_voila("voila_wd", "generated:count=57,seed=5").digest
    of_two = open_voila("voila_nd", "generated:count=4,rules=5+9")
    assert [row["rule"] for row in of_two] == [5, 9, 5, 9]


def test_generated_with_images(tmp_path):
    for spec in SPECS:
        (tmp_path / f"{file_prefix(spec)}1.png").write_bytes(describe(spec).encode())
    row = next(iter(open_voila("voila_nd", f"generated:count=1,images={tmp_path}")))
    assert row.image("image2") == row["desc_img2"].encode()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("generated:count=2384929", "rule 1 has 340,704"),
        ("generated:count=0", "3,861,312 questions"),
        ("generated:start=3861312,count=1", "3,861,312 questions"),
        ("generated:start=-1,count=1", "3,861,312 questions"),
        ("generated:start=1,seed=2", "give one of them"),
        ("generated:rules=2", "this task has the rules 1, 5, 9, 13, 15, 17, 19"),
        ("generated:count=many", "whole numbers"),
        ("generated:hue=3", "'hue=3' is none of"),
        ("/nowhere.csv", "no data at"),
        ("generated:images=/nowhere", "cannot be read as a folder"),
    ],
)
def test_mistakes(data, message):
    with pytest.raises(DataError, match=message):
        open_voila("voila_nd", data)


def test_the_published_table_with_drawings(tmp_path):
    table = shared_data("voila", "VOILA_ND_Testing_No_Distraction_LLM_3.6K.csv")
    source = open_voila("voila_nd", f"{shutil.copy(table, tmp_path)},images=drawn")
    assert source.count == 3689
    numbers = [int(row["id"]) for row in source]
    assert (numbers[0], numbers[527], numbers[-1]) == (1, 2109, 10013)
    assert [identify(row.fields).problem for row in source if identify(row.fields).problem] == []
