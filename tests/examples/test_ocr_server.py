"""The example server with real OCR weights reads words in fonts and in photographs. Skips where it is absent."""

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
    loaded = {}
    for name in FONTS:
        try:
            loaded[name or "Pillow"] = ImageFont.truetype(name, 40) if name else ImageFont.load_default(40)
        except OSError:
            continue
    return loaded


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
    metrics = json.loads(cluster.results("run"))["tasks"]["words"]["metrics"]
    shares = {metric["labels"].get("font", ""): metric["value"] for metric in metrics}
    assert len(shares) == len(fonts()) + 1
    assert shares[""] >= 90, shares


LINES = {  # in skimage's photograph of a printed page: where the line is, and a word of it
    "segmentation": (0, 5, 384, 40),
    "determine": (0, 44, 384, 68),
    "pixels": (0, 62, 384, 86),
    "unambiguously": (0, 79, 384, 103),
    "extreme": (0, 96, 384, 120),
    "grey": (0, 112, 384, 142),
    "markers": (0, 162, 384, 191),
}
PATCH = ("COLLINS", "ASHBY", "COLEMAN", "HAWLEY", "TOGNINI")  # sewn in a circle on an astronaut's suit


def test_it_reads_photographs_and_the_bundled_model_does_not(
    cluster: Cluster, shared_scorer: Server, tmp_path: Path
) -> None:
    skimage = pytest.importorskip("skimage", reason="needs pip install scikit-image")
    photographs = Path(skimage.__file__).parent / "data"
    lines = ["id,image,question,answer,photograph"]
    for word, box in LINES.items():
        Image.open(photographs / "page.png").convert("RGB").crop(box).save(tmp_path / f"{word}.png")
        lines.append(f"{word},{word}.png,What is written here?,{word},page")
    Image.open(photographs / "astronaut.png").crop((125, 340, 215, 430)).save(tmp_path / "patch.png")
    lines += [f"{word},patch.png,What is written here?,{word},patch" for word in PATCH]
    (tmp_path / "words.csv").write_text("\n".join(lines))
    (tmp_path / "words.yaml").write_text(
        "data: words.csv\nid: id\nimage: image\nquestion: question\nanswer: answer\nlabels: photograph\n"
    )
    ocr = Server(tmp_path / "ocr", [sys.executable, str(EXAMPLE)]).start()
    demo = Server(tmp_path / "demo", [sys.executable, "-m", "model_server", "serve", "--backend", "demo"]).start()
    cluster.servers += [ocr, demo]
    right = {}
    for name, server in (("ocr", ocr), ("demo", demo)):
        cluster.eval(name, [server], shared_scorer, "--task", "words.yaml", "--data", "words.csv")
        metrics = json.loads(cluster.results(name))["tasks"]["words"]["metrics"]
        shares = {metric["labels"].get("photograph", ""): metric["value"] for metric in metrics}
        counts = {"page": len(LINES), "patch": len(PATCH)}
        right[name] = {kind: round(shares[kind] * number / 100) for kind, number in counts.items()}
    assert right["ocr"]["page"] >= 4, right
    assert right["ocr"]["patch"] >= 1, right
    assert right["demo"] == {"page": 0, "patch": 0}, right
