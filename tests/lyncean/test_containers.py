"""Sizes in a file's headers are checked against its bytes before FFmpeg allocates; valid files are read."""

from __future__ import annotations

import contextlib
import io
import struct
import wave as wave_files
from pathlib import Path

import av
import pytest
from helpers import bombs
from helpers.bombs import box, full, u32
from helpers.clips import audio, video
from hypothesis import given, settings, strategies as st

from lyncean.media import Kind
from lyncean.media.clips import DAMAGE, damage, open_clip, read_facts
from lyncean.media.containers import MAX_FRAMES, MAX_SAMPLES, checked

MANY = 50_000_000
CTTS = full(b"ctts", u32(1, MANY, 0))
ONE_SIZE = {"stsz": u32(1, MANY), "stts": u32(1, MANY, 1), "stsc": u32(1, 1, MANY, 1)}

VIDEOS: dict[str, tuple[bytes, str]] = {
    "mp4: one size": (bombs.mp4(**ONE_SIZE), "50,000,000 samples"),
    "mp4: durations": (bombs.mp4(stts=u32(1, MANY, 2)), "50,000,000 samples"),
    "mp4: offsets": (bombs.mp4(tables=CTTS), "50,000,000 samples"),
    "mp4: groups": (bombs.mp4(tables=full(b"sbgp", b"sync", u32(1, MANY, 1))), "50,000,000 samples"),
    "mp4: entries": (bombs.mp4(stts=u32(MANY, 10, 1)), "stts announces 50,000,000 entries"),
    "mp4: chunks": (bombs.mp4(tables=full(b"co64", u32(MANY))), "co64 announces 50,000,000 entries"),
    "mp4: fragment": (bombs.fragmented(MANY), "50,000,002 samples"),
    "mp4: edits": (bombs.edited(20_000, 2000), "40,000,000 samples"),
    "mp4: 64-bit box": (bombs.mp4(tables=u32(1) + b"ctts" + struct.pack(">Q", 32) + CTTS[8:]), "50,000,000 samples"),
    "mp4: moov in free": (bombs.mp4(tables=CTTS).replace(b"moov", b"free"), "50,000,000 samples"),
    "mp4: behind a large description": (
        bombs.mp4(tables=CTTS).replace(u32(86) + b"mp4v", u32(1 << 30) + b"mp4v"), "larger than its box",
    ),
    "mov: one size": (bombs.mp4(**ONE_SIZE, brand=b"qt  "), "50,000,000 samples"),
    "mov: compressed header": (bombs.compressed(1 << 30), "compressed"),
    "avif": (bombs.still(200_000_000), "a still image"),
    "webm: compressed blocks": (bombs.matroska(100, 9_000_000), "compressed"),
    "webm: duration": (bombs.webm(video(form="webm", codec="libvpx"), 1e12), "5,000,000,000 samples"),
    "gif": (bombs.gif(16_000, 16_000), "256,000,000 pixels, the limit is 36,000,000"),
    "avi": (bombs.avi(video(form="avi", codec="mpeg4"), 4_000_000_000), "4,000,000,000 samples"),
}  # fmt: skip
AUDIO: dict[str, tuple[bytes, str]] = {
    "mov: uncompressed": (
        bombs.mp4(handler=b"soun", stts=u32(1, 10, 1), stsc=u32(1, 1, 0x7FFFFFFF, 1)), "13,421,773 samples",
    ),
    "mov: uncompressed with offsets": (
        bombs.mp4(handler=b"soun", stsz=u32(1, MANY), stts=u32(1, MANY, 1), tables=CTTS), "50,000,000 samples",
    ),
    "wav: 1 Hz": (bombs.wave(1, 100_000), "its rate is 1 Hz"),
    "wav: 4 GHz": (bombs.wave(4_000_000_000, 100_000), "its rate is 4,000,000,000 Hz"),
    "flac": (bombs.flac((1 << 36) - 1), "68,719,476,735 samples, the limit is 691,200,000"),
    "ogg": (bombs.ogg(audio(1.0, 48_000, form="ogg", codec="libopus"), 1 << 40), "samples, the limit is 691,200,000"),
    "flac: 1 Hz": (bombs.flac(1000, 1), "its rate is 1 Hz"),
}  # fmt: skip
ALL: list[tuple[Kind, str]] = [*(("video", name) for name in VIDEOS), *(("audio", name) for name in AUDIO)]


