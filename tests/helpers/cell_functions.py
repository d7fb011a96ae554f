"""Functions of cells in tests: what foreign code may do, and what it tries."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

_state: dict[str, int] = {}


def setup(parent: int = 0, folder: str = "", home: str = "") -> dict[str, Any]:
    """Returns what can be called."""
    with contextlib.suppress(ImportError):  # a system's own Python may lack it
        import numpy  # as task code does, before the cell closes itself

    def threads() -> list[int]:
        idents: list[int] = []
        threads = [threading.Thread(target=lambda: idents.append(threading.get_ident())) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [len(idents), int(numpy.linalg.norm(numpy.ones((64, 64)) @ numpy.ones((64, 64))))]

    def own_folder() -> str:
        (Path(folder) / "made").write_text("mine")
        return (Path(folder) / "made").read_text()

    def unix(name: str) -> None:
        with socket.socket(socket.AF_UNIX) as opened:
            opened.connect(name)

    def udp() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as opened:
            opened.sendto(b"secret", ("127.0.0.1", 9))

    def sent_over_a_connection() -> None:
        """sendmsg with an address, past `sendto`."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as opened:
            opened.sendmsg([b"secret"], [], 0, ("127.0.0.1", 9))

    def listening() -> None:
        with socket.socket() as opened:
            opened.bind(("127.0.0.1", 0))

    def memory() -> int:
        return len(bytearray(4 << 30))

    def large_file() -> None:
        with (Path(folder) / "large").open("wb") as file:
            for _ in range(64):
                file.write(bytes(8 << 20))

    def computing() -> None:
        signal.signal(signal.SIGXCPU, signal.SIG_IGN)
        while True:
            pass

    def traced() -> int:
        return _errno(ctypes.CDLL(None, use_errno=True).ptrace(16, parent, 0, 0))

    def limits_raised() -> None:
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (-1, -1))

    def older_table() -> int:
        """A call by x86-64's second table, past a filter that knows the first alone."""
        return _errno(ctypes.CDLL(None, use_errno=True).syscall(0x40000000 + 42, 0, 0, 0))

    def stored(name: str) -> int:
        _state[name] = _state.get(name, 0) + 1
        return _state[name]

    def forged() -> str:
        """Writes a reply of its own to every descriptor that it can find."""
        reply = b'{"value": "forged"}'
        for number in range(3, 64):
            try:
                os.write(number, len(reply).to_bytes(8, "little") + reply)
            except OSError:
                continue
        return "true"

    def waits() -> None:
        """Leaves its group, if it may, says which process it is, and sleeps."""
        with contextlib.suppress(OSError):
            os.setsid()
        (Path(folder) / "pid").write_text(str(os.getpid()))
        time.sleep(600)

    return {
        "environment": lambda: dict(os.environ),
        "parents_environment": lambda: Path(f"/proc/{parent}/environ").read_text(),
        "home": lambda: [file.name for file in Path(home).iterdir()],
        "password_file": lambda: Path("/etc/passwd").read_text(),
        "outside_write": lambda: Path(f"{home}/written").write_text("x"),
        "tcp": lambda: socket.create_connection(("127.0.0.1", 22)),
        "udp": udp,
        "message": sent_over_a_connection,
        "listening": listening,
        "dns": lambda: socket.gethostbyname("example.com"),
        "abstract_socket": lambda: unix("\0lyncean"),
        "docker_socket": lambda: unix("/var/run/docker.sock"),
        "kill": lambda: os.kill(parent, signal.SIGTERM),
        "kill_all": lambda: os.kill(-1, signal.SIGTERM),
        "fork": os.fork,
        "subprocess": lambda: subprocess.run(["true"], check=True),
        "memory": memory,
        "large_file": large_file,
        "computing": computing,
        "sleeping": lambda: time.sleep(60),
        "traced": traced,
        "limits_raised": limits_raised,
        "older_table": older_table,
        "threads": threads,
        "own_folder": own_folder,
        "stored": stored,
        "forged": forged,
        "ended": lambda: os._exit(3),
        "add": lambda a, b: a + b,
        "not_json": lambda: {1, 2},
        "doubled": lambda descriptor, target, times: os.write(target, os.pread(descriptor, 99, 0) * times),
        "raises": lambda: {}["absent"],
        "waits": waits,
        "program_waits": lambda: subprocess.run(["/bin/sh", "-c", f"echo $$ > {folder}/pid; sleep 600"], check=True),
        "program": lambda: subprocess.run(["/bin/echo", "hello"], capture_output=True, text=True, check=True).stdout,
    }


def _errno(result: int) -> int:
    return ctypes.get_errno() if result < 0 else 0


def without_seccomp() -> dict[str, Any]:
    """As on a machine whose numbers of system calls are not known."""
    from lyncean.cell import closing

    closing.MACHINES.clear()
    return {}


def pretending(layer: str) -> dict[str, Any]:
    """A layer says that it is in force and is not."""
    from lyncean.cell import closing

    setattr(closing, f"_{layer}", lambda *_: (layer,))
    return {}


def failing() -> dict[str, Any]:
    """A setup that lacks a package."""
    import nowhere_at_all  # type: ignore[import-not-found]  # noqa: F401

    return {}
