"""Starts processes of cells: a fresh interpreter, an empty environment, and a single open socket."""

from __future__ import annotations

import json
import socket
import struct
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import MappingProxyType

from lyncean.cell.closing import Fence

STARTS_WITHIN = 300.0
"""Seconds for a process to import its modules."""

_SYSTEM = (
    "/usr/lib", "/usr/lib64", "/lib", "/lib64", "/usr/local/lib", "/usr/share/zoneinfo", "/etc/localtime",
    "/etc/ld.so.cache", "/etc/mime.types", "/dev/null", "/dev/zero", "/dev/urandom", "/dev/random", "/proc/cpuinfo",
    "/proc/meminfo", "/sys/devices/system/cpu",
)  # fmt: skip
"""Files that libraries read on any system."""

_START = """
import json, sys
sys.path[:] = json.loads(sys.argv[2])
from lyncean.cell.child import main
main(int(sys.argv[1]))
"""
_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
LARGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
"""Variables that make a process cheaper to fork: by a third at 380 MB."""


def start(connection: socket.socket, environment: Mapping[str, str] = MappingProxyType({})) -> subprocess.Popen[bytes]:
    """Starts a process that answers on a socket; it leads a session of its own.

    Args:
        connection: The socket.
        environment: Variables beside those of every such process. Those of Python's own hold if the seed of its hashes
            is among them.
    """
    isolated = ["-s", "-P"] if "PYTHONHASHSEED" in environment else ["-I"]
    path = [str(Path(folder or ".").resolve()) for folder in sys.path]
    return subprocess.Popen(
        [sys.executable, *isolated, "-c", _START, str(connection.fileno()), json.dumps(path)],
        env={**_ENVIRONMENT, **environment},
        pass_fds=[connection.fileno()],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        cwd="/",
    )


def wait_at_most(connection: socket.socket, seconds: float) -> None:
    """Sets the timeout of reads from a socket, in seconds of wall-clock time."""
    full = int(seconds)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", full, int((seconds - full) * 1e6)))


def whole_fence(fence: Fence, setup: str) -> Fence:
    """Adds to a fence the files that any process needs to import a module."""
    reads = (*_interpreter(setup.partition(":")[0].partition(".")[0]), *fence.reads)
    return replace(fence, reads=reads, writes=(*fence.writes, "/dev/null"))


@cache
def _interpreter(package: str) -> list[str]:
    """Returns the system files a child reads: the interpreter, installed packages, and one package of ours."""
    from importlib.util import find_spec

    folders = {sys.prefix, sys.base_prefix, *sysconfig.get_paths().values(), *_SYSTEM}
    folders.update(path for path in sys.path if Path(path).name in ("site-packages", "dist-packages"))
    for name in (package, "lyncean"):
        spec = find_spec(name)
        if spec is not None:
            folders.update(spec.submodule_search_locations or ([spec.origin] if spec.origin else []))
    return sorted(folder for folder in folders if Path(folder).exists())
