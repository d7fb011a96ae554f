"""Closes this process for good: limits of resources, Landlock for files, seccomp for system calls.

Needs no privileges, no namespaces and no library; all of it stays in force for threads and children. Each layer is
needed: Landlock leaves sockets, seccomp cannot tell one path from another.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import resource
import signal
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lyncean.cell.syscalls import MACHINES

LAYERS = ("landlock", "seccomp", "rlimits")
PROCESS = "process"
"""What there is in place of layers where none holds: a process of its own."""

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, _PR_SET_DUMPABLE = 38, 22, 2, 4
_PR_SET_CHILD_SUBREAPER, _PR_SET_PDEATHSIG = 36, 1
_SECCOMP_SET_MODE_FILTER, _ALL_THREADS = 1, 1
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_CLONE_THREAD = 0x00010000
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_X32 = 0x40000000
"""Numbers from here on are x86-64's second table of system calls."""

_SPACE = 4 << 30
"""Bytes of addresses beyond memory that a strictly closed process may have: libraries, and what allocators reserve."""
_FILES_BY_ABI = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
"""Landlock's version -> how many kinds of access to files it knows; later versions as the last."""
_READ_FILE, _READ_DIR, _EXECUTE = 1 << 2, 1 << 3, 1 << 0
_MAKE_DEVICES = 1 << 6 | 1 << 11
_REMOVE = 1 << 4 | 1 << 5


class NotClosedError(Exception):
    """A layer that is asked for cannot be put in force here; the message names it."""


@dataclass(frozen=True, slots=True)
class Fence:
    """What a cell may do.

    Attributes:
        reads: Files and folders that it may read.
        writes: Folders that it may write to.
        memory: Bytes that it may allocate beyond what it has when it closes itself.
        file_size: Bytes of the largest file that it may write.
        programs: Whether it may start programs and processes, still without network and other files. They stay in
            the cell's process group, with which they end.
        strict: Whether it runs code that may mean harm: one thread; no socket of any kind; no signal, not even to
            itself; no memory that `memory` does not count; files that it makes stay where their sizes can be added up;
            modes, owners and times of files do not change.
    """

    reads: Sequence[str] = ()
    writes: Sequence[str] = ()
    memory: int = 512 << 20
    file_size: int = 256 << 20
    programs: bool = False
    strict: bool = False


def close(fence: Fence, *, may_fork: bool = False, may_close: bool = False) -> tuple[str, ...]:
    """Puts every layer that this system has in force and returns their names.

    Args:
        fence: What is left.
        may_fork: Whether processes may be made of this one; each of them calls `forbid_processes`, or `close`.
        may_close: Whether they may still close themselves, each in its own way.
    """
    if may_close:
        fence = replace(fence, reads=(*fence.reads, *_FOR_CLOSING))
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "prctl") or libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        return _limit(fence, may_close=may_close)
    libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    layers = [*_limit(fence, may_close=may_close), *_landlock(libc, fence)]
    layers += _seccomp(libc, _refused(libc, fence, may_fork=may_fork, may_close=may_close))
    return tuple(name for name in LAYERS if name in layers)


