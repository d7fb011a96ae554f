"""Numbers of the system calls that a cell refuses, by machine.

Sources: `arch/x86/entry/syscalls/syscall_64.tbl` and `include/uapi/asm-generic/unistd.h` of Linux.
"""

from __future__ import annotations

from typing import NamedTuple


class Machine(NamedTuple):
    """One kind of processor.

    Attributes:
        audit: Its AUDIT_ARCH, which the kernel gives to a filter.
        numbers: System call -> number.
    """

    audit: int
    numbers: dict[str, int]


_SAME = {
    "pidfd_send_signal": 424, "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428,
    "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "pidfd_open": 434, "clone3": 435,
    "openat2": 437, "pidfd_getfd": 438, "mount_setattr": 442, "memfd_secret": 447, "fchmodat2": 452, "setxattrat": 463,
    "removexattrat": 466, "file_setattr": 469,
}  # fmt: skip
"""Calls that are newer than the common table."""

MACHINES = {
    "x86_64": Machine(0xC000003E, _SAME | {
        "connect": 42, "accept": 43, "sendto": 44, "sendmsg": 46, "bind": 49, "listen": 50, "clone": 56, "fork": 57,
        "vfork": 58, "execve": 59, "kill": 62, "ptrace": 101, "rt_sigqueueinfo": 129, "personality": 135,
        "pivot_root": 155, "adjtimex": 159, "setrlimit": 160, "chroot": 161, "acct": 163, "settimeofday": 164,
        "mount": 165, "umount2": 166, "swapon": 167, "swapoff": 168, "reboot": 169, "sethostname": 170,
        "setdomainname": 171, "iopl": 172, "ioperm": 173, "init_module": 175, "delete_module": 176, "quotactl": 179,
        "tkill": 200, "clock_settime": 227, "tgkill": 234, "kexec_load": 246, "add_key": 248, "request_key": 249,
        "keyctl": 250, "unshare": 272, "accept4": 288, "rt_tgsigqueueinfo": 297, "perf_event_open": 298,
        "prlimit64": 302, "name_to_handle_at": 303, "open_by_handle_at": 304, "clock_adjtime": 305, "sendmmsg": 307,
        "setns": 308, "process_vm_readv": 310, "process_vm_writev": 311, "finit_module": 313, "kexec_file_load": 320,
        "bpf": 321, "execveat": 322, "userfaultfd": 323, "setpgid": 109, "setsid": 112, "open": 2, "mmap": 9,
        "shmget": 29, "shmat": 30, "socket": 41, "semget": 64, "msgget": 68, "chmod": 90, "fchmod": 91, "chown": 92,
        "fchown": 93, "lchown": 94, "syslog": 103, "utime": 132, "setpriority": 141, "sched_setscheduler": 144,
        "prctl": 157, "setxattr": 188, "lsetxattr": 189, "fsetxattr": 190, "removexattr": 197, "lremovexattr": 198,
        "fremovexattr": 199, "utimes": 235, "mq_open": 240, "ioprio_set": 251, "inotify_init": 253,
        "inotify_add_watch": 254, "openat": 257, "fchownat": 260, "futimesat": 261, "fchmodat": 268, "utimensat": 280,
        "inotify_init1": 294, "fanotify_init": 300, "sched_setattr": 314, "seccomp": 317, "memfd_create": 319,
    }),
    "aarch64": Machine(0xC00000B7, _SAME | {
        "umount2": 39, "mount": 40, "pivot_root": 41, "chroot": 51, "quotactl": 60, "acct": 89, "personality": 92,
        "unshare": 97, "kexec_load": 104, "init_module": 105, "delete_module": 106, "clock_settime": 112, "ptrace": 117,
        "kill": 129, "tkill": 130, "tgkill": 131, "rt_sigqueueinfo": 138, "reboot": 142, "sethostname": 161,
        "setdomainname": 162, "setrlimit": 164, "settimeofday": 170, "adjtimex": 171, "bind": 200, "listen": 201,
        "accept": 202, "connect": 203, "sendto": 206, "sendmsg": 211, "add_key": 217, "request_key": 218, "keyctl": 219,
        "clone": 220, "execve": 221, "swapon": 224, "swapoff": 225, "rt_tgsigqueueinfo": 240, "perf_event_open": 241,
        "accept4": 242, "prlimit64": 261, "name_to_handle_at": 264, "open_by_handle_at": 265, "clock_adjtime": 266,
        "setns": 268, "sendmmsg": 269, "process_vm_readv": 270, "process_vm_writev": 271, "finit_module": 273,
        "bpf": 280, "execveat": 281, "userfaultfd": 282, "kexec_file_load": 294, "setpgid": 154, "setsid": 157,
        "setxattr": 5, "lsetxattr": 6, "fsetxattr": 7, "removexattr": 14, "lremovexattr": 15, "fremovexattr": 16,
        "inotify_init1": 26, "inotify_add_watch": 27, "ioprio_set": 30, "fchmod": 52, "fchmodat": 53, "fchownat": 54,
        "fchown": 55, "openat": 56, "utimensat": 88, "syslog": 116, "sched_setscheduler": 119, "setpriority": 140,
        "prctl": 167, "mq_open": 180, "msgget": 186, "semget": 190, "shmget": 194, "shmat": 196, "socket": 198,
        "mmap": 222, "fanotify_init": 262, "sched_setattr": 274, "seccomp": 277, "memfd_create": 279,
    }),
}  # fmt: skip
