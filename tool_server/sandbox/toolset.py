"""The sandbox as a toolset: one tool, `python`, with a process for each conversation."""

from __future__ import annotations

import hashlib
import json
import platform
import secrets
from collections.abc import Sequence
from dataclasses import asdict
from importlib import metadata
from pathlib import Path

import lyncean.cell
from lyncean.cell import CellError, Fence, Zygote, closes, holding
from lyncean.errors import UserError
from lyncean.model.v1 import model_pb2 as model
from tool_server.folders import own_folder, remove
from tool_server.sandbox.limits import FOLDER, NOTHING, TOOL, Limits
from tool_server.sandbox.session import READS, PythonSession
from tool_server.types import Session

_LOAD = "tool_server.sandbox.inside:load"
_PACKAGES = ("numpy", "pillow", "matplotlib", "opencv-python-headless", "opencv-python", "scipy")
_SCHEMA = {
    "type": "object",
    "properties": {"code": {"type": "string", "description": "Python code."}},
    "required": ["code"],
    "additionalProperties": False,
}


class Sandbox:
    """Runs a model's Python code; see `tool_server.types.Toolset`.

    Args:
        limits: Bounds of the code.

    Raises:
        UserError: Processes cannot be closed on this system.
    """

    stateful = True

    def __init__(self, limits: Limits | None = None) -> None:
        if not closes():
            raise UserError(
                f"a model's code cannot be closed in here: of {', '.join(lyncean.cell.LAYERS)} only "
                f"{', '.join(holding())} hold",
                fix="run the sandbox on Linux 5.13 or later, outside of gVisor",
            )
        self._limits = limits or Limits()
        self._base = own_folder("lyncean-code-")
        libraries = self._base / "libraries"
        libraries.mkdir()
        fence = Fence(READS, (str(self._base),), file_size=self._limits.disk)
        self._zygote = Zygote(_LOAD, {"folder": str(libraries)}, fence, {"PYTHONHASHSEED": "0"})
        self.revision = _revision(self._limits)

    def tools(self) -> Sequence[model.Tool]:
        """Returns the tool."""
        return [model.Tool(name=TOOL, description=self._description(), input_schema=json.dumps(_SCHEMA))]

    def _description(self) -> str:
        limits = self._limits
        return (
            "Runs Python code as a notebook does: variables are kept between calls, and printed text, the value of the "
            "last expression, and images come back. NumPy (np) and Pillow (Image) are imported, Matplotlib (plt) and "
            "OpenCV (cv2) where they are installed. The conversation's images are image_1, image_2 and so on "
            f"(Pillow images), and files of these names in {FOLDER}, the current folder. An image comes back by "
            "display(image), plt.show(), or as a file that is saved. There is no network, no other file, no process or "
            f"thread; a call may take {limits.seconds:g} seconds of processor time and {limits.memory >> 20} MiB, and "
            f"show {limits.images} images of {limits.pixels:,} pixels and {limits.characters:,} characters."
        )

    def open(self) -> Session:
        """Returns a new session."""
        folder = self._base / secrets.token_hex(8)
        folder.mkdir(mode=0o700)
        return PythonSession(self._zygote, folder, self._limits)

    def check(self) -> None:
        """Runs a line of code in a session.

        Raises:
            UserError: It cannot be run here.
        """
        session = self.open()
        try:
            output = session.call(TOOL, json.dumps({"code": "print(6 * 7)"}), ())
        except CellError as error:
            raise UserError(f"a model's code cannot be run here: {error}") from error
        finally:
            session.close()
        if output.content != ("42\n",):
            raise UserError(f"a model's code cannot be run here: {output.content[0]!r}")

    def close(self) -> None:
        """Ends all sessions and removes their folders."""
        self._zygote.close()
        remove(self._base)


def _revision(limits: Limits) -> str:
    """Returns a hash of everything that results depend on: this code, its bounds, and the libraries."""
    digest = hashlib.sha256(json.dumps([asdict(limits), NOTHING, _SCHEMA]).encode())
    folders = [Path(__file__).parent, Path(lyncean.cell.__file__).parent]
    for file in sorted(path for folder in folders for path in folder.glob("*.py")):
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    digest.update(f"{platform.python_version()} {platform.machine()}".encode())
    for name in _PACKAGES:
        try:
            digest.update(f"{name} {metadata.version(name)}".encode())
        except metadata.PackageNotFoundError:
            continue
    return f"python {digest.hexdigest()[:16]}"
