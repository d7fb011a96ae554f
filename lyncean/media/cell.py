"""Audio and video files of others, decoded in cells: one that breaks its decoder takes a cell alone, and is refused.

A file goes to its cell, and samples and frames come back, through memory that both have; of a cell's word, only what
fits the limits is taken. Up to four cells work at a time; they start on first use, and anew after a failure.
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

# Imported where they are used: most processes see no clip.
if TYPE_CHECKING:
    import numpy as np

    from lyncean.cell import Cell, CellError

MEMORY = 4 << 30
"""Bytes that decoding a file may take, beside what it is decoded to."""
SECONDS = 900.0
"""Processor time that decoding a file may take."""
SETUP = f"{__name__}:setup"
MOST_CELLS = 4

_LARGEST = 3 << 30
"""Bytes of the largest file that is written: `MAX_SAMPLES` of four bytes, and those of one frame."""
_SAMPLE, _STAMP = 4, 8
_SEALS = ("F_SEAL_SHRINK", "F_SEAL_GROW", "F_SEAL_WRITE", "F_SEAL_SEAL")


def read_facts(kind: Kind, data: bytes) -> Facts:
    """Reads the header of a file and decodes its beginning.

    Raises:
        UserError: PyAV is not installed, or no cell starts.
        Exception: One of `DAMAGE`.
    """
    with memory(data) as file:
        found = _called("facts", kind, descriptors=[file])
    return typed(found, _facts)


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
        The mean of its channels, [samples], between -1 and 1, and how many there are a second.

    Raises:
        UserError: PyAV is not installed, or no cell starts.
        TooLongError: It has more samples.
        Exception: One of `DAMAGE`.
    """
    import numpy as np

    with memory(data) as file, memory() as result:
        found = _called("samples", most, descriptors=[file, result])
        count, rate = typed(found, lambda said: (whole(said[0], 1), whole(said[1], 1)))
        return np.frombuffer(taken(result, count * _SAMPLE, most * _SAMPLE), np.float32), rate


def read_track(data: bytes) -> Track:
    """Reads which frames a file's first video track has; errors as in `read_facts`."""
    import numpy as np

    with memory(data) as file, memory() as result:
        found = _called("track", descriptors=[file, result])
        count, base, rate, width, height = typed(found, _track)
        stamps = np.frombuffer(taken(result, count * _STAMP, _LARGEST), np.int64)
    if (stamps[1:] <= stamps[:-1]).any():
        raise ValueError("its frames have no order")
    return Track(stamps.tolist(), base, rate, width, height)


def read_frames(data: bytes, stamps: Sequence[int], most: int) -> list[np.ndarray[Any, np.dtype[np.uint8]]]:
    """Decodes the frames of a file that are shown at these times, upright, each [height, width, 3].

    Args:
        data: The file's bytes.
        stamps: Some of `Track.stamps`, ascending.
        most: Limit on the pixels of all of them.

    Raises:
        UserError: PyAV is not installed, or no cell starts.
        Exception: One of `DAMAGE`.
    """
    import numpy as np

    with memory(data) as file, memory() as result:
        found = _called("frames", stamps, most, descriptors=[file, result])
        shapes = typed(found, lambda said: [(whole(h, 1), whole(w, 1)) for h, w in said])
        sizes = [3 * height * width for height, width in shapes]
        if len(shapes) != len(stamps) or max(sizes, default=0) > 3 * MAX_FRAME:
            raise ValueError(BROKEN)
        pixels = np.frombuffer(taken(result, sum(sizes), 3 * most), np.uint8)
    images, place = [], 0
    for (height, width), size in zip(shapes, sizes, strict=True):
        images.append(pixels[place : place + size].reshape(height, width, 3))
        place += size
    return images


BROKEN = "its decoder broke"
_Value = TypeVar("_Value")


def typed(said: Any, read: Callable[[Any], _Value]) -> _Value:
    """Reads what a cell says, which is nobody's word: a decoder may be in the hands of the file."""
    try:
        return read(said)
    except (TypeError, ValueError, LookupError, ArithmeticError) as error:
        raise ValueError(BROKEN) from error


def whole(value: Any, least: int) -> int:
    """Returns a number that is whole, and no less than it may be. Raises ValueError."""
    if not isinstance(value, int) or value < least:
        raise ValueError(value)
    return value


def _pixels(said: Any, least: int) -> int:
    """Returns the width, which with the height is no more than a frame may have."""
    width, height = whole(said["width"], least), whole(said["height"], least)
    if width * height > MAX_FRAME:
        raise ValueError(width)
    return width


def _facts(said: Any) -> Facts:
    duration, rate = float(said["duration"]), float(said["rate"])
    if not (math.isfinite(duration) and math.isfinite(rate)):
        raise ValueError(duration)
    return Facts(duration, rate, _pixels(said, 0), whole(said["height"], 0), str(said["container"]))