def forbid_processes(fence: Fence) -> None:
    """Takes from a process that was made of a closed one the right to make further ones."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not fence.programs or not _scopes_signals(libc):
        _seccomp(libc, _refused(libc, fence, may_fork=False, may_close=False))


def forbid_threads() -> bool:
    """Takes the right to make threads from all threads of a strictly closed process; returns whether it holds."""
    libc = ctypes.CDLL(None, use_errno=True)
    rules = [_Rule("clone", error=errno.EAGAIN), _Rule("clone3", error=errno.ENOSYS), _Rule("prctl"), _Rule("seccomp")]
    return bool(_seccomp(libc, rules, all_threads=True))


def end_with_parent() -> None:
    """Has the kernel end this process when the thread that made it ends; no code in it can prevent that."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def adopt_orphans() -> None:
    """Makes this process the parent of what its children leave behind."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _limit(fence: Fence, *, may_close: bool) -> tuple[str, ...]:
    fields = Path("/proc/self/statm").read_text().split() if Path("/proc/self/statm").exists() else []
    if fields and not may_close:
        data = int(fields[5]) * resource.getpagesize() + fence.memory
        resource.setrlimit(resource.RLIMIT_DATA, (data, data))
    for name, most in ((resource.RLIMIT_FSIZE, fence.file_size), (resource.RLIMIT_CORE, 0)):
        resource.setrlimit(name, (most, most))
    if fields and fence.strict and not may_close:
        # Pages that are only read, or shared, are not counted as data, and tables of pages are not counted at all.
        space = int(fields[0]) * resource.getpagesize() + fence.memory + _SPACE
        resource.setrlimit(resource.RLIMIT_AS, (space, space))
    files = min(64 if fence.strict else 256, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    return ("rlimits",)


def _abi(libc: ctypes.CDLL) -> int:
    """Returns the version of Landlock, below 1 where there is none."""
    return int(libc.syscall(_CREATE_RULESET, None, 0, 1))


def _scopes_signals(libc: ctypes.CDLL) -> bool:
    return _abi(libc) >= 6


def _landlock(libc: ctypes.CDLL, fence: Fence) -> tuple[str, ...]:
    abi = _abi(libc)
    if abi < 1:
        return ()
    handled = (1 << _FILES_BY_ABI.get(abi, 16)) - 1
    network = 3 if abi >= 4 else 0  # bind and connect of TCP
    scoped = 3 if _scopes_signals(libc) else 0  # abstract sockets, and signals to processes outside
    attributes = struct.pack("=QQQ", handled, network, scoped)[: 8 if abi < 4 else 16 if abi < 6 else 24]
    rules = libc.syscall(_CREATE_RULESET, attributes, len(attributes), 0)
    if rules < 0:
        return ()
    try:
        reading = _READ_FILE | _READ_DIR | _EXECUTE
        writing = handled & ~(_MAKE_DEVICES | (_REMOVE if fence.strict else 0))
        for paths, access in ((fence.reads, reading), (fence.writes, writing)):
            for path in paths:
                _allow(libc, rules, path, access)
        return () if libc.syscall(_RESTRICT_SELF, rules, 0) else ("landlock",)
    finally:
        os.close(rules)


def _allow(libc: ctypes.CDLL, rules: int, path: str, access: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if not Path(path).is_dir():
            access &= 0b1100000000000111  # what files have: execute, write, read, truncate, ioctl
        if libc.syscall(_ADD_RULE, rules, 1, struct.pack("=Qi", access, place), 0):
            raise NotClosedError(f"{path}: {os.strerror(ctypes.get_errno())}")
    finally:
        os.close(place)


_NEVER = (
    "connect", "accept", "accept4", "bind", "listen", "sendmsg", "sendmmsg",
    "ptrace", "process_vm_readv", "process_vm_writev", "pidfd_open", "pidfd_getfd", "pidfd_send_signal", "tkill",
    "rt_sigqueueinfo", "rt_tgsigqueueinfo", "setsid", "setpgid",
    "mount", "umount2", "pivot_root", "chroot", "open_tree", "move_mount", "fsopen", "fsconfig", "fsmount", "fspick",
    "mount_setattr", "unshare", "setns", "name_to_handle_at", "open_by_handle_at",
    "bpf", "perf_event_open", "keyctl", "add_key", "request_key", "io_uring_setup", "io_uring_enter",
    "io_uring_register", "userfaultfd", "personality",
    "init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load", "reboot", "swapon", "swapoff",
    "quotactl", "acct", "settimeofday", "clock_settime", "adjtimex", "clock_adjtime", "sethostname", "setdomainname",
    "iopl", "ioperm", "setrlimit",
)  # fmt: skip
_FOR_CLOSING = ("/proc",)
"""Files that a process reads as it closes itself: its own size, whether its filter holds, its children."""
_CLOSING = ("setsid", "setrlimit", "prlimit64", "kill", "tgkill")
"""Calls that a process needs as it closes itself, and those that it keeps for itself alone."""
_STRICT = (
    "socket", "memfd_create", "memfd_secret", "shmget", "shmat", "msgget", "semget", "mq_open", "syslog",
    "inotify_init", "inotify_init1", "inotify_add_watch", "fanotify_init", "kill", "tgkill",
    "chown", "fchown", "lchown", "fchownat", "setxattr", "lsetxattr", "fsetxattr", "setxattrat", "file_setattr",
    "removexattr", "lremovexattr", "fremovexattr", "removexattrat",
    "sched_setscheduler", "sched_setattr", "setpriority", "ioprio_set",
)  # fmt: skip
"""Landlock refuses none of these: memory beyond limits, messages between cells, names and owners of others' files."""
_WITHOUT_EFFECT = (
    "chmod", "fchmod", "fchmodat", "fchmodat2", "utime", "utimes", "futimesat", "utimensat",
)  # fmt: skip
"""Calls that copying a file makes, too: they do nothing and succeed."""
_SHARED_WITHOUT_FILE = 0x01 | 0x20
"""MAP_SHARED and MAP_ANONYMOUS."""
_WITHOUT_NAME = 0o20000000
"""__O_TMPFILE."""
_PROGRAMS = ("execve", "execveat")
_PROCESSES = ("fork", "vfork")


