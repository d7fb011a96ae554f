"""A TCP proxy on loopback that can go silent: connections stay, new ones are accepted, and no byte passes."""

from __future__ import annotations

import contextlib
import socket
import threading


class SilentProxy:
    """Forwards to a port of this host, but for the time in which `silent` is set; a context manager.

    Attributes:
        port: Where it listens.
        silent: While it is set, nothing passes in either direction.
    """

    def __init__(self, to: int) -> None:
        self._to = to
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.silent = threading.Event()
        self._sockets: list[socket.socket] = [self._listening]

    def __enter__(self) -> SilentProxy:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for connection in self._sockets:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                server = socket.create_connection(("127.0.0.1", self._to))
                self._sockets += [client, server]
                for source, target in ((client, server), (server, client)):
                    threading.Thread(target=self._forward, args=(source, target), daemon=True).start()

    def _forward(self, source: socket.socket, target: socket.socket) -> None:
        pause = threading.Event()
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                while self.silent.is_set():
                    pause.wait(0.02)
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
