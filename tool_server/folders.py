"""Temporary folders of servers; those of a killed server are removed by the next one."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path


def own_folder(prefix: str) -> Path:
    """Returns a new folder that this process owns while it runs; removes those of ended processes.

    A process locks its folder: the system frees the lock however the process ends, and for other containers that
    share the folder's parent as well.

    Args:
        prefix: Prefix of its name, which no other program may use.
    """
    parent = Path(tempfile.gettempdir())
    for path in parent.glob(f"{prefix}*"):
        with contextlib.suppress(OSError):
            _remove_abandoned(path)
    while True:
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        with contextlib.suppress(FileNotFoundError):
            lock = _opened(folder)  # open until the process ends
            fcntl.flock(lock, fcntl.LOCK_EX)
            if folder.exists():
                return folder
            os.close(lock)  # another server removed it as abandoned before it was locked


def remove(folder: Path) -> None:
    """Removes a folder, even one too deep for recursion or not writable by its owner."""
    try:
        shutil.rmtree(folder)
    except (OSError, RecursionError):
        for command in (["chmod", "-R", "u+rwx"], ["rm", "-rf"]):
            subprocess.run([*command, "--", str(folder)], check=False, stderr=subprocess.DEVNULL)


def _remove_abandoned(folder: Path) -> None:
    if folder.stat(follow_symlinks=False).st_uid != os.getuid():
        return
    lock = _opened(folder)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        remove(folder)
    finally:
        os.close(lock)


def _opened(folder: Path) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
