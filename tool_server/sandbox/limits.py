"""Bounds of the code that a model writes: plain values, read without NumPy or Pillow."""

from __future__ import annotations

from dataclasses import dataclass

TOOL = "python"
"""Name of the tool."""
FOLDER = "/session"
"""Name of a session's folder in code and results: the real one differs from session to session."""
NOTHING = "[no output]"
"""Result of code that shows nothing."""
IMAGE_BYTES = 24 << 20
"""Bytes of the images of one result together; the contract allows 32 MiB."""
LIBRARIES = ("numpy", "PIL", "matplotlib", "cv2", "scipy")
"""Packages on whose versions results depend; those after the second may be missing."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of a session's code.

    Attributes:
        seconds: Processor time of one call.
        wall: Seconds of one call by the clock: code may wait.
        memory: Bytes that a session may take beyond the libraries.
        disk: Bytes of the files in a session's folder.
        files: Files and folders in it.
        characters: Characters of text in one result.
        images: Images in one result.
        pixels: Pixels of an image in a result.
    """

    seconds: float = 20.0
    wall: float = 60.0
    memory: int = 512 << 20
    disk: int = 64 << 20
    files: int = 1000
    characters: int = 20_000
    images: int = 8
    pixels: int = 4 << 20
