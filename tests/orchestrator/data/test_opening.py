"""Rows of every form in which users have benchmark data."""

from __future__ import annotations

import base64
import hashlib
import http.server
import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from types import NoneType

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings, strategies as st

from orchestrator.data import parquet
from orchestrator.data.digest import digest_files
from orchestrator.data.opening import open_rows
from orchestrator.data.parquet import _Images
from orchestrator.data.rows import DataError, OutsideError
from orchestrator.data.table import Table
from orchestrator.data.vlmevalkit import open_vlmevalkit
from orchestrator.samples import BadRowError

TABLE = Table(hub="owner/name", split="test", columns={"id": int, "text": str, "options": (list, NoneType)})
IMAGES = [b"\x89PNG\r\n\x1a\n" + bytes([i]) * (i + 1) for i in range(7)]
ROWS = [{"id": i, "text": f"row {i}", "options": None if i % 2 else ["a", "b"]} for i in range(7)]


def write_parquet(path: Path, start: int = 0, end: int = 7, group: int = 2) -> None:
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    rows = [{**ROWS[i], "image": {"bytes": IMAGES[i], "path": f"{i}.png"}} for i in range(start, end)]
    schema = pa.schema([("id", pa.int64()), ("text", pa.string()), ("options", pa.list_(pa.string())), ("image", kind)])
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), path, row_group_size=group)


def check(source) -> None:
    assert source.count == 7
    rows = list(source)
    assert [dict(row.fields) for row in rows] == ROWS
    assert [row.image() for row in rows] == IMAGES
    assert [row.image() for row in reversed(rows)] == IMAGES[::-1]
    assert [row["id"] for row in source] == list(range(7))


def test_parquet_file(tmp_path):
    file = tmp_path / "rows.parquet"
    write_parquet(file)
    source = open_rows(file, TABLE)
    check(source)
    assert source.digest == hashlib.sha256(file.read_bytes()).hexdigest()


def test_parquet_pages_that_were_read_are_let_go(tmp_path):
    file = tmp_path / "rows.parquet"
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    schema = pa.schema([("id", pa.int64()), ("text", pa.string()), ("options", pa.list_(pa.string())), ("image", kind)])
    image = {"bytes": os.urandom(1 << 18), "path": None}
    rows = [{"id": i, "text": "", "options": None, "image": image} for i in range(128)]
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), file, row_group_size=32, use_dictionary=False)
    before = pa.total_allocated_bytes()
    held = []
    for row in open_rows(file, TABLE):
        assert row.image() == image["bytes"]
        held.append(pa.total_allocated_bytes() - before)
    # Four row groups of 8 MiB went by: one of them and the tails of the others may be held.
    assert max(held) < 28 << 20


def test_parquet_folder_reads_its_split_in_order(tmp_path):
    (tmp_path / "data").mkdir()
    write_parquet(tmp_path / "data" / "test-00001-of-00002.parquet", 4, 7)
    write_parquet(tmp_path / "data" / "test-00000-of-00002.parquet", 0, 4)
    write_parquet(tmp_path / "data" / "train-00000-of-00001.parquet", 0, 1)
    check(open_rows(tmp_path, TABLE))


def test_parquet_fields_are_read_without_images(tmp_path, monkeypatch):
    write_parquet(tmp_path / "rows.parquet")
    monkeypatch.setattr(_Images, "cell", lambda *_: pytest.fail("an image was read"))
    assert len(list(open_rows(tmp_path / "rows.parquet", TABLE))) == 7


def test_saved_data_set(tmp_path):
    features = datasets.Features(
        {
            "id": datasets.Value("int64"),
            "text": datasets.Value("string"),
            "options": datasets.List(datasets.Value("string")),
            "image": datasets.Image(),
        }
    )
    rows = [{**row, "image": {"bytes": IMAGES[row["id"]], "path": None}} for row in ROWS]
    saved = datasets.Dataset.from_list(rows, features=features)
    saved.save_to_disk(tmp_path / "one")
    datasets.DatasetDict({"test": saved}).save_to_disk(tmp_path / "splits")
    check(open_rows(tmp_path / "one", TABLE))
    check(open_rows(tmp_path / "splits", TABLE))
    with pytest.raises(DataError, match="has no split train: it has test"):
        open_rows(tmp_path / "splits", Table(hub="o/n", split="train", columns={}))


