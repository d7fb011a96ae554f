"""A copy of a run's key table beside its logs, so that a resume reads only the lines behind it.

A cache: it says what the lines up to some byte of either log say, and counts only while these bytes are, by length and
checksum, what they were. Whatever else is there, the logs are read from their start. It may be deleted.
"""

from __future__ import annotations

import contextlib
import os
import struct
from pathlib import Path
from typing import BinaryIO, NamedTuple
from zlib import crc32

from lyncean.arrays import np
from orchestrator.run_folder.files import KEYS, RESPONSES, VERDICTS
from orchestrator.run_folder.key_table import ENTRY, ENTRY_BYTES, KeyTable

_MAGIC = b"lynkeys1"
"""Changes with the format, with how keys are hashed and with what the flags mean."""

_HEAD = struct.Struct("<8s6Q")
_CHECK = struct.Struct("<I")
_ENTRIES = 1 << 16
_READ = 1 << 20


class Prefix(NamedTuple):
    """The bytes of a log from its start.

    Attributes:
        size: How many there are.
        crc: Their CRC-32.
    """

    size: int = 0
    crc: int = 0


class Covered(NamedTuple):
    """What a key table was read from.

    Attributes:
        lines: Lines of `responses.jsonl`.
        responses: Its bytes that hold them.
        verdicts: The bytes of `verdicts.jsonl` that were read.
    """

    lines: int = 0
    responses: Prefix = Prefix()
    verdicts: Prefix = Prefix()


def save(run: Path, covered: Covered, table: KeyTable, mask: int) -> None:
    """Writes a table's keys that have flags under a mask, in one step. A copy that cannot be written is left out."""
    path = run / KEYS
    partial = path.with_name(f"{KEYS}.partial")
    try:
        with partial.open("wb") as file:
            # The number of entries is known at the end only.
            file.write(bytes(_HEAD.size))
            count, checksum = 0, 0
            for block in table.entries(mask):
                data = block.tobytes()
                file.write(data)
                count += len(block)
                checksum = crc32(data, checksum)
            head = _HEAD.pack(_MAGIC, count, covered.lines, *covered.responses, *covered.verdicts)
            file.write(_CHECK.pack(crc32(head, checksum)))
            file.seek(0)
            file.write(head)
        # No fsync: what a power cut leaves of it fails its checksum.
        partial.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)


def load(run: Path, keys: int) -> tuple[Covered, KeyTable] | None:
    """Returns what a run's copy holds, None where there is none that fits the logs.

    Args:
        run: The run folder, held by this process.
        keys: For about how many keys there is to be room.
    """
    try:
        with (run / KEYS).open("rb") as file:
            found = _read(file, keys)
        if found is None:
            return None
        logs = ((RESPONSES, found[0].responses), (VERDICTS, found[0].verdicts))
        return found if all(_begins_with(run / name, prefix) for name, prefix in logs) else None
    except OSError:
        return None


def _read(file: BinaryIO, keys: int) -> tuple[Covered, KeyTable] | None:
    head = file.read(_HEAD.size)
    if len(head) < _HEAD.size:
        return None
    magic, count, read, *prefixes = _HEAD.unpack(head)
    # The size before the number is believed, which decides how much memory is taken.
    if magic != _MAGIC or os.fstat(file.fileno()).st_size != _HEAD.size + count * ENTRY_BYTES + _CHECK.size:
        return None
    table, checksum = KeyTable(max(count, keys)), 0
    for start in range(0, count, _ENTRIES):
        data = file.read(min(_ENTRIES, count - start) * ENTRY_BYTES)
        checksum = crc32(data, checksum)
        entries = np.frombuffer(data, ENTRY)
        low, high, number, flags = (np.ascontiguousarray(entries[name]) for name in ("low", "high", "number", "flags"))
        table.put_all(low, high, numbers=number, flags=flags)
    if file.read() != _CHECK.pack(crc32(head, checksum)):
        return None
    return Covered(read, Prefix(*prefixes[:2]), Prefix(*prefixes[2:])), table


def _begins_with(path: Path, prefix: Prefix) -> bool:
    """Returns whether a log begins with the bytes that were there when the copy was made."""
    left, checksum = prefix.size, 0
    buffer = memoryview(bytearray(_READ))
    with path.open("rb", buffering=0) as file:
        while left:
            count = file.readinto(buffer[: min(left, _READ)])
            if not count:
                return False
            checksum = crc32(buffer[:count], checksum)
            left -= count
    return checksum == prefix.crc
