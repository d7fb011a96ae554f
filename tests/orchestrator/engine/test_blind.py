"""Images of a run: what stands in their place when the model is asked blind."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from helpers import bombs, clips
from PIL import Image

from orchestrator.engine.blind import blinded
from orchestrator.samples import Call, audio_part, image_part, text_part, user


def blind(data: bytes) -> Image.Image:
    call = Call((user(image_part(data), text_part("What?")),))
    part = blinded(call).messages[0].parts[0]
    assert part.image
    return Image.open(io.BytesIO(part.image.data))


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP", "TIFF"])
@pytest.mark.parametrize("orientation", [0, 1, 3, 5, 6, 8])
def test_grey_has_the_size_that_a_model_sees(form: str, orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    file = io.BytesIO()
    Image.new("RGB", (40, 30), "red").save(file, form, exif=exif)
    grey = blind(file.getvalue())
    assert grey.size == ((30, 40) if orientation >= 5 else (40, 30))
    assert grey.format == form
    assert grey.getexif().get(0x0112, 1) == 1


@pytest.mark.filterwarnings("ignore::UserWarning:PIL")
@pytest.mark.parametrize("exif", [b"", b"II*", b"II*\0\x08\0\0\0\xff\xff" + bytes(30), b"\0" * 9])
def test_damaged_exif_says_nothing(exif: bytes) -> None:
    file = io.BytesIO()
    Image.new("RGB", (40, 30), "red").save(file, "PNG", exif=b"Exif\0\0" + exif)
    assert blind(file.getvalue()).size == (40, 30)


def test_silence_is_no_longer_than_a_request(tmp_path: Path) -> None:
    """A header's word is taken for how long silence is: 600 million samples are 1.2 GB of it."""
    sound = clips.audio(1.0, 16_000, form="flac", codec="flac")
    (tmp_path / "sound").write_bytes(bombs.announcing(sound, 600_000_000))
    imports = (
        "import av\nfrom orchestrator.engine.blind import blinded\n"
        "from orchestrator.samples import Call, audio_part, user"
    )
    result, grown = bombs.grown(tmp_path / "sound", imports, "blinded(Call((user(audio_part(data)),)))")
    assert result == "BadRowError: silence of 37,500 seconds takes 1,144 MiB, a request has 64 at most"
    assert grown < bombs.LIMIT
    (part,) = blinded(Call((user(audio_part(sound)),))).messages[0].parts
    assert part.clip
    assert len(part.clip.data) == 44 + 2 * 16_000