@pytest.mark.parametrize("suffix", ["jsonl", "json", "csv"])
def test_text_tables_with_image_folder(tmp_path, suffix):
    (tmp_path / "pictures").mkdir()
    for i, data in enumerate(IMAGES):
        (tmp_path / "pictures" / f"{i}.png").write_bytes(data)
    rows = [{**row, "image": f"pictures/{row['id']}.png"} for row in ROWS]
    file = tmp_path / f"metadata.{suffix}"
    if suffix == "csv":
        import csv

        with file.open("w", newline="") as out:
            writer = csv.DictWriter(out, list(rows[0]))
            writer.writeheader()
            writer.writerows({**row, "options": json.dumps(row["options"]) if row["options"] else ""} for row in rows)
    else:
        file.write_text("\n".join(json.dumps(row) for row in rows) if suffix == "jsonl" else json.dumps(rows))
    source = open_rows(file, TABLE)
    check(source)
    assert open_rows(tmp_path, TABLE).digest == source.digest
    (tmp_path / "pictures" / "3.png").write_bytes(b"other")
    assert open_rows(tmp_path, TABLE).digest != source.digest


def test_file_name_column_of_image_folders(tmp_path):
    (tmp_path / "3.png").write_bytes(IMAGES[3])
    (tmp_path / "metadata.jsonl").write_text(json.dumps({**ROWS[3], "file_name": "3.png"}) + "\n\n")
    (row,) = open_rows(tmp_path, TABLE)
    assert row.image() == IMAGES[3]


def test_missing_columns_are_named(tmp_path):
    write_parquet(tmp_path / "rows.parquet")
    table = Table(hub="o/n", split="test", columns={"id": int, "label": str})
    with pytest.raises(DataError) as caught:
        open_rows(tmp_path / "rows.parquet", table)
    assert str(caught.value) == (
        f"{tmp_path}/rows.parquet has no column label: it has id, text, options, image; "
        "this benchmark needs id, label, image"
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"id": "x", "text": "t", "options": null, "image": ""}', "row 1, column id: 'x' is not int"),
        ('{"id": 1, "text": null, "options": null, "image": ""}', "row 1, column text: None is not str"),
        ('{"id": 1, "text": "t", "options": "[1", "image": ""}', "row 1, column options: '[1' is not list or null"),
        (
            '{"id": 1, "text": "t", "options": "' + "[" * 200_000 + '", "image": ""}',
            "row 1, column options: '" + "[" * 56 + "... is not list or null",
        ),
        ('{"id": 1, "text"', "line 1, is not JSON"),
        ("[]", "row 1, is not an object"),
        ("", "has no rows"),
    ],
)
def test_bad_text_rows_are_named(tmp_path, content, message):
    (tmp_path / "rows.jsonl").write_text(content)
    with pytest.raises(DataError) as caught:
        list(open_rows(tmp_path / "rows.jsonl", TABLE))
    assert message in str(caught.value)


@pytest.mark.parametrize("content", ["[" * 200_000, "[1", '[{"id": ' + "9" * 5000 + "}]"])
def test_an_array_that_cannot_be_read_is_named(tmp_path, content):
    (tmp_path / "rows.json").write_text(content)
    with pytest.raises(DataError, match="is not JSON"):
        open_rows(tmp_path / "rows.json", TABLE)


