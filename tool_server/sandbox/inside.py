"""Code of a session's process, which runs a model's code, one call after the other, with its variables kept.

The model's code controls this process and may change any module in it: only the bounds of the kernel and of
`tool_server.sandbox.session` hold.
"""

from __future__ import annotations

import ast
import base64
import builtins
import contextlib
import importlib
import io
import json
import linecache
import math
import os
import random
import re
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tool_server.sandbox.limits import FOLDER, LIBRARIES
from tool_server.sandbox.screen import Screen, picture_of, picture_of_array
from tool_server.sandbox.steady import hold

_ADDRESS = re.compile(r"\bat 0x[0-9a-f]+")
_KINDS = ("png", "jpg", "jpeg", "webp", "bmp", "gif", "tif", "tiff")
_MOST_FRAMES = 20


def load(folder: str) -> dict[str, Callable[..., Any]]:
    """Imports the libraries that code uses; runs before any session is made.

    Args:
        folder: Folder for the libraries' own files.
    """
    os.environ |= {"MPLCONFIGDIR": folder, "MPLBACKEND": "agg", "HOME": folder}
    from PIL import Image

    Image.init()
    for name in LIBRARIES:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    with contextlib.suppress(ImportError):
        importlib.import_module("matplotlib.pyplot")
    if cv2 := sys.modules.get("cv2"):
        cv2.setNumThreads(0)
    return {}


def setup(folder: str, bounds: Mapping[str, int]) -> dict[str, Callable[..., Any]]:
    """Returns the one function of a session; its arguments are those of `_Notebook.run`.

    Args:
        folder: The session's folder.
        bounds: Arguments of `Screen`.
    """
    os.chdir(folder)
    os.environ |= {"HOME": FOLDER, "TMPDIR": folder}
    tempfile.tempdir = folder  # the default is probed by removing a file, which the fence refuses
    hold()
    return {"run": _Notebook(folder, bounds).run}


class _Notebook:
    def __init__(self, folder: str, bounds: Mapping[str, int]) -> None:
        from PIL import Image, ImageShow

        self._folder, self._bounds = folder, bounds
        self._screen = Screen(**bounds)
        self._names: dict[str, Any] = {"__name__": "__main__", "__builtins__": builtins, "display": self.display}
        self._names |= {"Image": Image, "math": math, "json": json, "os": os, "random": random, "re": re}
        for name, module in {"np": "numpy", "cv2": "cv2", "plt": "matplotlib.pyplot"}.items():
            if module in sys.modules:
                self._names[name] = sys.modules[module]
        self._pyplot = sys.modules.get("matplotlib.pyplot")
        if self._pyplot:
            vars(self._pyplot)["show"] = lambda *_, **__: self._figures()
        vars(ImageShow)["show"] = lambda image, *_, **__: self.display(image)

    def run(self, code: str, number: int, images: list[str], first: int) -> dict[str, Any]:
        """Runs code; returns its output.

        Args:
            code: The code.
            number: Number of the call in its session.
            images: New images of the conversation, as base64.
            first: Number of the first of them.
        """
        reply = _reply  # the code may replace it
        self._screen = screen = Screen(**self._bounds)
        for index, data in enumerate(images, first):
            self._introduce(base64.b64decode(data), index)
        before, streams = self._files(), (sys.stdout, sys.stderr, sys.stdin)
        sys.stdout = sys.stderr = screen
        sys.stdin = io.StringIO()
        try:
            error = self._tried(code.replace(FOLDER, self._folder), f"<call {number}>")
            with contextlib.suppress(Exception):
                self._figures()
            if not screen.shown:
                self._saved(before)
        finally:
            sys.stdout, sys.stderr, sys.stdin = streams
        return reply(screen.pieces(), error, number, self._folder)

    def _introduce(self, data: bytes, number: int) -> None:
        """Adds an image of the conversation to the session, as a file and as a variable."""
        from PIL import Image

        try:
            image = Image.open(io.BytesIO(data))
        except Exception:
            self._names[f"image_{number}"] = None
            return
        kind = {"JPEG": "jpg"}.get(image.format or "", (image.format or "png").lower())
        Path(self._folder, f"image_{number}.{kind}").write_bytes(data)
        self._names[f"image_{number}"] = image

    def _tried(self, code: str, name: str) -> str:
        """Runs code; returns the traceback of its exception, "" without one."""
        linecache.cache[name] = len(code), None, code.splitlines(keepends=True), name
        try:
            self._execute(code, name)
        except SystemExit as error:
            return f"SystemExit: {error.code}\n" if error.code else ""
        except BaseException as error:
            return _traceback_of(error)
        return ""

    def _execute(self, code: str, name: str) -> None:
        tree = ast.parse(code, name)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, name, "exec"), self._names)  # noqa: S102
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), name, "eval"), self._names)  # noqa: S307
            self._names["_"] = value
            if value is not None:
                self._show(value, picture_of(value))

    def display(self, *values: Any) -> None:
        """Shows images, figures and arrays of pixels as images, and other values as text."""
        for value in values:
            self._show(value, picture_of(value) or picture_of_array(value))

    def _show(self, value: Any, image: Any) -> None:
        if image is None:
            self._screen.write(f"{value!r}\n")
            return
        self._screen.image(image)
        if self._pyplot and hasattr(value, "savefig"):
            self._pyplot.close(value)

    def _figures(self) -> None:
        """Shows the open figures, and closes them."""
        if pyplot := self._pyplot:
            for number in pyplot.get_fignums():
                self.display(pyplot.figure(number))

    def _files(self) -> dict[Path, tuple[int, int]]:
        """Returns the image files of the folder, with their times and sizes."""
        facts = {}
        for path in _below(Path(self._folder)):
            if path.suffix[1:].lower() in _KINDS:
                about = path.lstat()
                facts[path] = about.st_mtime_ns, about.st_size
        return facts

    def _saved(self, before: Mapping[Path, tuple[int, int]]) -> None:
        """Shows the saved images: those whose names were printed, in that order, or all, sorted by name."""
        from PIL import Image

        text = self._screen.text
        new = sorted(path for path, about in self._files().items() if before.get(path) != about)
        named = sorted((path for path in new if path.name in text), key=lambda path: text.index(path.name))
        for path in named or new:
            with contextlib.suppress(Exception), Image.open(path) as image:
                self._screen.image(image)


def _below(folder: Path) -> Iterator[Path]:
    folders = [str(folder)]
    while folders:
        with contextlib.suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                else:
                    yield Path(entry.path)


def _reply(pieces: list[tuple[str, str]], error: str, number: int, folder: str) -> dict[str, Any]:
    steady = [(kind, _steady(text, folder) if kind == "text" else text) for kind, text in pieces]
    return {"call": number, "pieces": steady, "error": _steady(error, folder)}


def _steady(text: str, folder: str) -> str:
    """Returns a text without the parts that differ from run to run: the folder's name, and addresses."""
    return _ADDRESS.sub("at 0x0", text.replace(folder, FOLDER))


def _traceback_of(error: BaseException) -> str:
    """Returns an error's traceback with the frames of the model's own code."""
    report = traceback.TracebackException.from_exception(error, limit=-500)
    chain: traceback.TracebackException | None = report
    while chain is not None:
        frames = [frame for frame in chain.stack if frame.filename.startswith("<call ")]
        chain.stack = traceback.StackSummary.from_list(frames[-_MOST_FRAMES:])
        chain = chain.__cause__ or chain.__context__
    return "".join(report.format())
