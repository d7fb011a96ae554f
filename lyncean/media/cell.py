"""Decodes foreign audio and video files in cells: a file that breaks its decoder breaks one cell, and is refused.

Files, samples and frames travel through shared memory; a cell's reply is checked against the limits. Up to four cells
work at a time; they start on first use and restart after a failure.
"""

from __future__ import annotations

import atexit
import fcntl
import math
import mmap
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeVar

from lyncean.errors import UserError
from lyncean.media import clips
from lyncean.media.clips import DAMAGE, Facts, Track, cause
from lyncean.media.containers import MAX_FRAME, MAX_SAMPLES, TooLongError
from lyncean.media.types import Kind

# Imported on use: most processes never see a clip.
if TYPE_CHECKING:
    import numpy as np

    from lyncean.cell import Cell, CellError

MEMORY = 4 << 30
"""Memory in bytes for decoding a file, besides its result."""
SECONDS = 900.0
"""Processor time in seconds for decoding a file."""
SETUP = f"{__name__}:setup"
MOST_CELLS = 4

_LARGEST = 3 << 30
"""Bytes of the largest file that a cell writes: `MAX_SAMPLES` of four bytes each, and one frame of them."""
_SAMPLE, _STAMP = 4, 8
_SEALS = ("F_SEAL_SHRINK", "F_SEAL_GROW", "F_SEAL_WRITE", "F_SEAL_SEAL")


def read_facts(kind: Kind, data: bytes) -> Facts:
    """Reads the header of a file and decodes its beginning.

    Raises:
        UserError: PyAV is not installed, or no cell starts.
        Exception: One of `DAMAGE`.
    """
    with memory(data) as file:
        reply = _called("facts", kind, descriptors=[file])
    return typed(reply, _facts)


def damage(kind: Kind, data: bytes) -> str:
    """Returns why an audio or video file cannot be decoded, "" if its header and beginning can."""
    try:
        read_facts(kind, data)
    except DAMAGE as error:
        return f"it cannot be decoded: {cause(kind, error)}"
    return ""


def read_samples(data: bytes, most: int = MAX_SAMPLES) -> tuple[np.ndarray[Any, np.dtype[np.float32]], int]:
    """Decodes a file's first track.

    Args:
        data: The file's bytes.
        most: Limit on the samples that it announces or has.

    Returns:
        The mean of its channels, [samples], between -1 and 1, and the samples per second.

    Raises:
        UserError: PyAV is not installed, or no cell starts.
        TooLongError: It has more samples.
        Exception: One of `DAMAGE`.
    """
    import numpy as np

    with memory(data) as file, memory() as result:
        reply = _called("samples", most, descriptors=[file, result])
        count, rate = typed(reply, lambda value: (whole(value[0], 1), whole(value[1], 1)))
        return np.frombuffer(taken(result, count * _SAMPLE, most * _SAMPLE), np.float32), rate


def read_track(data: bytes) -> Track:
    """Reads the frame times of a file's first video track; errors as in `read_facts`."""
    import numpy as np

    with memory(data) as file, memory() as result:
        reply = _called("track", descriptors=[file, result])
        count, base, rate, width, height = typed(reply, _track)
        stamps = np.frombuffer(taken(result, count * _STAMP, _LARGEST), np.int64)
    if (stamps[1:] <= stamps[:-1]).any():
        raise ValueError("its frames have no order")
    return Track(stamps.tolist(), base, rate, width, height)


def read_frames(data: bytes, stamps: Sequence[int], most: int) -> list[np.ndarray[Any, np.dtype[np.uint8]]]:
    """Decodes the frames at the given times, upright, each [height, width, 3].

    Args:
        data: The file's bytes.
        stamps: Some of `Track.stamps`, ascending.
        most: Limit on the pixels of all frames together.

    Raises:
        UserError: PyAV is not installed, or no cell starts.
        Exception: One of `DAMAGE`.
    """
    import numpy as np

    with memory(data) as file, memory() as result:
        reply = _called("frames", stamps, most, descriptors=[file, result])
        shapes = typed(reply, lambda value: [(whole(h, 1), whole(w, 1)) for h, w in value])
        sizes = [3 * height * width for height, width in shapes]
        if len(shapes) != len(stamps) or max(sizes, default=0) > 3 * MAX_FRAME:
            raise ValueError(BROKEN)
        pixels = np.frombuffer(taken(result, sum(sizes), 3 * most), np.uint8)
    images, offset = [], 0
    for (height, width), size in zip(shapes, sizes, strict=True):
        images.append(pixels[offset : offset + size].reshape(height, width, 3))
        offset += size
    return images


