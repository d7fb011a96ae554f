"""Errors of the files of a run folder, as its user reads them."""

from __future__ import annotations

import errno
from pathlib import Path

from lyncean.errors import UserError

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class RunLogError(UserError):
    """The run folder cannot be used as it is. The message says what to do."""


class RunBusyError(RunLogError):
    """Another process writes to the run folder."""

    exit_code = 3


class RunLockError(RunLogError):
    """The run folder's lock was lost while this process wrote: it stops, since another process may go on."""

    exit_code = 3


class RunWriteError(RunLogError):
    """The run folder cannot be written, for example because the disk is full. Resume later."""

    exit_code = 3


def write_error(path: Path, error: OSError) -> RunWriteError:
    """Returns the one-line error for a failed write."""
    if error.errno in _FULL:
        return RunWriteError(
            f"{path}: {error.strerror}; what was answered is safe: make room and run the command again"
        )
    return RunWriteError(f"{path} cannot be written: {error.strerror}; fix that and run the command again")