def _track(said: Any) -> tuple[int, Fraction, Fraction, int, int]:
    base, rate = (Fraction(*map(int, said[name])) for name in ("base", "rate"))
    if base <= 0 or rate <= 0:
        raise ValueError(base)
    return whole(said["count"], 1), base, rate, _pixels(said, 0), whole(said["height"], 0)


@contextmanager
def memory(data: bytes = b"") -> Iterator[int]:
    """Yields a file in memory, or without a name where the system has none such, by its descriptor."""
    if hasattr(os, "memfd_create"):
        place = os.memfd_create("clip", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    else:
        import tempfile

        with tempfile.TemporaryFile() as file:
            place = os.dup(file.fileno())
    try:
        with open(place, "wb", closefd=False) as file:
            file.write(data)
        os.lseek(place, 0, os.SEEK_SET)
        yield place
    finally:
        os.close(place)


def taken(place: int, size: int, most: int) -> mmap.mmap | bytes:
    """Returns what a cell wrote, as memory of this process's own.

    The file is sealed first: one that shrinks under a mapping ends the process that reads it.
    """
    if size > most:
        raise ValueError(BROKEN)
    if not hasattr(os, "memfd_create"):
        os.lseek(place, 0, os.SEEK_SET)
        with open(place, "rb", closefd=False) as file:
            content = file.read(size)
        if len(content) != size:
            raise ValueError(BROKEN)
        return content
    try:
        seals = sum(getattr(fcntl, name) for name in _SEALS)
        fcntl.fcntl(place, fcntl.F_ADD_SEALS, seals)
    except OSError as error:
        raise ValueError(BROKEN) from error
    if os.fstat(place).st_size != size:
        raise ValueError(BROKEN)
    return mmap.mmap(place, size, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)


def _called(name: str, *arguments: Any, descriptors: Sequence[int]) -> Any:
    _check_installed()
    return called(name, *arguments, descriptors=descriptors)


def called(name: str, *arguments: Any, descriptors: Sequence[int]) -> Any:
    """Calls a function of a cell and raises what it says of a file."""
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
    """Cells of this process, of which each call has one to itself."""

    def __init__(self) -> None:
        usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self._room = threading.Semaphore(min(MOST_CELLS, usable))
        self._idle: list[Cell] = []

    @contextmanager
    def taken(self) -> Iterator[Cell]:
        """Yields a cell, the one that was used last where there are some, when one is free."""
        from lyncean.cell import Cell, Fence

        with self._room:
            try:
                cell = self._idle.pop()
            except IndexError:
                cell = Cell(SETUP, fence=Fence(memory=MEMORY, file_size=_LARGEST), layers=())
            try:
                yield cell
            except BaseException:
                cell.close()  # a failure, or Ctrl-C within a call, may have left anything in it
                raise
            self._idle.append(cell)

    def close(self) -> None:
        """Ends the cells that nobody uses."""
        while self._idle:
            self._idle.pop().close()


_POOL = _Pool()


def _renew() -> None:
    """Leaves the cells to the process that this one was made of."""
    global _POOL
    _POOL = _Pool()


atexit.register(lambda: _POOL.close())
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)


def setup() -> dict[str, Callable[..., Any]]:
    """Returns the functions of a cell: they read a descriptor, and write what is large to another one."""
    from importlib.util import find_spec

    if find_spec("av"):
        import av  # noqa: F401

    from lyncean.arrays import np

    def facts(file: int, kind: Kind) -> Any:
        found = clips.read_facts(kind, content(file))
        return {name: getattr(found, name) for name in Facts.__slots__}

    def samples(file: int, result: int, most: int) -> Any:
        with open(result, "wb", buffering=1 << 20, closefd=False) as target:
            return clips.write_samples(content(file), target.write, most)

    def track(file: int, result: int) -> Any:
        found = clips.read_track(content(file))
        with open(result, "wb", closefd=False) as target:
            target.write(np.array(found.stamps, np.int64).tobytes())
        fractions = {"base": found.base.as_integer_ratio(), "rate": found.rate.as_integer_ratio()}
        return {"count": len(found.stamps), "width": found.width, "height": found.height, **fractions}

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
    def read(*arguments: Any) -> Any:
        from lyncean.media import rare_pictures  # many cells see no image

        return {"value": rare_pictures.functions()[name](*arguments)}

    return read


def content(file: int) -> bytes:
    """Returns what a file has."""
    with open(file, "rb", closefd=False) as source:
        return source.read()


def _told(kind: Kind | None, function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function that tells what is wrong with a file; a limit of the cell is the cell's to tell."""

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
