"""Runs a command as on a kernel without Landlock: `python tests/helpers/without_landlock.py PROGRAM ARGUMENTS...`."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys

from lyncean.cell.closing import _program, _Rule
from lyncean.cell.syscalls import MACHINES

if __name__ == "__main__":
    rules = [(number, _Rule("landlock", error=errno.ENOSYS)) for number in (444, 445, 446)]
    code = _program(MACHINES[platform.machine()].audit, rules)
    kept = ctypes.create_string_buffer(code, len(code))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(38, 1, 0, 0, 0)
    assert not libc.prctl(22, 2, struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(kept)), 0, 0)
    os.execvp(sys.argv[1], sys.argv[1:])  # noqa: S606
