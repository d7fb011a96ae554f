"""Memory that messages have left stays with the process."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

import pytest

# Buffers of an image's size, taken and let go; prints how many pages were faulted in for them.
CHURN = """
import resource, sys
from lyncean.rpc import keep_freed_memory
if sys.argv[1] == "keep":
    keep_freed_memory()
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
def churn():
    for _ in range(100):
        del [bytearray(b"x") * 300_000 for _ in range(8)][:]
churn()
before = faults()
churn()
print(faults() - before)
"""


def faults(mode: str, **environment: str) -> int:
    """Returns the page faults of 800 buffers of 300,000 bytes, eight at a time."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_TUNABLES"))}
    command = [sys.executable, "-c", CHURN, mode]
    return int(subprocess.run(command, env={**clean, **environment}, check=True, capture_output=True, text=True).stdout)


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="the C library is not glibc")
def test_freed_memory_is_used_again() -> None:
    assert faults("keep") < faults("leave") / 4


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="the C library is not glibc")
def test_a_users_own_setting_stands() -> None:
    always_mapped = {"MALLOC_MMAP_THRESHOLD_": "100000"}
    assert faults("keep", **always_mapped) > 800 * 50


# Takes arrays of 4 MB and lets them go below one that stays; prints the megabytes that are still held.
HELD = """
import sys
from lyncean.rpc.heap import keep_freed_memory, return_freed_memory
def held():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("RssAnon")) // 1024
keep_freed_memory()
before = held()
several = [bytearray(b"x") * 4_000_000 for _ in range(20)]
last = bytearray(b"x") * 100_000
del several
if sys.argv[1] == "return":
    return_freed_memory()
print(held() - before)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="the C library is not glibc")
def test_freed_memory_is_given_back() -> None:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_TUNABLES"))}
    kept, given_back = (
        int(subprocess.run([sys.executable, "-c", HELD, mode], env=clean, check=True, capture_output=True).stdout)
        for mode in ("keep", "return")
    )
    assert kept > 60
    assert given_back < 10