def test_other_mistakes_are_named(tmp_path):
    with pytest.raises(DataError, match=r"no data at .*nowhere; --data takes a hub id"):
        open_rows(tmp_path / "nowhere", TABLE)
    (tmp_path / "rows.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(DataError, match=r"rows.parquet cannot be read as parquet"):
        open_rows(tmp_path / "rows.parquet", TABLE)
    (tmp_path / "rows.bin").write_bytes(b"")
    with pytest.raises(DataError, match="is of no known form"):
        open_rows(tmp_path / "rows.bin", TABLE)
    folder = tmp_path / "two"
    folder.mkdir()
    (folder / "a.csv").touch()
    (folder / "b.csv").touch()
    with pytest.raises(DataError, match=r"should hold one table .* has a.csv, b.csv"):
        open_rows(folder, TABLE)
    (folder / "a.csv").write_text("id,text\n1,one,too many\n")
    with pytest.raises(DataError, match="row 1, does not have the 2 cells"):
        open_rows(folder / "a.csv", TABLE)
    (folder / "a.csv").write_text("id,text,text\n1,one,two\n")
    with pytest.raises(DataError, match="column 'text' stands twice"):
        open_rows(folder / "a.csv", TABLE)
    (folder / "a.csv").write_text("id;text;image\n1;one;1.png\n")
    with pytest.raises(DataError, match="separated by semicolons: save it with commas"):
        open_rows(folder / "a.csv", TABLE)
    (folder / "a.csv").write_bytes("id,text\n1,T\u00fcr\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"is not UTF-8: .*save it as UTF-8"):
        open_rows(folder / "a.csv", TABLE)


def test_a_huge_cell_is_read(tmp_path):
    text = "x" * 200_000
    (tmp_path / "rows.csv").write_text(f"id,text,options,image\n1,{text},,\n")
    (row,) = open_rows(tmp_path / "rows.csv", TABLE)
    assert row["text"] == text


def test_a_damaged_page_is_one_line(tmp_path):
    file = tmp_path / "rows.parquet"
    texts = [f"{number} {hashlib.sha256(bytes([number % 256])).hexdigest()}" for number in range(3000)]
    columns = {"id": list(range(3000)), "text": texts, "options": [["a"]] * 3000, "image": [b"x"] * 3000}
    pq.write_table(pa.table(columns), file, row_group_size=500)
    data = bytearray(file.read_bytes())
    for position in range(200, 2200, 7):
        data[position] ^= 0xFF
    file.write_bytes(data)
    with pytest.raises(DataError, match=r"rows\.parquet cannot be read as parquet: .*; fetch or write the file again"):
        list(open_rows(file, TABLE))


def test_a_line_that_no_server_would_take_is_refused_before_it_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr("orchestrator.data.textual._LINE_BYTES", 1000)
    (tmp_path / "rows.jsonl").write_text(json.dumps({**ROWS[0], "text": "a" * 2000}))
    with pytest.raises(DataError, match=r"rows\.jsonl, line 1, is longer than"):
        open_rows(tmp_path / "rows.jsonl", TABLE)


@pytest.mark.parametrize("relative", [False, True])
@pytest.mark.parametrize("path", ["../secret.png", "/etc/hostname", "in/../../secret.png", "link.png"])
def test_image_paths_stay_in_the_folder(tmp_path, path, relative, monkeypatch):
    (tmp_path / "secret.png").write_bytes(b"secret")
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "link.png").symlink_to(tmp_path / "secret.png")
    (folder / "rows.jsonl").write_text(json.dumps({**ROWS[0], "image": path}))
    monkeypatch.chdir(folder)
    (row,) = open_rows("rows.jsonl" if relative else folder / "rows.jsonl", TABLE)
    with pytest.raises(DataError, match="leads out of"):
        row.image()


def test_a_saved_table_names_files_of_its_folder_and_of_the_hub_s_cache_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    names = ["secret.png", "hf/token", "data/link.png", "data/own.png", "hf/datasets/own.png"]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"the image")
    (tmp_path / "data" / "link.png").unlink()
    (tmp_path / "data" / "link.png").symlink_to(tmp_path / "secret.png")
    cells = [{"path": str(tmp_path / name), "bytes": None} for name in names]
    rows = datasets.Dataset.from_list([{**ROWS[0], "image": cell} for cell in cells])
    rows.save_to_disk(tmp_path / "data" / "table")  # features that are no images: nothing is put into the table
    images = []
    for row in open_rows(tmp_path / "data" / "table", TABLE):
        try:
            images.append(row.image())
        except DataError as error:
            images.append("leads out of" in str(error))
    assert images == [True, True, True, True, b"the image"], "data/own.png lies beside the table's folder"


