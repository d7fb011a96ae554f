"""Images that a foreign task's code returns become the data's own bytes if the pixels are equal."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from helpers import clips
from PIL import Image, ImageOps

from lyncean_harnesses.benchmark.visuals import Sources, parts
from lyncean_harnesses.library.requests import Clip, NotAskableError, shown


def encoded(image: Image.Image, form: str = "PNG", **more: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, form, **more)
    return buffer.getvalue()


def noise(size: tuple[int, int], mode: str = "RGB") -> Image.Image:
    return Image.effect_noise(size, 90).convert(mode)


def test_the_data_s_own_bytes_are_sent_where_their_pixels_are_returned() -> None:
    turned = Image.Exif()
    turned[0x0112] = 6
    files = {
        "jpeg": encoded(noise((9, 7)), "JPEG"),
        "grey": encoded(noise((8, 8), "L")),
        "turned": encoded(noise((12, 5)), "JPEG", exif=turned),
        "palette": encoded(noise((6, 6), "P")),
    }
    row = {"question": "?", "images": [{"bytes": data, "path": None} for data in files.values()]}
    for data in files.values():
        opened = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
        for returned in (opened, opened.convert("RGB")):
            sources = Sources(row)
            (part,) = parts(shown([returned]), sources)
            assert part.image is not None
            assert part.image.data == data
            assert sources.encoded == 0


def test_what_the_code_changed_is_encoded_without_loss_and_counted(tmp_path: Path) -> None:
    see_through = noise((8, 8)).convert("RGBA")
    see_through.putalpha(90)
    row = {"image": {"bytes": encoded(see_through), "path": None}, "second": encoded(noise((8, 8)), "JPEG")}
    half = see_through.convert("RGB").resize((4, 4))
    file = tmp_path / "seen.png"
    file.write_bytes(encoded(noise((3, 3))))
    sources = Sources(row)
    # A model sees transparency over white, where convert("RGB") drops it: these are other pixels.
    sent = list(parts(shown([see_through.convert("RGB"), [half, None], see_through, str(file)]), sources))
    images = [part.image.data for part in sent if part.image]
    assert sources.encoded == 2
    assert Image.open(io.BytesIO(images[0])).tobytes() == see_through.convert("RGB").tobytes()
    assert Image.open(io.BytesIO(images[1])).tobytes() == half.tobytes()
    assert images[2:] == [row["image"]["bytes"], file.read_bytes()]  # type: ignore[index]


@pytest.mark.parametrize(
    ("visual", "message"),
    [
        ({"type": "video", "video": [Image.new("RGB", (4, 4))]}, "have videos as single images"),
        ("clip.mp4", "cannot be read (clip.mp4)"),
        ("missing.png", "cannot be read (missing.png)"),
        (object(), "have object"),
    ],
)
def test_what_a_request_cannot_hold_is_named(visual: object, message: str) -> None:
    with pytest.raises(NotAskableError) as caught:
        list(parts(shown([visual]), Sources({})))
    assert message in str(caught.value)


def test_code_that_knows_torchcodec_s_decoder_alone_gets_the_sound() -> None:
    """The code of ami and europal_asr shows no sound where it finds no samples."""
    clip = Clip("audio", {"bytes": clips.audio(0.3, 8000, hertz=220), "path": "a.wav"})
    samples = clip.get_all_samples()
    (channel,) = samples.data.cpu().numpy()
    assert samples.sample_rate == 8000
    assert channel.tolist() == clip["array"].tolist()
    assert len(channel) > 2000
