"""Any request to a model server's core is answered or refused with a status, never a crash."""

from __future__ import annotations

import io
import struct
from typing import Any
from unittest import mock

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings, strategies as st
from PIL import Image

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import InvalidRequest, StatusError
from model_server import images
from model_server.backend import Call
from model_server.core import Core
from model_server.demo.hash_model import HashModel
from model_server.kit.backend import KitBackend
from model_server.metrics import Metrics

FEW = settings(max_examples=100)

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:PIL")


def png() -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (3, 2), "red").save(out, "PNG")
    return out.getvalue()


texts = st.one_of(st.just(""), st.just("Which? (A) red (B) blue"), st.text(max_size=20))
parts = st.one_of(
    st.builds(model.Part, text=texts),
    st.builds(lambda data: model.Part(image=model.Image(data=data)), st.one_of(st.binary(max_size=30), st.just(png()))),
    st.just(model.Part()),
)
messages = st.lists(
    st.builds(
        lambda role, held: model.Message(role=role, parts=held),
        st.sampled_from([0, 1, 2, 2, 2, 3, 99]),
        st.lists(parts, max_size=3),
    ),
    max_size=4,
)
numbers = st.floats(width=32)
configs = st.builds(
    lambda **fields: model.GenerationConfig(**{name: value for name, value in fields.items() if value is not None}),
    max_output_tokens=st.none() | st.integers(0, 2**32 - 1),
    temperature=st.none() | numbers,
    top_p=st.none() | numbers,
    seed=st.none() | st.integers(0, 2**64 - 1),
    stop=st.none() | st.lists(texts, max_size=4),
    top_logprobs=st.none() | st.integers(0, 2**32 - 1),
)
generate = st.builds(
    lambda held, config, modality: model.GenerateRequest(messages=held, config=config, modality=modality),
    messages,
    configs,
    st.sampled_from([0, 0, 1, 2, 77]),
)
likelihood = st.builds(
    lambda held, texts: model.LikelihoodRequest(messages=held, continuations=texts),
    messages,
    st.lists(texts, max_size=4),
)


def one_line(error: StatusError, *reasons: str) -> None:
    assert error.reason
    assert not reasons or error.reason in reasons
    assert "\n" not in str(error)


async def ask(method: str, request: Any) -> None:
    """Passes where there is an answer or a `StatusError` of one line; anything else fails the test."""
    backend = KitBackend(HashModel(), Metrics())
    core = Core(backend)
    core.ready()
    try:
        with mock.patch.multiple("model_server.checks", MAX_IMAGES=2, MAX_CONTINUATIONS=3, MAX_STOP=2):
            answer = await getattr(core, method)(request, Call())
        answer.SerializeToString()
    except StatusError as error:
        one_line(error)
    finally:
        await backend.close()


@given(request=generate)
@FEW
async def test_any_generate_request_is_answered_or_refused(request: model.GenerateRequest) -> None:
    await ask("generate", request)


@given(request=likelihood)
@FEW
async def test_any_likelihood_request_is_answered_or_refused(request: model.LikelihoodRequest) -> None:
    await ask("likelihood", request)


@given(request=generate, cut=st.integers(0, 400), put=st.binary(max_size=4), method=st.sampled_from(["g", "l"]))
@FEW
async def test_damaged_bytes_are_no_message_or_a_checked_one(
    request: model.GenerateRequest, cut: int, put: bytes, method: str
) -> None:
    data = request.SerializeToString()
    damaged = data[:cut] + put + data[cut + len(put) :]
    kind, name = (model.GenerateRequest, "generate") if method == "g" else (model.LikelihoodRequest, "likelihood")
    try:
        parsed = kind.FromString(damaged)
    except DecodeError:
        return
    await ask(name, parsed)


