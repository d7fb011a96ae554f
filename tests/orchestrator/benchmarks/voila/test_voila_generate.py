"""`orchestrator generate voila`: tables, images, collages."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import shutil
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from PIL import Image

from orchestrator.benchmarks.voila.generator import COLUMNS
from orchestrator.benchmarks.voila.images import collage
from orchestrator.benchmarks.voila.rules import ANY, ND_RULES, WD_RULES
from orchestrator.benchmarks.voila.source import identify
from orchestrator.benchmarks.voila.texts import SPECS, describe, file_prefix
from orchestrator.cli import main

HEADER = "img1,img2,img3,img4,desc_img1,desc_img2,desc_img3,desc_im4,combined_description,question,rule,Real_relations"

PREFIX = {describe(spec): file_prefix(spec) for spec in SPECS}
SPEC = {file_prefix(spec): spec for spec in SPECS}


@pytest.fixture(scope="session")
def pool(tmp_path_factory) -> Path:
    """Three tiny images of each spec, sizes differing."""
    folder = tmp_path_factory.mktemp("pool")
    for number, spec in enumerate(SPECS):
        for copy in range(3):
            size = (8 + number % 5, 6 + copy)
            color = (number % 256, number // 256, copy * 80)
            Image.new("RGB", size, color).save(folder / f"{file_prefix(spec)}{copy + 10}.png")
    return folder


def generate(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(main, ["generate", "voila", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result.output


def table(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def images_shown(rows: list[dict[str, str]]) -> list[tuple[str, ...]]:
    return [tuple(row[f"desc_img{image}"] for image in (1, 2, 3)) for row in rows]


def test_testing_table(tmp_path, pool):
    out = tmp_path / "wd.csv"
    output = generate(
        *("--distraction", "yes", "--count", 500, "--images", pool, "--split", "testing", "--output", out)
    )
    assert "500 questions, 26 for each of 19 rules, and one more for rules 1, 2, 3, 4, 5, 6\n" in output
    assert out.read_bytes().startswith(f"{HEADER}\n".encode())
    assert b"\r" not in out.read_bytes()
    rows = table(out)
    assert Counter(row["rule"] for row in rows) == {str(rule): 26 + (rule <= 6) for rule in WD_RULES}
    assert [row["question"] for row in rows] == [f"image_questions_{number}.png" for number in range(1, 501)]
    assert len(set(images_shown(rows))) == 500
    for row in rows:
        assert identify(row).problem == ""
        assert row["img4"] == " ".join(word for word in row["desc_im4"].split(" ") if word != "any")
        # The test set's image is the first file by name, the same at every use.
        assert [row[f"img{image}"] for image in (1, 2, 3)] == [
            f"{PREFIX[row[f'desc_img{image}']]}10.png" for image in (1, 2, 3)
        ]


def test_seed_decides(tmp_path, pool):
    def generated(name: str, *options: object) -> bytes:
        path = tmp_path / name
        base = ("--distraction", "no", "--count", 50, "--images", pool, "--split", "training", "--output", path)
        generate(*base, *options)
        return path.read_bytes()

    first = generated("a.csv", "--seed", 1)
    assert generated("b.csv", "--seed", 1) == first
    assert generated("c.csv", "--seed", 2) != first
    assert generated("a.csv", "--seed", 1) == first, "a second run replaces the table and does not append"


def test_training_uses_images_evenly(tmp_path, pool):
    out = tmp_path / "train.csv"
    generate("--distraction", "yes", "--count", 3000, "--images", pool, "--split", "training", "--output", out)
    used = Counter()
    for row in table(out):
        names = [row[f"img{image}"] for image in (1, 2, 3, 4)]
        used.update(names)
        assert len(set(names)) == 4, "an image stands once in a question"
        fourth = SPEC[row["img4"].rpartition("_")[0] + "_"]
        answer = identify(row).question.answer
        assert all(true in (ANY, shown) for true, shown in zip(answer, fourth, strict=True))
        assert (pool / row["img4"]).is_file()
    spread = {}
    for name, count in used.items():
        spread.setdefault(name.rpartition("_")[0], []).append(count)
    assert all(max(counts) - min([*counts, *[0] * (3 - len(counts))]) <= 1 for counts in spread.values())


def test_parquet(tmp_path, pool):
    out = tmp_path / "wd.parquet"
    generate("--distraction", "yes", "--count", 60, "--images", pool, "--split", "testing", "--output", out)
    read = pq.read_table(out)
    assert read.column_names == list(COLUMNS)
    assert read.num_rows == 60
    assert set(read["rule"].to_pylist()) == set(WD_RULES)


def test_collages(tmp_path, pool):
    out = tmp_path / "nd.csv"
    options = ("--distraction", "no", "--images", pool, "--split", "testing", "--collage", "--output", out)
    generate(*options, "--count", 14)
    folder = tmp_path / "Image_Questions"
    assert sorted(path.name for path in folder.iterdir()) == sorted(f"image_questions_{n}.png" for n in range(1, 15))
    row = table(out)[3]
    parts = [Image.open(pool / row[f"img{image}"]) for image in (1, 2, 3)]
    picture = Image.open(folder / row["question"])
    height = max(part.height for part in parts)
    widths = [int(part.width * height / part.height) for part in parts]
    assert (picture.mode, picture.format) == ("RGB", "PNG")
    assert picture.size == (sum(widths) + 100, height)
    assert picture.getpixel((widths[0] + 25, 2)) == (255, 255, 255)
    assert picture.getpixel((1, 1)) == parts[0].getpixel((1, 1))
    generate(*options, "--count", 7)
    assert len(list(folder.iterdir())) == 7, "a shorter run leaves none of the earlier collages"
    assert [path.name for path in tmp_path.iterdir() if "partial" in path.name] == []


def test_collages_never_take_the_place_of_other_files(tmp_path, pool):
    folder = tmp_path / "Image_Questions"
    folder.mkdir()
    (folder / "holiday.jpg").write_bytes(b"x")
    out = tmp_path / "nd.csv"
    flags = ("--distraction", "no", "--count", 7, "--images", pool, "--split", "testing", "--collage", "--output", out)
    assert "holiday.jpg" in generate(*flags, code=2)
    assert (folder / "holiday.jpg").exists()
    assert not out.exists()


def test_collage_scales_to_the_largest_height():
    def encoded(size, color):
        out = io.BytesIO()
        Image.new("RGB", size, color).save(out, format="PNG")
        return out.getvalue()

    joined = Image.open(
        io.BytesIO(collage([encoded((10, 5), "red"), encoded((7, 20), "lime"), encoded((3, 9), "blue")]))
    )
    assert joined.size == (40 + 50 + 7 + 50 + 6, 20)
    assert [joined.getpixel((x, 10)) for x in (5, 60, 93, 120, 149)] == [
        (255, 0, 0),
        (255, 255, 255),
        (0, 255, 0),
        (255, 255, 255),
        (0, 0, 255),
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--distraction", "yes", "--count", 4_000_000), "rule 2 has 170,352 different questions"),
        (("--distraction", "no", "--count", 2_384_929), "rule 1 has 340,704 different questions"),
        (("--distraction", "no", "--count", 0), "0 is not in the range"),
    ],
)
def test_counts_beyond_the_space(tmp_path, pool, options, message):
    out = tmp_path / "x.csv"
    assert message in generate(*options, "--images", pool, "--split", "testing", "--output", out, code=2)
    assert list(tmp_path.iterdir()) == []


def test_missing_image_is_named_and_leaves_nothing(tmp_path, pool):
    folder = tmp_path / "images"
    folder.mkdir()
    for path in pool.iterdir():
        if not path.name.startswith("two_cats_walking"):
            (folder / path.name).symlink_to(path)
    out = tmp_path / "x.csv"
    out.write_text("before")
    output = generate(
        *("--distraction", "no", "--count", 7000, "--images", folder, "--split", "testing", "--output", out), code=2
    )
    assert "no image of 'two cats walking': two_cats_walking_<n>.png is needed" in " ".join(output.split())
    assert "727 of the 728" in " ".join(output.split())
    assert out.read_text() == "before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["images", "x.csv"]


@pytest.mark.parametrize("name", ["x.txt", "x"])
def test_output_must_be_a_table(tmp_path, pool, name):
    options = ("--distraction", "no", "--count", 7, "--images", pool, "--split", "testing", "--output", tmp_path / name)
    assert ".csv or .parquet" in generate(*options, code=2)


def test_folder_without_images(tmp_path):
    options = ("--distraction", "no", "--count", 7, "--images", tmp_path, "--split", "testing")
    assert "holds no VOILA image" in generate(*options, "--output", tmp_path / "x.csv", code=2)


def test_fewer_questions_than_rules(tmp_path, pool):
    out = tmp_path / "x.csv"
    output = generate("--distraction", "no", "--count", 2, "--images", pool, "--split", "testing", "--output", out)
    assert "0 for each of 7 rules, and one more for rules 1, 5" in output
    assert [row["rule"] for row in table(out)] == [str(rule) for rule in ND_RULES[:2]]


def test_drawn_images_serve_the_generator(tmp_path):
    folder = tmp_path / "images"
    result = CliRunner().invoke(main, ["generate", "voila-images", "--size", "64", "--output", str(folder)])
    assert result.exit_code == 0, result.output
    assert len(list(folder.iterdir())) == 728
    out = tmp_path / "nd.csv"
    generate("--distraction", "no", "--count", 7, "--images", folder, "--split", "testing", "--output", out)
    assert all((folder / row["img1"]).is_file() for row in table(out))


@pytest.mark.parametrize("name", ["q.csv", "q.parquet"])
def test_the_description_in_croissant_is_of_this_table(tmp_path, pool, name):
    options = ("--distraction", "yes", "--count", 19, "--images", pool, "--split", "training", "--collage")
    output = generate(*options, "--output", tmp_path / name)
    assert f"{name}.croissant.json: its description" in output
    described = json.loads((tmp_path / f"{name}.croissant.json").read_text())
    assert "19 questions" in described["description"]
    table, collages = described["distribution"]  # the images are in another folder, to which no path leads
    assert table["sha256"] == hashlib.sha256((tmp_path / name).read_bytes()).hexdigest()
    assert collages["includes"] == "Image_Questions/*.png"
    (questions,) = described["recordSet"]
    assert [field["source"]["extract"]["column"] for field in questions["field"]] == list(COLUMNS)


@pytest.mark.weekly
@pytest.mark.parametrize("split", ["training", "testing"])
@pytest.mark.parametrize("name", ["q.csv", "q.parquet"])
def test_croissants_own_validator_and_loader_take_it(tmp_path, pool, name, split):
    mlc = pytest.importorskip("mlcroissant", reason="pip install mlcroissant")
    shutil.copytree(pool, tmp_path / "images")
    generate(
        *("--distraction", "yes", "--count", 19, "--split", split, "--collage"),
        *("--images", tmp_path / "images", "--output", tmp_path / name),
    )
    loaded = mlc.Dataset(jsonld=str(tmp_path / f"{name}.croissant.json"))
    assert not loaded.metadata.issues.errors
    assert [record_set.id for record_set in loaded.metadata.record_sets] == ["image", "question"]
    shown = {row["image/name"].decode() for row in loaded.records("image")}
    rows = list(loaded.records("question"))
    assert len(rows) == 19
    for row in rows:
        assert {row[f"question/img{number}"].decode() for number in (1, 2, 3)} <= shown
