"""Memory limits of containers as the kubelet sets them: control groups, version 1 or 2, whichever can be written."""

from __future__ import annotations

import contextlib
import re
import secrets
from pathlib import Path

_PLACES = (Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified"))
_UNITS = {"": 1, "k": 1000, "M": 1000**2, "G": 1000**3, "Ki": 1024, "Mi": 1024**2, "Gi": 1024**3, "Ti": 1024**4}


def quantity(text: str) -> int:
    """Bytes of a Kubernetes quantity such as `512Mi`."""
    match = re.fullmatch(r"(\d+)(|k|M|G|Ki|Mi|Gi|Ti)", text)
    assert match, f"{text} is not a quantity that is read here"
    return int(match[1]) * _UNITS[match[2]]


def _place() -> tuple[Path, str]:
    """Returns the folder for groups with a memory limit, and the name of the limit's file."""
    for folder in _PLACES:
        if (folder / "cgroup.controllers").exists():
            with contextlib.suppress(OSError):
                (folder / "cgroup.subtree_control").write_text("+memory")
        tried = folder / f"lyn-{secrets.token_hex(3)}"
        with contextlib.suppress(OSError):
            tried.mkdir()
            names = [name for name in ("memory.limit_in_bytes", "memory.max") if (tried / name).exists()]
            tried.rmdir()
            if names:
                return folder, names[0]
    raise OSError(
        f"no control group with a memory limit can be made in {', '.join(map(str, _PLACES))}: run pytest as root, in a "
        "container started with `docker run --privileged --cgroupns=host`, or `mount -o remount,rw /sys/fs/cgroup`"
    )


def missing() -> str:
    """Why memory cannot be limited here; empty if it can."""
    try:
        _place()
    except OSError as error:
        return str(error)
    return ""


class Group:
    """The control group of one container, made before its process and removed after it."""

    def __init__(self, name: str, limit: str) -> None:
        folder, file = _place()
        self.path = folder / name
        self.path.mkdir()
        (self.path / file).write_text(str(quantity(limit)))
        with contextlib.suppress(OSError):  # no swap, where there is any
            (self.path / ("memory.swap.max" if file == "memory.max" else "memory.memsw.limit_in_bytes")).write_text(
                "0" if file == "memory.max" else str(quantity(limit))
            )
        with contextlib.suppress(OSError):  # version 2: all processes of a container at once, as the kubelet does
            (self.path / "memory.oom.group").write_text("1")

    @property
    def processes(self) -> Path:
        """The file that takes a process in."""
        return self.path / "cgroup.procs"

    @property
    def out_of_memory(self) -> bool:
        """Returns True if the kernel has killed a process of the group for memory."""
        names = ("memory.events", "memory.oom_control")
        text = next((self.path / name).read_text() for name in names if (self.path / name).exists())
        return bool(re.search(r"^oom_kill [1-9]", text, re.MULTILINE))

    @property
    def peak(self) -> int:
        """Most bytes that were held at once, 0 where the kernel does not tell."""
        names = ("memory.max_usage_in_bytes", "memory.peak")
        return next((int((self.path / name).read_text()) for name in names if (self.path / name).exists()), 0)

    def remove(self) -> None:
        """Removes the group, which no process is in any more; a child that lingers keeps it until the next call."""
        with contextlib.suppress(OSError):
            self.path.rmdir()
