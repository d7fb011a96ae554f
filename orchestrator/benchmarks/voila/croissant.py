"""Croissant 1.0 metadata (https://docs.mlcommons.org/croissant/docs/croissant-spec.html) of generated tables."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

from orchestrator.benchmarks.voila.generator import COLLAGES, COLUMNS
from orchestrator.data.digest import sha256

_FORMATS = {".csv": "text/csv", ".parquet": "application/x-parquet"}
_SHOWN = ("img1", "img2", "img3", "img4")
_NUMBERS = ("rule",)


def croissant_path(table: Path) -> Path:
    """Returns where the metadata of a table belong: beside it."""
    return table.with_name(f"{table.name}.croissant.json")


def write_croissant(table: Path, *, images: Path, training: bool, collage: bool, drawn: str) -> Path:
    """Writes the metadata of a table that is complete, whole or not at all, and returns their path.

    Args:
        table: The table.
        images: The folder of its images; its files are described if it lies within the table's folder, since paths
            of Croissant do not lead out of it.
        training: Whether the fourth image is a file.
        collage: Whether each question is also drawn as one picture.
        drawn: How the questions were drawn, in words.
    """
    base = json.loads(files(__package__).joinpath("croissant.json").read_text(encoding="utf-8"))
    texts: dict[str, str] = base.pop("columns")
    home = table.resolve().parent
    within = images.resolve().relative_to(home) if images.resolve().is_relative_to(home) else None
    distribution: list[dict[str, Any]] = [
        {
            "@type": "cr:FileObject",
            "@id": "table",
            "name": table.name,
            "description": "The questions.",
            "contentUrl": table.name,
            "encodingFormat": _FORMATS[table.suffix],
            "sha256": sha256(table),
        }
    ]
    records: list[dict[str, Any]] = []
    sets = [("images", within.as_posix(), "The images, by their names.")] if within else []
    sets += [("collages", COLLAGES, "Each question drawn as one picture.")] if collage else []
    for name, folder, text in sets:
        distribution.append(
            {
                "@type": "cr:FileSet",
                "@id": name,
                "name": name,
                "description": text,
                "encodingFormat": "image/png",
                "includes": f"{folder}/*.png".removeprefix("./"),
            }
        )
    if within:
        records.append({"@type": "cr:RecordSet", "@id": "image", "name": "image", "key": {"@id": "image/name"}})
        records[0]["field"] = [
            _field(f"image/{name}", text, kind, {"fileSet": {"@id": "images"}, "extract": {"fileProperty": source}})
            for name, text, kind, source in (
                ("name", "File name.", "sc:Text", "filename"),
                ("content", "Pixels.", "sc:ImageObject", "content"),
            )
        ]
    fields = []
    for column in COLUMNS:
        kind = "sc:Integer" if column in _NUMBERS else "sc:Text"
        source = {"fileObject": {"@id": "table"}, "extract": {"column": column}}
        field = _field(f"question/{column}", texts[column], kind, source)
        if within and column in _SHOWN[: 4 if training else 3]:
            field["references"] = {"field": {"@id": "image/name"}}
        fields.append(field)
    records.append({"@type": "cr:RecordSet", "@id": "question", "name": "question", "field": fields})
    document = base | {
        "name": table.stem,
        "description": f"{base['description']} {drawn}",
        "distribution": distribution,
        "recordSet": records,
    }
    path = croissant_path(table)
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    partial.replace(path)
    return path


def _field(name: str, text: str, kind: str, source: dict[str, Any]) -> dict[str, Any]:
    return {
        "@type": "cr:Field",
        "@id": name,
        "name": name.rpartition("/")[2],
        "description": text,
        "dataType": kind,
        "source": source,
    }
