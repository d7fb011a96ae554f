"""The example server with real OCR weights reads words in several fonts. Skips where rapidocr-onnxruntime is absent."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from helpers.engine_cluster import Cluster, Server
from PIL import Image, ImageDraw, ImageFont

pytest.importorskip("rapidocr_onnxruntime", reason="needs pip install rapidocr-onnxruntime")

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "ocr_server.py"
WORDS = ("harbour", "seven", "BAKERY", "window", "Exit", "garden", "42nd Street", "library", "coffee", "Platform 9")
FONTS = (
    "",  # the one that Pillow brings
    "DejaVuSans-Bold.ttf",
    "DejaVuSerif.ttf",
    "DejaVuSansMono.ttf",
    "LiberationSans-Italic.ttf",
    "LiberationSerif-Regular.ttf",
)


def fonts() -> dict[str, ImageFont.FreeTypeFont]:
    """Returns those of the fonts that this machine has."""
    found = {}
    for name in FONTS:
        try:
            found[name or "Pillow"] = ImageFont.truetype(name, 40) if name else ImageFont.load_default(40)
        except OSError:
            continue
    return found


def test_it_reads_words_in_several_fonts(cluster: Cluster, shared_scorer: Server, tmp_path: Path) -> None:
    lines = ["id,image,question,answer,font"]
    for name, font in fonts().items():
        for number, word in enumerate(WORDS):
            image = Image.new("RGB", (420, 120), (235, 228, 210))
            ImageDraw.Draw(image).text((40, 34), word, fill=(30, 30, 60), font=font)
            image.save(tmp_path / f"{name}-{number}.png")
            lines.append(f"{name}-{number},{name}-{number}.png,What is written here?,{word},{name}")
    (tmp_path / "words.csv").write_text("\n".join(lines))
    (tmp_path / "words.yaml").write_text(
        "data: words.csv\nid: id\nimage: image\nquestion: question\nanswer: answer\nlabels: font\n"
    )
    server = Server(tmp_path / "ocr", [sys.executable, str(EXAMPLE)])
    cluster.servers.append(server.start())
    cluster.eval("run", [server], shared_scorer, "--task", "words.yaml", "--data", "words.csv")
    found = json.loads(cluster.results("run"))["tasks"]["words"]["metrics"]
    shares = {each["labels"].get("font", ""): each["value"] for each in found}
    assert len(shares) == len(fonts()) + 1
    assert shares[""] >= 90, shares