def test_images_of_a_table_of_vlmevalkit_stay_in_its_folder(tmp_path):
    (tmp_path / "secret.png").write_bytes(b"secret")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "link.png").symlink_to(tmp_path / "secret.png")
    for name in ("../secret.png", str(tmp_path / "secret.png"), "link.png", "['../secret.png']"):
        file = tmp_path / "data" / "rows.tsv"
        file.write_text(f"index\tquestion\tanswer\timage_path\n1\tWhat?\tyes\t{name}\n")
        source = open_vlmevalkit(file, Table(hub="", split="", columns={"index": str}, images=()))
        (row,) = source
        with pytest.raises(OutsideError, match="leads out of"):
            row.image("image:0")


def test_images_of_the_hub_cache_are_links_to_its_blobs(tmp_path):
    folder = tmp_path / "datasets--a--b" / "snapshots" / "1f2e"
    folder.mkdir(parents=True)
    (tmp_path / "datasets--a--b" / "blobs").mkdir()
    (tmp_path / "datasets--a--b" / "blobs" / "aa").write_bytes(b"the image")
    (folder / "a.png").symlink_to("../../blobs/aa")
    (folder / "rows.jsonl").write_text(json.dumps({**ROWS[0], "image": "a.png"}))
    (row,) = open_rows(folder / "rows.jsonl", TABLE)
    assert row.image() == b"the image"


def test_images_that_cannot_be_read_reject_the_sample(tmp_path):
    from orchestrator.data.images import row_image

    (tmp_path / "rows.jsonl").write_text(
        "\n".join(json.dumps({**ROWS[0], "image": image}) for image in ("gone.png", "a\0b.png", None))
    )
    gone, nul, none = open_rows(tmp_path / "rows.jsonl", TABLE)
    with pytest.raises(BadRowError, match=r"gone.png cannot be read: No such file"):
        row_image(gone)
    with pytest.raises(BadRowError, match=r"cannot be read: .*null"):
        row_image(nul)
    with pytest.raises(BadRowError) as caught:
        row_image(none)
    assert caught.value.reason == "no_image"


@pytest.mark.parametrize(
    ("image", "why"),
    [
        ("https://host/a.png", "is a URL, and images are read from files"),
        ("empty.png", "empty.png is an empty file"),
        ("iVBORw0KGgo?" * 1000, "of 12,000 characters is neither a path nor an image as base64"),
        ("aVBORw0KGgo=" + "aVBO" * 2000, "is neither a path nor an image as base64"),
    ],
)
def test_what_is_no_image_file_is_said(tmp_path, image, why):
    (tmp_path / "empty.png").touch()
    (tmp_path / "rows.jsonl").write_text(json.dumps({**ROWS[0], "image": image}))
    (row,) = open_rows(tmp_path / "rows.jsonl", TABLE)  # its digest passes over entries that are not files
    with pytest.raises(DataError, match=why):
        row.image()


def test_a_long_text_may_be_an_image_as_base64(tmp_path):
    data = b"\x89PNG\r\n\x1a\n" + bytes(9000)
    (tmp_path / "rows.jsonl").write_text(json.dumps({**ROWS[0], "image": base64.b64encode(data).decode()}))
    (row,) = open_rows(tmp_path / "rows.jsonl", TABLE)
    assert row.image() == data


def test_hub_without_a_network_says_what_to_do(tmp_path):
    program = (
        "from orchestrator.data.opening import open_rows\n"
        "from orchestrator.data.table import Table\n"
        "open_rows(None, Table(hub='owner/name@v1', split='test', columns={}))\n"
    )
    # A process of its own: `datasets` reads whether it is offline when it is imported.
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    message = done.stderr.strip().splitlines()[-1]
    assert "DataError: data set owner/name cannot be read from the hub" in message
    assert "orchestrator fetch --task TASK --to DIR" in message