@pytest.mark.parametrize(("kind", "name"), ALL)
def test_what_announces_more_than_it_holds_is_refused_in_little_memory(kind: Kind, name: str, tmp_path: Path) -> None:
    data, message = VIDEOS[name] if kind == "video" else AUDIO[name]
    (tmp_path / "bomb").write_bytes(data)
    result, grown = bombs.grown(tmp_path / "bomb", "from lyncean.media.clips import damage", f"damage({kind!r}, data)")
    assert result.startswith("it cannot be decoded: ")
    assert message in result
    assert "\n" not in result
    assert grown < bombs.LIMIT


@pytest.mark.parametrize("name", ["mp4: one size", "wav: 1 Hz", "wav: 4 GHz", "webm: compressed blocks", "gif"])
def test_a_server_refuses_them_alike(name: str, tmp_path: Path) -> None:
    data, message = VIDEOS.get(name) or AUDIO[name]
    (tmp_path / "bomb").write_bytes(data)
    imports = (
        "import av, numpy\nfrom lyncean.model.v1 import model_pb2 as model\n"
        "from model_server.clips import decode_audio, decode_video"
    )
    call = "decode_audio(model.Audio(data=data), 16_000)"
    if name in VIDEOS:
        call = "decode_video(model.Video(data=data), model.FrameSampling(count=4))"
    result, grown = bombs.grown(tmp_path / "bomb", imports, call)
    assert result.startswith("InvalidRequest: the ")
    assert message in result
    assert grown < bombs.LIMIT


def test_files_behind_a_tag_are_read() -> None:
    """An ID3 tag says nothing of what follows: FLAC and MP3 have it before them, and its own length decides."""
    tag = b"ID3\4\0\0\0\0\1\2" + bytes(130)
    for form, codec in (("flac", "flac"), ("mp3", "libmp3lame")):
        sound = audio(0.5, 16_000, form=form, codec=codec)
        assert read_facts("audio", tag + tag + sound) == read_facts("audio", sound)
    assert "691,200,000" in damage("audio", tag + bombs.flac(1 << 35))


def moved(path: Path, movflags: str) -> bytes:
    """A video with its tables in front, or in fragments."""
    options = {"movflags": movflags}
    with av.open(io.BytesIO(video(20, 5))) as source, av.open(str(path), "w", format="mp4", options=options) as target:
        stream = target.add_stream_from_template(source.streams.video[0])
        for packet in source.demux(video=0):
            if packet.dts is not None:
                packet.stream = stream
                target.mux(packet)
    return path.read_bytes()


@pytest.mark.parametrize("movflags", ["faststart", "frag_keyframe+empty_moov", "frag_every_frame+dash"])
def test_valid_videos_are_read_wherever_their_tables_stand(movflags: str, tmp_path: Path) -> None:
    data = moved(tmp_path / "film.mp4", movflags)
    with open_clip("video", data) as clip:
        assert sum(1 for _ in clip.decode(video=0)) == 20