@dataclass(frozen=True, slots=True)
class _Rule:
    """A system call that is refused.

    Attributes:
        name: The call.
        argument: Index of an argument on which it depends, -1 for none.
        unless: What the argument must be for the call to be let through: "zero", "thread" (has CLONE_THREAD), "own"
            (is this process).
        error: The error it gets; 0 is success.
        bits: What the argument must have, all of it, for the call to be refused.
    """

    name: str
    argument: int = -1
    unless: str = ""
    error: int = errno.EPERM
    bits: int = 0


def _refused(libc: ctypes.CDLL, fence: Fence, *, may_fork: bool, may_close: bool) -> list[_Rule]:
    rules = [_Rule(name) for name in _NEVER]
    rules += [_Rule("sendto", 4, "zero"), _Rule("prlimit64", 2, "zero")]
    if fence.strict:
        rules += _strict()
    wanting = may_fork, fence.programs  # those that signal others, which Landlock keeps among themselves if it can
    if not (any(wanting) if _scopes_signals(libc) else all(wanting)):
        rules += [_Rule("kill", 0, "own"), _Rule("tgkill", 0, "own")]
    if not fence.programs:
        rules += [_Rule(name) for name in _PROGRAMS]
        if not may_fork:
            rules += [_Rule(name, error=errno.EAGAIN) for name in _PROCESSES]
            # glibc asks clone3 first, whose flags lie in memory that a filter cannot read, and falls back to clone.
            rules += [_Rule("clone", 0, "thread", errno.EAGAIN), _Rule("clone3", error=errno.ENOSYS)]
    return [rule for rule in rules if not (may_close and rule.name in _CLOSING)]


def _strict() -> Iterator[_Rule]:
    yield from (_Rule(name) for name in _STRICT)
    yield from (_Rule(name, error=0) for name in _WITHOUT_EFFECT)
    yield _Rule("mmap", 3, bits=_SHARED_WITHOUT_FILE)
    yield _Rule("open", 1, bits=_WITHOUT_NAME, error=errno.EOPNOTSUPP)
    yield _Rule("openat", 2, bits=_WITHOUT_NAME, error=errno.EOPNOTSUPP)
    yield _Rule("openat2", error=errno.ENOSYS)  # its flags lie in memory


def _seccomp(libc: ctypes.CDLL, rules: Iterable[_Rule], *, all_threads: bool = False) -> tuple[str, ...]:
    machine = MACHINES.get(platform.machine())
    if machine is None or struct.calcsize("P") != 8:
        return ()
    known = [(machine.numbers[rule.name], rule) for rule in rules if rule.name in machine.numbers]
    program = _program(machine.audit, known)
    code = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(code))
    if all_threads:
        number = machine.numbers["seccomp"]
        return () if libc.syscall(number, _SECCOMP_SET_MODE_FILTER, _ALL_THREADS, header) else ("seccomp",)
    return () if libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, header, 0, 0) else ("seccomp",)


_LOAD, _EQUAL, _AT_LEAST, _HAS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _AUDIT, _ARGUMENTS = 0, 4, 16
"""Offsets in `struct seccomp_data`."""


def _program(audit: int, rules: Sequence[tuple[int, _Rule]]) -> bytes:
    """Returns a filter: what it names is refused, all else is let through; other machines' calls end the process."""
    lines = [
        (_LOAD, 0, 0, _AUDIT), (_EQUAL, 1, 0, audit), (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER), (_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, _ERRNO | errno.EPERM),
    ]  # fmt: skip
    for number, rule in rules:
        refuse = (_RETURN, 0, 0, _ERRNO | rule.error)
        if rule.argument < 0:
            lines += [(_EQUAL, 0, 1, number), refuse]
            continue
        low = _ARGUMENTS + 8 * rule.argument
        if rule.bits:
            bits = [1 << place for place in range(32) if rule.bits >> place & 1]
            has = [(_HAS, 0, len(bits) - place, bit) for place, bit in enumerate(bits)]
            block = [(_LOAD, 0, 0, low), *has, refuse, (_RETURN, 0, 0, _ALLOW)]
            lines += [(_EQUAL, 0, len(block), number), *block]
            continue
        tests = {
            # A pointer is null if both of its halves are.
            "zero": [(_LOAD, 0, 0, low), (_EQUAL, 0, 3, 0), (_LOAD, 0, 0, low + 4), (_EQUAL, 0, 1, 0)],
            "thread": [(_LOAD, 0, 0, low), (_HAS, 0, 1, _CLONE_THREAD)],
            "own": [(_LOAD, 0, 0, low), (_EQUAL, 0, 1, os.getpid())],
        }[rule.unless]
        block = [*tests, (_RETURN, 0, 0, _ALLOW), refuse]
        lines += [(_EQUAL, 0, len(block), number), *block]
    lines.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("HBBI", *line) for line in lines)