def test_a_hub_that_cannot_be_reached_is_said_at_once(tmp_path):
    program = (
        "from orchestrator.data.opening import open_rows\n"
        "from orchestrator.data.table import Table\n"
        "open_rows(None, Table(hub='owner/name', split='test', columns={}))\n"
    )
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # bound and not listening: refused
        hub = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        environment = {**os.environ, "HF_ENDPOINT": hub, "HF_HOME": str(tmp_path)}
        environment.pop("HF_HUB_OFFLINE", None)
        done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    message = done.stderr.strip().splitlines()[-1]
    assert f"DataError: data set owner/name: the hub at {hub} cannot be reached" in message
    for way in ("orchestrator fetch", "--data DIR", "HF_HUB_OFFLINE=1"):
        assert way in message
    assert "Retrying" not in done.stderr


class _Hub(http.server.BaseHTTPRequestHandler):
    """A hub that is reachable and breaks off every download."""

    def do_HEAD(self):
        if self.path == "/":
            self.send_response(200)
            self.end_headers()

    def do_GET(self):
        self.close_connection = True

    def log_message(self, *_):
        pass


def test_a_hub_that_breaks_off_is_one_error_and_so_is_a_mistyped_folder(tmp_path):
    program = (
        "from orchestrator.data.opening import open_rows\n"
        "from orchestrator.data.table import Table\n"
        "open_rows('data/vstar', Table(hub='owner/name', split='test', columns={}))\n"
    )
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    environment = {**os.environ, "HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}", "HF_HOME": str(tmp_path)}
    environment.pop("HF_HUB_OFFLINE", None)
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    server.shutdown()
    message = done.stderr.strip().splitlines()[-1]
    assert "DataError: no file or folder data/vstar is here, and data set data/vstar cannot be read" in message


def test_an_empty_folder_holds_no_data(tmp_path):
    with pytest.raises(DataError, match=r"holds no data; --data takes a hub id"):
        open_rows(tmp_path, TABLE)


def test_digest_of_several_files_knows_names_and_contents(tmp_path):
    one, two = tmp_path / "1", tmp_path / "2"
    one.write_bytes(b"a")
    two.write_bytes(b"b")
    digest = digest_files([("1", one), ("2", two)])
    assert digest == digest_files([("2", two), ("1", one)])
    assert digest != digest_files([("1", two), ("2", one)])


def test_digest_of_very_large_files_is_sampled(tmp_path):
    file = tmp_path / "large"
    with file.open("wb") as out:
        out.truncate((2 << 30) + 1)
    before = digest_files([("large", file)])
    with file.open("r+b") as out:
        out.write(b"x")
    assert before.startswith("sampled:")
    assert digest_files([("large", file)]) != before


@settings(max_examples=40)
@given(st.lists(st.integers(0, 39), min_size=1, max_size=30))
def test_images_in_any_order(tmp_path_factory, order):
    path = tmp_path_factory.getbasetemp() / "any-order.parquet"
    images = [bytes([i]) * 1_000_000 for i in range(40)]
    if not path.exists():
        table = pa.table({"image": pa.array(images, pa.binary())})
        pq.write_table(table, path, row_group_size=25, compression="zstd")
    reader = _Images([path])
    assert all(reader.cell(0, "image", i) == images[i] for i in order)


MANY = 12


@pytest.fixture(scope="module")
def many_columns(tmp_path_factory):
    """Two row groups of rows with twelve images of 20 KB."""
    path = tmp_path_factory.mktemp("many") / "many.parquet"
    columns = {f"image_{c}": pa.array([bytes([i, c]) * 10_000 for i in range(60)], pa.binary()) for c in range(MANY)}
    pq.write_table(pa.table(columns), path, row_group_size=30, compression="zstd")
    return path


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 59), st.integers(0, MANY - 1)), min_size=1, max_size=80))
def test_images_of_many_columns_in_any_order(many_columns, order):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet, "_MANY_BYTES", 1 << 20)
        reader = parquet._Images([many_columns])
        assert all(reader.cell(0, f"image_{c}", i) == bytes([i, c]) * 10_000 for i, c in order)


