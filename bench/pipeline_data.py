"""Data of the pipeline benchmark: four-choice questions on images, as the V*-Bench parquet has them."""

from __future__ import annotations

import io
import json
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image, ImageFilter

BASES = 40
"""Encoded images per kind; a comment in the file makes each row's bytes its own."""

_FEATURES = {name: {"dtype": "string", "_type": "Value"} for name in ("text", "label", "category")}
_HUB = {
    "huggingface": json.dumps(
        {
            "info": {
                "features": {
                    "image": {"_type": "Image"},
                    **_FEATURES,
                    "question_id": {"dtype": "int64", "_type": "Value"},
                }
            }
        }
    )
}
"""Metadata that `datasets` writes into its parquet files, so that readers decode the column as images."""
_IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])

_CHUNK = 1024
_GROUPS = {"big": 64, "tiny": 64, "dot": 1024}
"""Rows per row group, about as the hub's own tables have them."""

_FILE_BYTES = 500_000_000
"""Size of a hub's files."""


def make(path: Path, kind: str, rows: int) -> float:
    """Writes parquet and returns the mean bytes of an image.

    Args:
        path: The file; a name without a suffix is a folder of files, none much larger than half a gigabyte.
        kind: "big" JPEGs, "tiny" PNGs or "dot", PNGs of eight by eight pixels.
        rows: How many.
    """
    draw = np.random.default_rng(7)
    bases = [jpeg(draw) if kind == "big" else png(draw, 8 if kind == "dot" else 64) for _ in range(BASES)]
    labels = draw.integers(0, 4, rows)
    size, writer, file, in_folder = 0, None, path, not path.suffix
    if in_folder:
        path.mkdir()
    for start in range(0, rows, _CHUNK):
        chunk = range(start, min(start + _CHUNK, rows))
        images = [numbered(bases[row % BASES], row) for row in chunk]
        size += sum(map(len, images))
        table = pa.table(
            {
                "image": pa.array([{"bytes": data, "path": None} for data in images], _IMAGE),
                "text": ["What is the color of the thing? (A) red (B) green (C) blue (D) grey"] * len(chunk),
                "label": ["ABCD"[labels[row]] for row in chunk],
                "category": [("direct_attributes", "relative_position")[row % 2] for row in chunk],
                "question_id": list(chunk),
            }
        )
        if writer is None:
            file = path / f"test-{start:09d}.parquet" if in_folder else path
            writer = pq.ParquetWriter(file, table.schema.with_metadata(_HUB), compression="none")
        writer.write_table(table, row_group_size=_GROUPS[kind])
        if in_folder and file.stat().st_size > _FILE_BYTES:
            writer.close()
            writer = None
    if writer:
        writer.close()
    return size / rows


def save(parquet: Path, folder: Path) -> None:
    """Writes the same rows as `datasets` saves them."""
    import datasets

    datasets.disable_progress_bars()
    with tempfile.TemporaryDirectory(dir=folder.parent) as cache:
        datasets.Dataset.from_parquet(str(parquet), cache_dir=cache).save_to_disk(folder)


def png(draw: np.random.Generator, side: int) -> bytes:
    """Returns a square of noise."""
    buffer = io.BytesIO()
    Image.fromarray(draw.integers(0, 128, (side, side, 3), dtype=np.uint8)).save(buffer, "PNG")
    return buffer.getvalue()


def jpeg(draw: np.random.Generator) -> bytes:
    """Returns a photograph of noise."""
    noise = Image.fromarray(draw.integers(0, 256, (768, 1024, 3), dtype=np.uint8))
    buffer = io.BytesIO()
    noise.filter(ImageFilter.GaussianBlur(1.0)).save(buffer, "JPEG", quality=85)
    return buffer.getvalue()


def numbered(data: bytes, row: int) -> bytes:
    """Returns an image file with a number in it, so that it is a file of its own."""
    note = f"{row:08d}".encode()
    if data.startswith(b"\xff\xd8"):
        return data[:2] + b"\xff\xfe" + (len(note) + 2).to_bytes(2, "big") + note + data[2:]
    return data + note
