"""Images whose decoders run in a cell look as they do without one, and one that breaks its decoder is refused."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from PIL import Image, UnidentifiedImageError

from lyncean.media import cell, pictures
from lyncean.media.picture_formats import orientation
from lyncean.media.pictures import damage, open_image, pixel_count
from lyncean.media.rare_pictures import RareImage
from lyncean.rpc import InvalidRequest
from model_server import images

RNG = np.random.default_rng(3)


def drawn(mode: str) -> Image.Image:
    grey = RNG.integers(0, 256, (30, 40, 3), dtype=np.uint8)
    match mode:
        case "I;16":
            return Image.fromarray(grey[..., 0].astype(np.uint16) * 257)
        case "F":
            return Image.fromarray(grey[..., 0].astype(np.float32) / 255)
        case "I":
            return Image.fromarray(grey[..., 0].astype(np.int32) * 200)
        case "P":
            return Image.fromarray(grey).quantize(17)
        case mode:
            return Image.fromarray(grey).convert(mode)


def encoded(form: str, mode: str, **options: Any) -> bytes:
    file = io.BytesIO()
    drawn(mode).save(file, form, **options)
    return file.getvalue()


def turned(turn: int) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = turn
    return encoded("TIFF", "RGB", exif=exif)


WHOLE: dict[str, bytes] = {
    **{f"{form} {mode}": encoded(form, mode) for form, modes in {
        "GIF": "P L RGB", "BMP": "1 L P RGB RGBA", "TIFF": "1 L P LA RGB RGBA CMYK YCbCr LAB I;16 I F",
        "PPM": "1 L RGB I;16", "JPEG2000": "L RGB RGBA", "ICO": "RGBA RGB", "AVIF": "RGB RGBA",
    }.items() if form in pictures.formats() for mode in modes.split()},
    "GIF transparent": encoded("GIF", "P", transparency=3),
    "GIF animated": encoded("GIF", "P", save_all=True, append_images=[drawn("P"), drawn("P")]),
    **{f"TIFF turned {turn}": turned(turn) for turn in (1, 3, 6, 8)},
}  # fmt: skip


@pytest.fixture
def without_cell(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], Any]:
    """Calls a function as it is with decoders in this process."""

    def plain(data: bytes) -> Image.Image:
        return Image.open(io.BytesIO(data), formats=pictures.formats())

    def called(function: Callable[[], Any]) -> Any:
        with monkeypatch.context() as patch:
            patch.setattr(images, "open_image", plain)
            patch.setattr(pictures, "open_image", plain)
            return function()

    return called


@pytest.mark.parametrize("name", WHOLE)
def test_an_image_is_what_it_is_without_a_cell(name: str, without_cell: Callable[[Callable[[], Any]], Any]) -> None:
    data = WHOLE[name]
    assert isinstance(open_image(data), RareImage)

    def seen() -> list[Any]:
        image = images.decode(data)
        facts = damage(data), pixel_count(data), images.media_type(data), images.pixels(data)
        return [np.asarray(image).tobytes(), image.size, image.mode, facts]

    assert seen() == without_cell(seen)
    with open_image(data) as opened, Image.open(io.BytesIO(data)) as plain:
        for image in (opened, plain):
            assert (image.size, image.mode, image.format) == (plain.size, plain.mode, plain.format)
            assert orientation(image) == orientation(plain)
        assert opened.convert("RGBA").tobytes() == plain.convert("RGBA").tobytes()
        assert type(opened) is Image.Image, "it is a plain image once its pixels are there"
        assert orientation(opened) == orientation(plain)


@pytest.mark.parametrize("name", ["GIF P", "BMP RGB", "TIFF RGB", "PPM RGB", "JPEG2000 RGB", "ICO RGB"])
@pytest.mark.parametrize("part", [0.02, 0.3, 0.9])
def test_damage_has_the_words_that_it_has_without_a_cell(
    name: str, part: float, without_cell: Callable[[Callable[[], Any]], Any]
) -> None:
    data = WHOLE[name][: int(len(WHOLE[name]) * part)]

    def refused() -> str:
        try:
            images.decode(data)
        except InvalidRequest as error:
            return f"{error.reason} {error} {damage(data)}"
        return damage(data)

    assert refused() == without_cell(refused)


def test_what_is_no_image_is_not_identified_and_bombs_are_bombs() -> None:
    for data in (b"", b"no image", b"%!PS-Adobe-3.0 EPSF-3.0\n"):
        with pytest.raises(UnidentifiedImageError):
            open_image(data)
    with pytest.raises(Image.DecompressionBombError):
        open_image(b"P6 20000 20000 255\n")
    assert pixel_count(b"P6 20000 20000 255\n") > 100_000_000
    with pytest.raises(InvalidRequest, match=r"pixels .*the limit is 1,000") as caught:
        images.decode(WHOLE["BMP RGB"], max_pixels=1000)
    assert caught.value.reason == "image_too_large"


@pytest.mark.parametrize("deed", ["abort", "loop", "allocate", "opens"])
def test_a_decoder_in_the_hands_of_its_file_is_one_refused_image(deed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cell, "SETUP", "helpers.media_functions:pictures_setup")
    monkeypatch.setattr(cell, "SECONDS", 1.0)
    monkeypatch.setattr(cell, "_POOL", cell._Pool())
    argument = {"allocate": 8 << 30, "opens": "/etc/passwd"}.get(deed, "")
    hostile = WHOLE["BMP RGB"] + f"\ndeed {deed} {argument}".encode()
    with pytest.raises(InvalidRequest, match="cannot be decoded: its decoder ") as caught:
        images.decode(hostile)
    assert caught.value.reason == "bad_image"
    assert "its decoder " in damage(hostile)
    assert images.pixels(hostile) == 1200
    monkeypatch.setattr(cell, "SECONDS", 60.0)
    assert images.decode(WHOLE["BMP RGB"]).size == (40, 30)
    cell._POOL.close()


SAID = {
    "format": "BMP", "mime": "image/bmp", "mode": "RGB", "size": [2, 2], "transparency": None, "orientation": None,
}  # fmt: skip
PIXELS = SAID | {"bytes": 12, "palette": None}


@pytest.mark.parametrize(
    ("change", "size"),
    [
        ({}, 11), ({"bytes": 11}, 11), ({"bytes": -1}, 12), ({"bytes": 1 << 50}, 12), ({"mode": "odd"}, 12),
        ({"size": [1 << 20, 1 << 20]}, 12), ({"size": [-2, -2]}, 12), ({"palette": ["odd", [1]]}, 12),
        ({"palette": ["RGB", [999]]}, 12), ({"transparency": "x"}, 12), ({"orientation": [6]}, 12),
    ],
)  # fmt: skip
def test_what_a_cell_says_of_an_image_is_taken_as_far_as_it_can_be_true(
    change: dict[str, Any], size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = cell._Pool()
    monkeypatch.setattr(cell, "_POOL", cells)
    results = {"picture_header": {"value": SAID}, "picture": {"value": PIXELS | change}}
    forged = cell_of(results, size)
    cells._idle.append(forged)
    image = open_image(b"BM any")
    with pytest.raises(ValueError, match="its decoder broke"):
        image.load()
    forged.close()


@pytest.mark.parametrize("change", [{"size": [30_000, 30_000]}, {"mode": "odd"}, {"orientation": -1}, {"size": [2]}])
def test_a_header_is_taken_as_far_as_it_can_be_true(change: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    cells = cell._Pool()
    monkeypatch.setattr(cell, "_POOL", cells)
    cells._idle.append(cell_of({"picture_header": {"value": SAID | change}}, 0))
    with pytest.raises(ValueError, match="its decoder broke"):
        open_image(b"BM any")
    cells.close()


def cell_of(results: dict[str, Any], size: int) -> Any:
    from lyncean.cell import Cell

    return Cell("helpers.media_functions:forging", {"results": results, "size": size})


def test_the_fast_formats_start_no_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cell, "_POOL", cell._Pool())
    for form in ("PNG", "JPEG", "WEBP"):
        assert images.decode(encoded(form, "RGB")).size == (40, 30)
    assert not cell._POOL._idle
