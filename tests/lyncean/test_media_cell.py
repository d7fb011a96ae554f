"""A clip that breaks its decoder takes a cell alone: it is refused in one line, and the next one is read."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.clips import audio, shown, video
from helpers.engine_cluster import Cluster, Server
from helpers.media_functions import clip

from lyncean.cell import LAYERS, Cell, CellError
from lyncean.media import cell, clips
from lyncean.media.containers import MAX_FRAME
from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import InvalidRequest
from model_server.clips import decode_audio, decode_video
from orchestrator.engine.check import check_clip
from orchestrator.samples import BadRowError

FOUR = model.FrameSampling(count=4)


@pytest.fixture
def decoders(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Decoders with flaws, in cells that have a second."""
    monkeypatch.setattr(cell, "SETUP", "helpers.media_functions:setup")
    monkeypatch.setattr(cell, "SECONDS", 1.0)
    monkeypatch.setattr(cell, "_POOL", cell._Pool())
    yield monkeypatch
    cell._POOL.close()


@pytest.fixture(scope="module")
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0)
        yield server


@pytest.mark.skipif(sys.platform != "linux", reason="cells are closed by Linux: run the tests there")
def test_a_cell_of_media_is_closed_and_has_no_other_packages() -> None:
    with cell._POOL.taken() as taken, cell.memory(audio()) as descriptor:
        facts = taken.call("facts", "audio", descriptors=[descriptor])
        assert facts["value"]["rate"] == 8000
        assert taken.layers == LAYERS
    code = (
        "import sys\nfrom lyncean.cell import child\nfrom lyncean.media.cell import setup\nsetup()\n"
        "print({name.partition('.')[0] for name in sys.modules} & {'grpc', 'torch', 'google', 'orchestrator',"
        " 'model_server', 'PIL', 'msgspec'})"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


@pytest.mark.parametrize(
    ("deed", "argument", "message"),
    [
        ("abort", "", "its decoder failed: it was ended by SIGABRT"),
        ("segfault", "", "its decoder failed: it was ended by SIGSEGV"),
        ("loop", "", "its decoder was ended: it took longer than 1 second"),
        ("allocate", 8 << 30, "its decoder failed: MemoryError (it may take 4,096 MiB of memory)"),
        ("opens", "secret", "its decoder failed: it tried what it may not (file): PermissionError"),
        ("connects", "port", "its decoder failed: it tried what it may not (network): PermissionError"),
    ],
)
def test_a_decoder_in_the_hands_of_its_file_is_one_refused_clip(
    decoders: pytest.MonkeyPatch, listening: socket.socket, tmp_path: Path, deed: str, argument: Any, message: str
) -> None:
    (tmp_path / "secret").write_text("hf_secret")
    argument = {"secret": tmp_path / "secret", "port": listening.getsockname()[1]}.get(argument, argument)
    hostile = clip(deed, argument)
    with pytest.raises(InvalidRequest) as refused:
        decode_video(model.Video(data=hostile), FOUR)
    assert refused.value.reason == "bad_video"
    with pytest.raises(InvalidRequest) as unheard:
        decode_audio(model.Audio(data=hostile))
    assert unheard.value.reason == "bad_audio"
    with pytest.raises(BadRowError) as rejected:
        check_clip("video", hostile)
    assert rejected.value.reason == "bad_video"
    for caught in (refused, unheard, rejected):
        assert f"cannot be decoded: {message}" in str(caught.value)
        assert "hf_secret" not in str(caught.value)
        assert "\n" not in str(caught.value)
    with pytest.raises(BlockingIOError):
        listening.accept()
    decoders.setattr(cell, "SECONDS", 60.0)
    assert [shown(image) for image in decode_video(model.Video(data=video()), FOUR).images] == [0, 3, 6, 9]
    assert len(decode_audio(model.Audio(data=audio())).samples) == 8000


_SERVER = """
from lyncean.media import cell
cell.SETUP, cell.SECONDS = "helpers.media_functions:setup", 2.0
from helpers.counting_server import Counting, main
main(Counting)
"""


def test_a_server_refuses_each_and_goes_on(cluster: Cluster, tmp_path: Path) -> None:
    import grpc

    from lyncean.model.v1 import model_pb2_grpc

    server = Server(tmp_path / "server", [sys.executable, "-c", _SERVER]).start()
    cluster.servers.append(server)
    hostile = [clip("abort"), clip("segfault"), clip("loop"), clip("allocate", 8 << 30), clip("opens", "/etc/passwd")]
    with grpc.insecure_channel(server.address) as channel:
        stub = model_pb2_grpc.ModelServiceStub(channel)

        def reply_to(data: bytes) -> str:
            message = model.Message(role=model.ROLE_USER)
            message.parts.add(video=model.Video(data=data, sampling=FOUR))
            try:
                return stub.Generate(model.GenerateRequest(messages=[message]), timeout=60).parts[0].text
            except grpc.RpcError as error:
                return f"{error.code().name}: {error.details()}"

        for data in hostile:
            assert reply_to(data).startswith("INVALID_ARGUMENT: video 0 cannot be decoded: its decoder ")
            assert reply_to(video()) == "video 0,3,6,9"


TRACK = {"count": 2, "base": [1, 5], "rate": [5, 1], "width": 64, "height": 48}
FACTS = {"duration": 1.0, "rate": 5.0, "width": 64, "height": 48, "container": "mp4"}
WRONG_TRACKS = [
    None, [], {"value": None}, {"value": {**TRACK, "count": 3}}, {"value": {**TRACK, "count": 1 << 60}},
    {"value": {**TRACK, "count": -2}}, {"value": {**TRACK, "base": [1, 0]}}, {"value": {**TRACK, "rate": [0, 1]}},
    {"value": {**TRACK, "width": 1 << 40}}, {"value": {**TRACK, "height": "48"}}, {"value": TRACK},
]  # fmt: skip
"""The last one's stamps are two zeros."""
WRONG_FRAMES = [None, [[2, 2]], [[2, 2], [2, 2]], [[1, MAX_FRAME + 1]] * 2, [[-4, -2], [4, 2]], [["2", 2]] * 2, [[2]]]


@pytest.fixture
def forged(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def forge(results: dict[str, Any], size: int = 16) -> None:
        cells = cell._Pool()
        monkeypatch.setattr(cell, "_POOL", cells)
        cells._idle.append(Cell("helpers.media_functions:forging", {"results": results, "size": size}))

    return forge


@pytest.mark.parametrize("track", WRONG_TRACKS)
def test_a_track_is_taken_as_far_as_it_can_be_true(forged: Callable[..., None], track: Any) -> None:
    forged({"track": track})
    with pytest.raises(InvalidRequest, match=r"the video cannot be decoded: its (decoder broke|frames have no order)"):
        decode_video(model.Video(data=b"any"), FOUR)
    cell._POOL.close()


@pytest.mark.parametrize("frames", WRONG_FRAMES)
def test_frames_are_as_large_as_what_was_written(forged: Callable[..., None], frames: Any) -> None:
    forged({"frames": {"value": frames}})
    with pytest.raises(ValueError, match="its decoder broke"):
        cell.read_frames(b"any", [0, 1], 1 << 30)
    cell._POOL.close()


def test_facts_and_samples_are_taken_as_far_as_they_can_be_true(forged: Callable[..., None]) -> None:
    forged({"facts": {"value": {**FACTS, "width": 1 << 30}}, "samples": {"value": [5, 8000]}})
    with pytest.raises(ValueError, match="its decoder broke"):
        cell.read_facts("video", b"any")
    with pytest.raises(ValueError, match="its decoder broke"):
        cell.read_samples(b"any")  # five are not 16 bytes
    with pytest.raises(ValueError, match="its decoder broke"):
        cell.read_samples(b"any", 4)
    cell._POOL.close()


def test_what_a_cell_writes_later_is_not_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shared memory is sealed: it neither shrinks nor changes, and this process may write to its copy."""
    with cell.memory(b"12345678") as descriptor:
        taken = np.frombuffer(cell.taken(descriptor, 8, 8), np.uint8)
        for change in (lambda: os.ftruncate(descriptor, 0), lambda: os.pwrite(descriptor, b"x", 0)):
            with pytest.raises(PermissionError):
                change()
    assert taken.flags.writeable
    assert taken.tobytes() == b"12345678"


def test_frames_that_grow_behind_their_header_are_counted() -> None:
    data = video(4)
    track = cell.read_track(data)
    assert len(cell.read_frames(data, track.stamps, 4 * 64 * 48)) == 4
    with pytest.raises(ValueError, match="its frames have more than 12,287 pixels"):
        cell.read_frames(data, track.stamps, 4 * 64 * 48 - 1)


def test_clips_are_what_they_are_without_a_cell() -> None:
    film, sound = video(), audio(2.0, 16_000, form="flac", codec="flac")
    assert cell.read_facts("video", film) == clips.read_facts("video", film)
    assert cell.read_track(film) == clips.read_track(film)
    stamps = cell.read_track(film).stamps[::3]
    for ours, reference in zip(cell.read_frames(film, stamps, 1 << 30), clips.read_frames(film, stamps), strict=True):
        assert np.array_equal(ours, reference)
    (ours, rate), (reference, expected) = cell.read_samples(sound), clips.read_samples(sound)
    assert rate == expected
    assert np.array_equal(ours, reference)


def test_threads_have_cells_of_their_own(decoders: pytest.MonkeyPatch) -> None:
    decoders.setattr(cell, "SECONDS", 60.0)
    most = cell._POOL._room._value
    film, indices, idle = video(), [], []

    def decode() -> None:
        for _ in range(5):
            indices.append([shown(image) for image in decode_video(model.Video(data=film), FOUR).images])
        idle.append(len(cell._POOL._idle))

    threads = [threading.Thread(target=decode) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert indices == [[0, 3, 6, 9]] * 30
    assert 1 <= max(idle) <= most <= cell.MOST_CELLS


def test_a_clip_is_not_refused_for_a_cell_that_ended_before(decoders: pytest.MonkeyPatch) -> None:
    decoders.setattr(cell, "SECONDS", 60.0)
    assert cell.damage("video", video()) == ""
    (idle,) = cell._POOL._idle
    assert idle._process is not None
    os.kill(idle._process.pid, signal.SIGKILL)
    idle._process.wait()
    assert cell.damage("video", video()) == ""


def test_a_cell_that_does_not_start_is_no_fault_of_a_clip(decoders: pytest.MonkeyPatch) -> None:
    decoders.setattr(cell, "SETUP", "helpers.cell_functions:failing")
    with pytest.raises(CellError, match="No module named 'nowhere_at_all'"):
        check_clip("video", video())


def test_a_process_that_is_made_of_this_one_has_its_own_cells() -> None:
    assert cell.damage("audio", audio()) == ""
    child = os.fork()
    if not child:
        try:
            code = 1 if cell._POOL._idle or cell.damage("audio", audio()) else 0
            cell._POOL.close()
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert cell.damage("audio", audio()) == ""


def test_clips_are_decoded_where_the_system_has_no_files_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on macOS."""
    film, sound = video(), audio()
    expected = [shown(image) for image in decode_video(model.Video(data=film), FOUR).images]
    monkeypatch.delattr(os, "memfd_create")
    assert [shown(image) for image in decode_video(model.Video(data=film), FOUR).images] == expected
    assert len(decode_audio(model.Audio(data=sound)).samples) == 8000
    with pytest.raises(InvalidRequest, match="the video cannot be decoded"):
        decode_video(model.Video(data=film[:500]), FOUR)
    with cell.memory(b"1234") as descriptor, pytest.raises(ValueError, match="its decoder broke"):
        cell.taken(descriptor, 5, 5)
