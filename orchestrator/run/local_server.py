"""Servers of a run: started on a free loopback port, and always stopped with the run."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from lyncean.rpc.parent import with_parent
from lyncean.rpc.security import TOKEN_VARIABLE, TOOL_TOKEN_VARIABLE
from orchestrator.engine.resolve import Endpoint
from orchestrator.errors import ConfigError, EngineError, IncompleteError, UnreachableError

_OWN_SIGNALS = {-signal.SIGABRT, -signal.SIGSEGV, -signal.SIGBUS, -signal.SIGILL, -signal.SIGFPE}
"""Exit codes of a process whose own native code failed, which tells no reason: its last line may say why."""
_MODEL = "--model"
_KEPT = (TOKEN_VARIABLE, TOOL_TOKEN_VARIABLE)
"""Variables that no server that is started here gets."""
_STARTS_WITHIN = 60.0
_STOPS_WITHIN = 10.0
_ENDS_WITHIN = 5.0
"""Seconds between closing its port and being gone, with a large library to be let go of."""


class LocalServer:
    """A `python -P -m MODULE serve ...` process; use it as an async context manager.

    It is a session of its own, so that Ctrl-C reaches the orchestrator alone and calls in
    flight can end; the kernel ends it should the orchestrator be killed.

    Args:
        module: "model_server" or "scorer".
        arguments: What follows `serve`.
        reloads: Whether a checkpoint is given by a link, so that `reload` can put another in its place.
    """

    def __init__(self, module: str, arguments: Sequence[str] = (), *, reloads: bool = False) -> None:
        self._module = module
        self._folder = tempfile.TemporaryDirectory(prefix="lyncean-")
        self._link = Path(self._folder.name) / "model"
        self._arguments = tuple(arguments)
        if reloads and (path := checkpoint_of(arguments)):
            self._point_to(path)
            self._arguments = tuple(str(self._link) if word == path else word for word in arguments)
        self._log = Path(self._folder.name) / "log"
        self._reason = Path(self._folder.name) / "reason"
        self._process: subprocess.Popen[bytes] | None = None

    async def __aenter__(self) -> Endpoint:
        port_file = Path(self._folder.name) / "port"
        # -P: a file of the working folder, `scorer.py` for example, must not be run in place of ours.
        command = [sys.executable, "-P", "-m", self._module, "serve", "--port", "0", "--port-file", str(port_file)]
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(
                [*command, *self._arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=with_parent({name: value for name, value in os.environ.items() if name not in _KEPT}, self._reason),
                start_new_session=True,
            )
        started = time.monotonic()
        try:
            while not port_file.exists():
                code = self._process.poll()
                if code is not None:
                    raise self._failure(code)
                if time.monotonic() - started > _STARTS_WITHIN:
                    raise EngineError(f"{self._module} did not start within {_STARTS_WITHIN:.0f} s")
                await asyncio.sleep(0.02)
        except BaseException:
            await self._stop()
            raise
        return Endpoint("127.0.0.1", int(port_file.read_text()))

    async def __aexit__(self, *_: object) -> None:
        await self._stop()

    async def reload(self, checkpoint: str) -> None:
        """Lets the process load another checkpoint in place of its own; returns once that one answers no more.

        Raises:
            EngineError: It has ended.
        """
        assert self._process is not None
        port_file = Path(self._folder.name) / "port"
        port_file.unlink(missing_ok=True)
        self._point_to(checkpoint)
        self._process.send_signal(signal.SIGUSR1)
        while not port_file.exists():
            if (code := self._process.poll()) is not None:
                raise self._failure(code)
            await asyncio.sleep(0.02)

    def _point_to(self, checkpoint: str) -> None:
        new = self._link.with_suffix(".new")
        new.symlink_to(Path(checkpoint).resolve())
        new.replace(self._link)
        self._checkpoint = checkpoint

    @property
    def ended(self) -> bool:
        """True if the process was started and has ended."""
        return self._process is not None and self._process.poll() is not None

    async def watch(self) -> None:
        """Returns never; raises an EngineError that says why once the process has ended by itself."""
        while self._process is None or self._process.poll() is None:
            await asyncio.sleep(0.2)
        raise self._failure(self._process.returncode)

    async def explain(self, error: IncompleteError) -> NoReturn:
        """Raises why the process does not answer: its reason where it has ended by itself, else where it stands.

        Args:
            error: What was found of it from outside.

        Raises:
            EngineError: Always.
        """
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.watch(), _ENDS_WITHIN)
        raise UnreachableError(
            f"the {self._module.replace('_', ' ')} that was started here does not answer yet: {_last(self._log)}; "
            "give it longer by --patience, or run the same command again"
        ) from error

    def _failure(self, code: int) -> EngineError:
        name, last = self._module.replace("_", "-"), _last(self._log)
        if code <= 0:  # by a signal: another process's doing, the kernel's for want of memory among them
            how = f"by {signal.Signals(-code).name}" if code else "as it was told to"
            suffix = f" ({last})" if code in _OWN_SIGNALS and last else ""
            return IncompleteError(
                f"{name} has ended {how}{suffix}; every answer is safe: run the same command again to resume"
            )
        try:
            reason = self._reason.read_text(encoding="utf-8")
        except OSError:
            reason = f"exit code {code}" + (f"; the last line of its log is {last!r}" if last else "")
        if self._link.is_symlink():
            reason = reason.replace(str(self._link), self._checkpoint)
        return (ConfigError if code == 2 else EngineError)(f"{name} has ended: {reason}")

    async def _stop(self) -> None:
        process = self._process
        if process is not None and process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                await asyncio.to_thread(process.wait, _STOPS_WITHIN)
            except subprocess.TimeoutExpired:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        self._folder.cleanup()


class LocalServers:
    """Servers of our own for runs that follow one another; use it as an async context manager.

    There is one process of each module at a time. A run that asks for the arguments of the one before gets its
    server; other arguments end it first, so that its memory is free.

    Args:
        reloads: Whether a model server whose checkpoint alone is another loads that in place of its own.
    """

    def __init__(self, *, reloads: bool = False) -> None:
        self._reloads = reloads
        self._started: dict[str, tuple[tuple[str, ...], LocalServer, Endpoint]] = {}
        self._failed: set[str] = set()

    async def __aenter__(self) -> LocalServers:
        return self

    async def __aexit__(self, *_: object) -> None:
        for module in list(self._started):
            await self.stop(module)

    async def get(self, module: str, arguments: Sequence[str] = ()) -> tuple[LocalServer, Endpoint]:
        """Returns a server that was started with these arguments, and its address.

        Args:
            module: "model_server" or "scorer".
            arguments: What follows `serve`.

        Raises:
            EngineError: If it does not start.
        """
        known = self._started.get(module)
        if known and self._reloads and not known[1].ended and _other_checkpoint(known[0], arguments):
            self._started[module] = known = (tuple(arguments), *known[1:])
            await known[1].reload(checkpoint_of(arguments))
        if known is None or known[0] != tuple(arguments) or known[1].ended:
            await self.stop(module)
            self._failed.add(module)
            server = LocalServer(module, arguments, reloads=self._reloads)
            known = self._started[module] = (tuple(arguments), server, await server.__aenter__())
            self._failed.discard(module)
        return known[1:]

    def broken(self, module: str) -> bool:
        """Returns True if the last server of a module did not start, or ended by itself."""
        return module in self._failed or (module in self._started and self._started[module][1].ended)

    async def stop(self, module: str) -> None:
        """Ends the server of a module, if there is one."""
        if known := self._started.pop(module, None):
            await known[1].__aexit__()


def checkpoint_of(arguments: Sequence[str]) -> str:
    """Returns the folder that a model server's arguments load, "" where they load none."""
    path = arguments[arguments.index(_MODEL) + 1] if _MODEL in arguments[:-1] else ""
    return path if path and Path(path).is_dir() else ""


def _other_checkpoint(before: Sequence[str], arguments: Sequence[str]) -> bool:
    """Returns whether two servers' arguments differ in the folder that they load alone."""
    paths = [checkpoint_of(before), checkpoint_of(arguments)]
    rest = [[word for word in command if word not in paths] for command in (before, arguments)]
    return all(paths) and paths[0] != paths[1] and rest[0] == rest[1]


def _last(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else ""