BROKEN = "its decoder broke"
_Value = TypeVar("_Value")


def typed(value: Any, read: Callable[[Any], _Value]) -> _Value:
    """Parses a cell's reply without trusting it: a hostile file may control its decoder."""
    try:
        return read(value)
    except (TypeError, ValueError, LookupError, ArithmeticError) as error:
        raise ValueError(BROKEN) from error


def whole(value: Any, least: int) -> int:
    """Returns a value if it is an integer of at least `least`; else raises ValueError."""
    if not isinstance(value, int) or value < least:
        raise ValueError(value)
    return value


def _pixels(value: Any, least: int) -> int:
    """Returns the width, after a check of the pixels of a frame."""
    width, height = whole(value["width"], least), whole(value["height"], least)
    if width * height > MAX_FRAME:
        raise ValueError(width)
    return width


def _facts(value: Any) -> Facts:
    duration, rate = float(value["duration"]), float(value["rate"])
    if not (math.isfinite(duration) and math.isfinite(rate)):
        raise ValueError(duration)
    return Facts(duration, rate, _pixels(value, 0), whole(value["height"], 0), str(value["container"]))


def _track(value: Any) -> tuple[int, Fraction, Fraction, int, int]:
    base, rate = (Fraction(*map(int, value[name])) for name in ("base", "rate"))
    if base <= 0 or rate <= 0:
        raise ValueError(base)
    return whole(value["count"], 1), base, rate, _pixels(value, 0), whole(value["height"], 0)