def _files() -> list[bytes]:
    files = []
    for form, mode in (("PNG", "RGB"), ("PNG", "P"), ("PNG", "I;16"), ("JPEG", "RGB"), ("JPEG", "CMYK"), ("GIF", "P"),
                       ("WEBP", "RGBA"), ("BMP", "RGB"), ("TIFF", "L"), ("TIFF", "F")):  # fmt: skip
        image = Image.new(mode, (9, 7))
        out = io.BytesIO()
        exif = Image.Exif()
        exif[0x0112] = 6
        image.save(out, form, **({"exif": exif} if form in ("PNG", "JPEG", "WEBP") else {}))
        files.append(out.getvalue())
    return files


changes = st.lists(st.tuples(st.integers(0, 400), st.binary(min_size=1, max_size=4)), min_size=1, max_size=5)


def decodes(data: bytes) -> bool:
    """Returns True for an image; the only other allowed outcome is `InvalidRequest`."""
    try:
        image = images.decode(data, max_pixels=1_000_000)
    except InvalidRequest as error:
        one_line(error, "bad_image", "image_too_large")
        return False
    assert image.mode == "RGB"
    assert image.width * image.height <= 1_000_000
    return True


@given(file=st.sampled_from(_files()), changes=changes, cut=st.none() | st.integers(0, 400))
@settings(max_examples=600, deadline=5_000)
def test_damaged_images_are_images_or_refused(file: bytes, changes: list[tuple[int, bytes]], cut: int | None) -> None:
    data = bytearray(file[:cut])
    for offset, put in changes:
        offset %= max(1, len(data))
        data[offset : offset + len(put)] = put
    decodes(bytes(data))


def _exif(order: str, entries: list[tuple[int, int, int, int]], tail: bytes) -> bytes:
    mark = b"II*\0" if order == "<" else b"MM\0*"
    written = [struct.pack(order + "HHII", *entry) for entry in entries]
    return mark + struct.pack(order + "IH", 8, len(entries)) + b"".join(written) + tail


entries = st.tuples(
    st.sampled_from([0x0112, 0x010F, 0x0201, 0x8769, 0x8825, 0x9286, 0xA005, 700]) | st.integers(0, 2**16 - 1),
    st.integers(0, 14),
    st.sampled_from([1, 1, 2, 9, 2**31]),
    st.integers(0, 9) | st.sampled_from([6 << 16, 20, 2**31]),
)
exifs = st.binary(max_size=60) | st.builds(
    _exif, st.sampled_from("<>"), st.lists(entries, max_size=5), st.binary(max_size=30)
)


@given(exif=exifs, form=st.sampled_from(["JPEG", "PNG", "WEBP"]))
@settings(max_examples=500, deadline=5_000)
def test_no_exif_makes_an_image_unreadable(exif: bytes, form: str) -> None:
    out = io.BytesIO()
    Image.new("RGB", (9, 7), "red").save(out, form, exif=b"Exif\0\0" + exif)
    assert images.decode(out.getvalue()).size in ((9, 7), (7, 9))
    assert images.media_type(out.getvalue()) == f"image/{form.lower()}"


@given(head=st.sampled_from([b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF89a", b"RIFF\0\0\0\0WEBPVP8 ", b"BM", b"II*\0",
                             b"MM\0*", b"\0\0\0\x0cjP  ", b"8BPS", b"qoif", b"\0\0\1\0", b"P6 "]),
       tail=st.binary(max_size=80))  # fmt: skip
@settings(max_examples=300, deadline=5_000)
def test_a_known_beginning_is_not_enough(head: bytes, tail: bytes) -> None:
    decodes(head + tail)
    try:
        assert "/" in images.media_type(head + tail)
    except InvalidRequest as error:
        one_line(error, "bad_image")


EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n(/tmp/x) (w) file\nshowpage\n%%EOF\n"


@pytest.mark.parametrize("data", [EPS, b"\xd7\xcd\xc6\x9a" + bytes(40), b"%PDF-1.4\n"], ids=["eps", "wmf", "pdf"])
def test_programs_are_no_images(data: bytes) -> None:
    # Pillow would hand PostScript to an interpreter that it finds on the path.
    with pytest.raises(InvalidRequest, match="no image format"):
        images.decode(data)
    with pytest.raises(InvalidRequest, match="no image format"):
        images.media_type(data)