def test_rows_with_images_in_many_columns_are_read_once(many_columns, monkeypatch):
    begun = []
    read = pq.ParquetFile.iter_batches
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", lambda *args, **more: begun.append(0) or read(*args, **more))
    reader = parquet._Images([many_columns])
    for row in range(60):
        for column in range(MANY):
            reader.cell(0, f"image_{column}", row)
    assert len(begun) == 2 * MANY


def test_memory_does_not_grow_with_the_table(tmp_path):
    """One row group of 300 MB is read image by image in far less."""
    path = tmp_path / "large.parquet"
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    with pq.ParquetWriter(path, pa.schema([("id", pa.int64()), ("image", kind)]), compression="none") as writer:
        picture = os.urandom(1_000_000)
        rows = [{"id": i, "image": {"bytes": picture, "path": ""}} for i in range(300)]
        writer.write_table(pa.Table.from_pylist(rows, schema=writer.schema), row_group_size=300)
    del rows
    program = (
        "import resource, sys\n"
        "from orchestrator.data.opening import open_rows\n"
        "from orchestrator.data.table import Table\n"
        "source = open_rows(sys.argv[1], Table(hub='o/n', split='test', columns={'id': int}))\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "assert sum(len(row.image()) for row in source) == 300_000_000\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 150_000  # KiB


def test_hub_id_through_datasets(tmp_path):
    """`datasets` resolves a folder like a hub id; what it loads is read without decoding an image."""
    folder = tmp_path / "owner" / "name" / "data"
    folder.mkdir(parents=True)
    features = datasets.Features(
        {
            "id": datasets.Value("int64"),
            "text": datasets.Value("string"),
            "options": datasets.List(datasets.Value("string")),
            "image": datasets.Image(),
        }
    )
    rows = [{**row, "image": {"bytes": IMAGES[row["id"]], "path": None}} for row in ROWS]
    datasets.Dataset.from_list(rows, features=features).to_parquet(folder / "train-00000-of-00001.parquet")
    program = (
        "from orchestrator.data.arrow import open_hub\n"
        "from orchestrator.data.table import Table\n"
        "table = Table(hub='owner/name', split='test', or_split='train', columns={'id': int, 'text': str})\n"
        "source = open_hub('owner/name', table)\n"
        "print([(row['id'], row.image()) for row in source], source.count)\n"
        "assert source.digest.endswith(':default:train'), source.digest\n"
    )
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "home")}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == f"{[(i, IMAGES[i]) for i in range(7)]} 7", done.stderr


TEXTS = st.lists(st.text(st.characters(exclude_categories=("Cs",)), max_size=20), min_size=1, max_size=5)


@settings(max_examples=60)
@given(texts=TEXTS, suffix=st.sampled_from(["csv", "tsv", "jsonl", "json"]))
def test_any_text_survives_a_table(tmp_path_factory, texts, suffix):
    import csv

    file = tmp_path_factory.getbasetemp() / f"any-text.{suffix}"
    rows = [{"id": i, "text": text} for i, text in enumerate(texts)]
    if suffix in ("csv", "tsv"):
        with file.open("w", encoding="utf-8", newline="") as out:
            writer = csv.DictWriter(out, ["id", "text"], delimiter="," if suffix == "csv" else "\t")
            writer.writeheader()
            writer.writerows(rows)
    else:
        lines = [json.dumps(row) for row in rows]
        file.write_text("\n".join(lines) if suffix == "jsonl" else f"[{','.join(lines)}]", encoding="utf-8")
    table = Table(hub="o/n", split="test", columns={"id": int, "text": str}, images=())
    assert [dict(row.fields) for row in open_rows(file, table)] == rows


@settings(max_examples=100)
@given(content=st.binary(max_size=60), suffix=st.sampled_from(["csv", "jsonl", "json", "parquet"]))
def test_any_bytes_are_rows_or_a_data_error(tmp_path_factory, content, suffix):
    file = tmp_path_factory.getbasetemp() / f"any-bytes.{suffix}"
    file.write_bytes(content)
    table = Table(hub="o/n", split="test", columns={"id": int}, images=())
    message = "any-bytes"
    try:
        list(open_rows(file, table))
    except DataError as error:
        message = str(error)
    assert "any-bytes" in message
