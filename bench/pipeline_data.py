"""Data of the pipeline benchmark: four-choice questions on images, as the V*-Bench parquet has them."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image, ImageFilter

BASES = 40
"""Encoded images per kind; a comment in the file makes each row's bytes its own."""


def make(path: Path, kind: str, rows: int) -> float:
    """Writes a parquet file and returns the mean bytes of an image."""
    draw = np.random.default_rng(7)
    bases = [_png(draw) if kind == "tiny" else _jpeg(draw) for _ in range(BASES)]
    images = [_own(bases[row % BASES], row) for row in range(rows)]
    labels = draw.integers(0, 4, rows)
    table = pa.table(
        {
            "image": [{"bytes": data, "path": None} for data in images],
            "text": ["What is the color of the thing? (A) red (B) green (C) blue (D) grey"] * rows,
            "label": ["ABCD"[label] for label in labels],
            "category": [("direct_attributes", "relative_position")[row % 2] for row in range(rows)],
            "question_id": list(range(rows)),
        }
    )
    pq.write_table(table, path, row_group_size=64, compression="none")
    return sum(map(len, images)) / rows


def _png(draw: np.random.Generator) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(draw.integers(0, 128, (64, 64, 3), dtype=np.uint8)).save(buffer, "PNG")
    return buffer.getvalue()


def _jpeg(draw: np.random.Generator) -> bytes:
    noise = Image.fromarray(draw.integers(0, 256, (768, 1024, 3), dtype=np.uint8))
    buffer = io.BytesIO()
    noise.filter(ImageFilter.GaussianBlur(1.0)).save(buffer, "JPEG", quality=85)
    return buffer.getvalue()


def _own(data: bytes, row: int) -> bytes:
    note = f"{row:08d}".encode()
    if data.startswith(b"\xff\xd8"):
        return data[:2] + b"\xff\xfe" + (len(note) + 2).to_bytes(2, "big") + note + data[2:]
    return data + note
