import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers import tiny_detectors
from PIL import Image, ImageDraw

from lyncean.errors import UserError
from tool_server.search.detector import TransformersDetector
from tool_server.search.hierarchy import Detection, Settings
from tool_server.search.toolset import MAX_BOXES, VisualSearch, crop_box


class Truth:
    """Sees the red pixels of an image, if they are a share of it that can be seen."""

    revision = "truth"

    def detect(self, image: Image.Image, name: str) -> list[Detection]:
        box = image.getchannel("G").point(lambda level: 255 * (level < 100)).getbbox()
        seen = box and name == "red box" and (box[2] - box[0]) * 20 >= image.width
        return [Detection(tuple(map(float, box)), 0.9 if seen else 0.1)] if box else []  # type: ignore[arg-type]


def _scene(box: tuple[int, int, int, int] = (1200, 900, 1230, 940), kind: str = "PNG", **options: Any) -> bytes:
    image = Image.new("RGB", (1600, 1200), "white")
    ImageDraw.Draw(image).rectangle((box[0], box[1], box[2] - 1, box[3] - 1), fill="red")
    buffer = io.BytesIO()
    image.save(buffer, format=kind, **options)
    return buffer.getvalue()


def _call(search: VisualSearch, images: list[bytes], **arguments: Any) -> Any:
    return search.open().call("search", json.dumps(arguments), images)


def test_an_object_is_found_cut_out_and_told() -> None:
    result = _call(VisualSearch(Truth()), [_scene()], object="red box")
    text, crop = result.content
    assert json.loads(text) == {
        "object": "red box",
        "found": True,
        "patches": 3,
        "boxes": [[1200.0, 900.0, 1230.0, 940.0]],
        "scores": [0.9],
    }
    assert (result.is_error, result.facts) == (False, {"found": True, "patches": 3})
    image = Image.open(io.BytesIO(crop))
    assert image.size == (36, 48)
    assert [image.getpixel((x, 24)) for x in (2, 3, 32, 33)] == [(255,) * 3, (255, 0, 0), (255, 0, 0), (255,) * 3]


def test_another_name_is_a_guess() -> None:
    result = _call(VisualSearch(Truth()), [_scene()], object="blue box")
    assert json.loads(result.content[0])["found"] is False
    assert result.facts == {"found": False, "patches": 1}
    assert len(result.content) == 2


def test_an_image_is_searched_as_it_is_shown() -> None:
    exif = Image.Exif()
    exif[0x0112] = 3  # turned by half
    result = _call(
        VisualSearch(Truth()), [_scene(), _scene(kind="JPEG", exif=exif, quality=95)], object="red box", image=2
    )
    left, top, right, bottom = json.loads(result.content[0])["boxes"][0]
    assert (left, top, right, bottom) == pytest.approx((370, 260, 400, 300), abs=2)


def test_many_objects_are_the_best_of_them() -> None:
    class Everywhere:
        revision = "1"

        def detect(self, image: Image.Image, name: str) -> list[Detection]:
            return [Detection((n, n, n + 100, n + 100), 0.6 + n / 1000) for n in range(100)]

    result = _call(VisualSearch(Everywhere()), [_scene()], object="x")
    assert json.loads(result.content[0])["scores"] == [round(0.699 - n / 1000, 4) for n in range(MAX_BOXES)]
    assert len(result.content) == 1 + MAX_BOXES


@pytest.mark.parametrize(
    ("images", "arguments", "message"),
    [
        ([b"?"], {"object": "x"}, "Image 1 cannot be read"),
        ([_scene()[:-800]], {"object": "x"}, "Image 1 cannot be read"),
        ([_scene()], {"object": "x", "image": 2}, "There is no image 2: the last one is 1."),
        ([], {"object": "x"}, "There is no image 1: the last one is 0."),
    ],
)
def test_mistakes_are_the_model_s_to_read(images: list[bytes], arguments: Any, message: str) -> None:
    result = _call(VisualSearch(Truth()), images, **arguments)
    assert result.is_error
    assert result.content[0].startswith(message)


def test_revisions_are_of_all_that_a_result_depends_on() -> None:
    class Other(Truth):
        revision = "other"

    revisions = {
        VisualSearch(Truth()).revision,
        VisualSearch(Other()).revision,
        VisualSearch(Truth(), Settings("random-dfs")).revision,
        VisualSearch(Truth(), Settings(threshold=0.4)).revision,
    }
    assert len(revisions) == 4
    assert VisualSearch(Truth()).revision in revisions


@pytest.mark.parametrize(
    ("box", "cut"),
    [
        ((10, 10, 20, 20), (9, 9, 21, 21)),
        ((0, 0, 10, 10), (0, 0, 12, 12)),
        ((90, 90, 100, 100), (89, 89, 100, 100)),
        ((5.5, 5.5, 5.6, 5.6), (4, 4, 6, 6)),
    ],
)
def test_crops_have_what_is_around_a_box(box: Any, cut: Any) -> None:
    assert crop_box(box, (100, 100)) == cut


@pytest.mark.parametrize("write", [tiny_detectors.owlv2, tiny_detectors.grounding_dino])
def test_detectors_of_transformers(write: Callable[[Path], Path], tmp_path: Path) -> None:
    detector = TransformersDetector(str(write(tmp_path / "model")), device="cpu")
    image = Image.open(io.BytesIO(_scene())).convert("RGB").crop((1000, 800, 1300, 1000))
    detections = detector.detect(image, "red box")
    assert detections == detector.detect(image, "red box")
    assert detections != detector.detect(image, "St. Bernard")
    assert detector.detect(image, "a very long name " * 12)
    assert all(0 <= one.box[0] < one.box[2] <= 300 and 0 <= one.box[1] < one.box[3] <= 200 for one in detections)
    assert all(0 < one.score < 1 for one in detections)
    search = VisualSearch(detector, Settings(threshold=1.0))
    assert json.loads(_call(search, [_scene()], object="red box").content[0])["boxes"]
    assert TransformersDetector(str(tmp_path / "model"), device="cpu").revision == detector.revision
    settings = tmp_path / "model" / "config.json"
    settings.write_text(settings.read_text() + " ")
    assert TransformersDetector(str(tmp_path / "model"), device="cpu").revision != detector.revision


def test_a_folder_without_a_detector_is_told(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(UserError, match="is not a checkpoint of an open-vocabulary detector"):
        TransformersDetector(str(tmp_path))