VALID: list[tuple[Kind, str, str]] = [
    *(("video", form, codec) for form, codec in (
        ("mp4", "libx264"), ("mov", "mpeg4"), ("matroska", "ffv1"), ("webm", "libvpx"), ("avi", "mpeg4"),
        ("mpegts", "mpeg2video"), ("vob", "mpeg2video"), ("flv", "flv"), ("asf", "wmv2"), ("ivf", "libvpx"),
        ("h264", "libx264"), ("m4v", "mpeg4"),
    )),
    *(("audio", form, codec) for form, codec in (
        ("wav", "pcm_s16le"), ("w64", "pcm_s16le"), ("aiff", "pcm_s16be"), ("au", "pcm_s16be"), ("flac", "flac"),
        ("mp2", "mp2"), ("mov", "pcm_s16be"), ("wav", "adpcm_ms"), ("avi", "pcm_s16le"), ("mov", "pcm_mulaw"),
    )),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "form", "codec"), VALID)
def test_valid_files_of_all_formats_are_read_as_before(kind: Kind, form: str, codec: str) -> None:
    data = video(10, 5, form=form, codec=codec) if kind == "video" else audio(2.0, 16_000, form=form, codec=codec)
    with av.open(io.BytesIO(data)) as plain, open_clip(kind, data) as clip:
        assert clip.format.name == plain.format.name
        assert [frame.pts for frame in clip.decode(**{kind: 0})] == [frame.pts for frame in plain.decode(**{kind: 0})]


def test_limits_are_those_of_files_as_they_are() -> None:
    """Ten minutes of uncompressed QuickTime, silence of an hour, and a header of a stream whose end was not known."""
    steps = u32(1, 28_800_000, 1)
    sound = bombs.mp4(handler=b"soun", stsz=u32(1, 28_800_000), stts=steps, stsc=u32(1, 1, 28_800_000, 1))
    checked(sound)
    checked(bombs.flac(MAX_SAMPLES))
    checked(bombs.mp4(stsz=u32(1, MAX_FRAMES), stts=u32(1, MAX_FRAMES, 1), stsc=u32(1, 1, MAX_FRAMES, 1)))
    checked(bombs.matroska(1, 100, algorithm=3))
    buffer = io.BytesIO()
    with wave_files.open(buffer, "wb") as file:
        file.setparams((1, 2, 16_000, 0, "NONE", ""))
        file.writeframes(bytes(32_000))
    endless = bytearray(buffer.getvalue())
    endless[40:44] = b"\xff\xff\xff\xff"
    assert read_facts("audio", bytes(endless)).duration == 1


def test_playlists_and_other_formats_are_not_opened(tmp_path: Path) -> None:
    """FFmpeg would open the files and addresses that a playlist names."""
    (tmp_path / "film.ts").write_bytes(video(form="mpegts", codec="mpeg2video"))
    playlist = f"#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXTINF:2,\nfile://{tmp_path}/film.ts\n#EXT-X-ENDLIST\n"
    assert "cannot be decoded" in damage("video", playlist.encode())
    assert damage("video", video(form="nut", codec="ffv1")) == "it cannot be decoded: it is in no format that is read"


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_damaged_headers_are_read_or_refused(data: st.DataObject) -> None:
    whole = bytearray(data.draw(st.sampled_from([media for media, _ in [*VIDEOS.values(), *AUDIO.values()]]))[:4000])
    for _ in range(data.draw(st.integers(0, 8))):
        offset = data.draw(st.integers(0, len(whole) - 1))
        whole[offset : offset + 4] = data.draw(
            st.sampled_from([u32(0), u32(1), u32(8), u32(0xFFFFFFFF), b"moov", b"stsd"])
        )
    cut = data.draw(st.integers(0, len(whole)))
    with contextlib.suppress(*DAMAGE):
        checked(bytes(whole[:cut]))


def test_boxes_without_end_are_left() -> None:
    nested = b""
    for _ in range(40):
        nested = box(b"moov", nested)
    with pytest.raises(ValueError, match="nested too deeply"):
        checked(box(b"ftyp", b"isom") + nested)
    with pytest.raises(ValueError, match="more than 1,000,000 boxes"):
        checked(box(b"ftyp", b"isom") + box(b"free") * 1_000_001)
