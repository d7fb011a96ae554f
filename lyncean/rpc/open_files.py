"""Room for connections: a process may hold so many files open, and each connection is one."""

from __future__ import annotations

import resource

from lyncean.errors import UserError

_OTHERS = 256
"""Files that a process has open beside its connections: logs, images, packages, pipes."""


def make_room(connections: int) -> None:
    """Raises the limit of open files as far as so many connections need it.

    Raises:
        UserError: The system allows fewer.
    """
    needed = connections + _OTHERS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or needed <= soft:
        return
    if hard != resource.RLIM_INFINITY and needed > hard:
        raise UserError(
            f"{connections:,} model servers take about {needed:,} open files, and a process may have {hard:,} here",
            fix=f"raise the limit (ulimit -Hn {needed}) or give fewer --endpoint addresses to one run (--shard)",
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
