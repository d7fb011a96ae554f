"""Locks down this process for good: resource limits, Landlock for files, seccomp for system calls.

Requires no privileges, namespaces or libraries; threads and children inherit the lockdown. Both Landlock and seccomp
are needed: Landlock does not cover sockets, and seccomp cannot tell one path from another.
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
"""Named instead of layers where none holds: a separate process is all there is."""

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, _PR_SET_DUMPABLE = 38, 22, 2, 4
_PR_SET_CHILD_SUBREAPER, _PR_SET_PDEATHSIG = 36, 1
_SECCOMP_SET_MODE_FILTER, _ALL_THREADS = 1, 1
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_CLONE_THREAD = 0x00010000
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_X32 = 0x40000000
"""First number of the x32 table of system calls on x86-64."""

_SPACE = 4 << 30
"""Bytes of address space beyond `memory` in a strict fence, for libraries and the allocator's reserve."""
_FILES_BY_ABI = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
"""Landlock ABI version -> number of its file access rights; later versions have as many as the last."""
_READ_FILE, _READ_DIR, _EXECUTE = 1 << 2, 1 << 3, 1 << 0
_MAKE_DEVICES = 1 << 6 | 1 << 11
_REMOVE = 1 << 4 | 1 << 5


class NotClosedError(Exception):
    """Raised when a requested layer cannot be enforced; the message names it."""


@dataclass(frozen=True, slots=True)
class Fence:
    """Rights and limits of a cell.

    Attributes:
        reads: Files and folders that it may read.
        writes: Folders that it may write to.
        memory: Bytes that it may allocate on top of its size at the lockdown.
        file_size: Bytes of the largest file that it may write.
        programs: Whether it may start programs and processes, under the same limits. They stay in the cell's process
            group and end with it.
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
    """Enforces every layer that this system supports and returns the names.

    Args:
        fence: Remaining rights.
        may_fork: Whether this process may fork; each child calls `forbid_processes` or `close`.
        may_close: Whether the children may still lock themselves down further.
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
    """Takes the right to fork from a child of a locked-down process."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not fence.programs or not _scopes_signals(libc):
        _seccomp(libc, _refused(libc, fence, may_fork=False, may_close=False))


def forbid_threads() -> bool:
    """Takes the right to start threads from a process with a strict fence; returns whether it took effect."""
    libc = ctypes.CDLL(None, use_errno=True)
    rules = [_Rule("clone", error=errno.EAGAIN), _Rule("clone3", error=errno.ENOSYS), _Rule("prctl"), _Rule("seccomp")]
    return bool(_seccomp(libc, rules, all_threads=True))


def end_with_parent() -> None:
    """Asks the kernel to kill this process when the thread that forked it ends; its code cannot prevent that."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def adopt_orphans() -> None:
    """Makes this process the parent of orphaned grandchildren."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _limit(fence: Fence, *, may_close: bool) -> tuple[str, ...]:
    fields = Path("/proc/self/statm").read_text().split() if Path("/proc/self/statm").exists() else []
    if fields and not may_close:
        data = int(fields[5]) * resource.getpagesize() + fence.memory
        resource.setrlimit(resource.RLIMIT_DATA, (data, data))
    for name, most in ((resource.RLIMIT_FSIZE, fence.file_size), (resource.RLIMIT_CORE, 0)):
        resource.setrlimit(name, (most, most))
    if fields and fence.strict and not may_close:
        # RLIMIT_DATA counts neither read-only nor shared pages, nor page tables.
        space = int(fields[0]) * resource.getpagesize() + fence.memory + _SPACE
        resource.setrlimit(resource.RLIMIT_AS, (space, space))
    files = min(64 if fence.strict else 256, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    return ("rlimits",)


def _abi(libc: ctypes.CDLL) -> int:
    """Returns the ABI version of Landlock, below 1 without Landlock."""
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
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if not Path(path).is_dir():
            access &= 0b1100000000000111  # rights that apply to files: execute, write, read, truncate, ioctl
        if libc.syscall(_ADD_RULE, rules, 1, struct.pack("=Qi", access, descriptor), 0):
            raise NotClosedError(f"{path}: {os.strerror(ctypes.get_errno())}")
    finally:
        os.close(descriptor)


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
"""Files read during a lockdown: the process's size, state of its filter, its children."""
_CLOSING = ("setsid", "setrlimit", "prlimit64", "kill", "tgkill")
"""Calls needed during a lockdown, and calls that stay allowed on the process itself."""
_STRICT = (
    "socket", "memfd_create", "memfd_secret", "shmget", "shmat", "msgget", "semget", "mq_open", "syslog",
    "inotify_init", "inotify_init1", "inotify_add_watch", "fanotify_init", "kill", "tgkill",
    "chown", "fchown", "lchown", "fchownat", "setxattr", "lsetxattr", "fsetxattr", "setxattrat", "file_setattr",
    "removexattr", "lremovexattr", "fremovexattr", "removexattrat",
    "sched_setscheduler", "sched_setattr", "setpriority", "ioprio_set",
)  # fmt: skip
"""Calls outside Landlock's scope: memory beyond limits, messages between cells, metadata of others' files."""
_WITHOUT_EFFECT = (
    "chmod", "fchmod", "fchmodat", "fchmodat2", "utime", "utimes", "futimesat", "utimensat",
)  # fmt: skip
"""Calls that do nothing and succeed, since copying a file makes them too."""
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
        argument: Index of the argument that decides, -1 for none.
        unless: Condition on the argument that lets the call through: "zero", "thread" (has CLONE_THREAD), "own" (is
            this process).
        error: errno returned; 0 for success.
        bits: Bits of the argument that must all be set for the call to be refused.
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
    wanting = may_fork, fence.programs  # they signal others; Landlock from ABI 6 confines signals
    if not (any(wanting) if _scopes_signals(libc) else all(wanting)):
        rules += [_Rule("kill", 0, "own"), _Rule("tgkill", 0, "own")]
    if not fence.programs:
        rules += [_Rule(name) for name in _PROGRAMS]
        if not may_fork:
            rules += [_Rule(name, error=errno.EAGAIN) for name in _PROCESSES]
            # glibc tries clone3 first, whose flags a filter cannot read, and falls back to clone.
            rules += [_Rule("clone", 0, "thread", errno.EAGAIN), _Rule("clone3", error=errno.ENOSYS)]
    return [rule for rule in rules if not (may_close and rule.name in _CLOSING)]


def _strict() -> Iterator[_Rule]:
    yield from (_Rule(name) for name in _STRICT)
    yield from (_Rule(name, error=0) for name in _WITHOUT_EFFECT)
    yield _Rule("mmap", 3, bits=_SHARED_WITHOUT_FILE)
    yield _Rule("open", 1, bits=_WITHOUT_NAME, error=errno.EOPNOTSUPP)
    yield _Rule("openat", 2, bits=_WITHOUT_NAME, error=errno.EOPNOTSUPP)
    yield _Rule("openat2", error=errno.ENOSYS)  # a filter cannot read its flags


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
    """Returns a BPF filter that refuses the listed calls, allows others, and kills on another architecture's calls."""
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
            bits = [1 << index for index in range(32) if rule.bits >> index & 1]
            has = [(_HAS, 0, len(bits) - index, bit) for index, bit in enumerate(bits)]
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