@contextmanager
def memory(data: bytes = b"") -> Iterator[int]:
    """Yields the descriptor of a file in memory, or of an unnamed file on systems without memfd."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("clip", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    else:
        import tempfile

        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(data)
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield descriptor
    finally:
        os.close(descriptor)


def taken(descriptor: int, size: int, most: int) -> mmap.mmap | bytes:
    """Maps the file that a cell wrote, copy on write.

    Seals the file first: a process is killed when it reads a mapping whose file has shrunk.
    """
    if size > most:
        raise ValueError(BROKEN)
    if not hasattr(os, "memfd_create"):
        os.lseek(descriptor, 0, os.SEEK_SET)
        with open(descriptor, "rb", closefd=False) as file:
            content = file.read(size)
        if len(content) != size:
            raise ValueError(BROKEN)
        return content
    try:
        seals = sum(getattr(fcntl, name) for name in _SEALS)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
    except OSError as error:
        raise ValueError(BROKEN) from error
    if os.fstat(descriptor).st_size != size:
        raise ValueError(BROKEN)
    return mmap.mmap(descriptor, size, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)


def _called(name: str, *arguments: Any, descriptors: Sequence[int]) -> Any:
    _check_installed()
    return called(name, *arguments, descriptors=descriptors)


def called(name: str, *arguments: Any, descriptors: Sequence[int]) -> Any:
    """Calls a function of a cell; raises the failure that it reports."""
    from lyncean.cell import CellError, StartError

    try:
        with _POOL.taken() as cell:
            reply = cell.call(name, *arguments, seconds=SECONDS, descriptors=descriptors)
    except StartError:
        raise
    except CellError as error:
        raise ValueError(_words(error)) from None
    if not isinstance(reply, dict):
        raise ValueError(BROKEN)
    if "too_long" in reply:
        raise TooLongError(str(reply["too_long"]))
    if "damage" in reply:
        raise ValueError(str(reply["damage"]))
    return reply.get("value")


def _words(error: CellError) -> str:
    match error.limit:
        case "memory":
            return f"its decoder failed: {error} (it may take {MEMORY >> 20:,} MiB of memory)"
        case "cpu":
            return f"its decoder was ended: it took longer than {SECONDS:,.0f} seconds"
        case "":
            return f"its decoder failed: {error}"
        case limit:
            return f"its decoder failed: it tried what it may not ({limit}): {error}"


def _check_installed() -> None:
    from importlib.util import find_spec

    if not find_spec("av"):
        raise UserError(clips.NOT_INSTALLED)


class _Pool:
    """Cells of this process; a call has one to itself."""

    def __init__(self) -> None:
        usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self._room = threading.Semaphore(min(MOST_CELLS, usable))
        self._idle: list[Cell] = []

    @contextmanager
    def taken(self) -> Iterator[Cell]:
        """Waits for a free cell and yields it, the one last used if possible."""
        from lyncean.cell import Cell, Fence

        with self._room:
            try:
                cell = self._idle.pop()
            except IndexError:
                cell = Cell(SETUP, fence=Fence(memory=MEMORY, file_size=_LARGEST), layers=())
            try:
                yield cell
            except BaseException:
                cell.close()  # after a failure, or Ctrl-C during a call, its state is unknown
                raise
            self._idle.append(cell)

    def close(self) -> None:
        """Ends the idle cells."""
        while self._idle:
            self._idle.pop().close()


_POOL = _Pool()


def _renew() -> None:
    """Leaves the cells to the parent after a fork."""
    global _POOL
    _POOL = _Pool()


atexit.register(lambda: _POOL.close())
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)


def setup() -> dict[str, Callable[..., Any]]:
    """Returns the functions of a cell, which read one descriptor and write large results to another."""
    from importlib.util import find_spec

    if find_spec("av"):
        import av  # noqa: F401

    from lyncean.arrays import np

    def facts(file: int, kind: Kind) -> Any:
        values = clips.read_facts(kind, content(file))
        return {name: getattr(values, name) for name in Facts.__slots__}

    def samples(file: int, result: int, most: int) -> Any:
        with open(result, "wb", buffering=1 << 20, closefd=False) as target:
            return clips.write_samples(content(file), target.write, most)

    def track(file: int, result: int) -> Any:
        read = clips.read_track(content(file))
        with open(result, "wb", closefd=False) as target:
            target.write(np.array(read.stamps, np.int64).tobytes())
        fractions = {"base": read.base.as_integer_ratio(), "rate": read.rate.as_integer_ratio()}
        return {"count": len(read.stamps), "width": read.width, "height": read.height, **fractions}

    def frames(file: int, result: int, stamps: list[int], most: int) -> Any:
        shapes, left = [], most
        with open(result, "wb", closefd=False) as target:
            for image in clips.read_frames(content(file), stamps):
                height, width = image.shape[:2]
                left -= height * width
                if left < 0:
                    raise ValueError(f"its frames have more than {most:,} pixels")
                target.write(image.data)
                shapes.append((height, width))
        return shapes

    return {
        "facts": _told(None, facts),
        "samples": _told("audio", samples),
        "track": _told("video", track),
        "frames": _told("video", frames),
        "picture_header": _picture("picture_header"),
        "picture": _picture("picture"),
    }


def _picture(name: str) -> Callable[..., Any]:
    def read(file: int, *arguments: Any) -> Any:
        from lyncean.media import decoded_pictures  # many cells never see an image

        return {"value": getattr(decoded_pictures, name)(content(file), *arguments)}

    return read


def content(file: int) -> bytes:
    """Returns the content of a file."""
    with open(file, "rb", closefd=False) as source:
        return source.read()


def _told(kind: Kind | None, function: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a function to report damaged files as values; limits of the cell still raise."""

    def called(*arguments: Any) -> Any:
        try:
            return {"value": function(*arguments)}
        except TooLongError as error:
            return {"too_long": str(error)}
        except (MemoryError, PermissionError):
            raise
        except DAMAGE as error:
            return {"damage": cause(kind or arguments[1], error)}

    return called
