"""Folders of VOILA images, and three of them in one picture: VOILA's other form of input."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from pathlib import Path

from PIL import Image

from lyncean.media.pictures import open_image
from orchestrator.benchmarks.voila.rules import Spec
from orchestrator.benchmarks.voila.texts import SPECS, describe, file_prefix
from orchestrator.data.digest import digest_files
from orchestrator.data.images import encoded
from orchestrator.data.rows import DataError

GAP = 50
"""White columns between two images of a collage, in pixels."""
_PICTURE = re.compile(r"(.*_)[^_]*\.(?:png|jpe?g|webp)", re.IGNORECASE)


class ImageFolder:
    """A folder of files named {number}_{subject}_{action}_{anything}.png."""

    def __init__(self, path: Path) -> None:
        """Lists the folder once; its order on disk plays no part.

        Raises:
            DataError: The folder or the file does not exist.
        """
        self.path = path
        prefixes = {file_prefix(spec): spec for spec in SPECS}
        self._files: dict[Spec, list[str]] = {}
        try:
            names = sorted(entry.name for entry in path.iterdir())
        except OSError as error:
            raise DataError(f"{path} cannot be read as a folder of images: {error.strerror or error}") from error
        for name in names:
            match = _PICTURE.fullmatch(name)
            spec = prefixes.get(match[1].lower()) if match else None
            if spec:
                self._files.setdefault(spec, []).append(name)
        if not self._files:
            raise DataError(f"{path} holds no VOILA image; their names are like two_cats_driving a car_3.png")

    def files(self, spec: Spec) -> list[str]:
        """Returns the names of a spec's files, sorted.

        Raises:
            DataError: There is none.
        """
        data = self._files.get(spec)
        if not data:
            raise DataError(
                f"{self.path} has no image of {describe(spec)!r}: {file_prefix(spec)}<n>.png is needed "
                f"(it has images of {len(self._files)} of the {len(SPECS)} things that VOILA shows)"
            )
        return data

    def first(self, spec: Spec) -> str:
        """Returns the name of the file that testing shows; the published test set has one file for each spec."""
        return self.files(spec)[0]

    def digest(self) -> str:
        """Returns a digest of the images that testing shows: the first of each spec."""
        return digest_files((files[0], self.path / files[0]) for files in self._files.values())


class TrainingDraw:
    """Each spec's files in turn, in a seeded order: their uses differ by one at most.

    Two draws of one spec in a row are two files, unless it has only one.
    """

    def __init__(self, folder: ImageFolder, seed: int) -> None:
        self._folder = folder
        self._seed = seed
        self._order: dict[Spec, list[str]] = {}
        self._used: dict[Spec, int] = {}

    def __call__(self, spec: Spec) -> str:
        """Returns the name of the file to show."""
        if spec not in self._order:
            self._order[spec] = self._folder.files(spec)[:]
            random.Random(f"{self._seed}|{file_prefix(spec)}").shuffle(self._order[spec])
        used = self._used.get(spec, 0)
        self._used[spec] = used + 1
        return self._order[spec][used % len(self._order[spec])]


def collage(images: Sequence[bytes]) -> bytes:
    """Returns images side by side as an RGB PNG.

    Each is scaled (Lanczos, aspect kept, width rounded down) to the largest height; white gaps
    of `GAP` pixels stand between them and none around them.

    Args:
        images: Encoded images.

    Raises:
        OSError: One cannot be decoded.
    """
    opened = [open_image(data).convert("RGB") for data in images]
    height = max(image.height for image in opened)
    scaled = [
        image.resize((max(1, int(image.width * height / image.height)), height), Image.Resampling.LANCZOS)
        for image in opened
    ]
    canvas = Image.new("RGB", (sum(image.width for image in scaled) + GAP * (len(scaled) - 1), height), "white")
    left = 0
    for image in scaled:
        canvas.paste(image, (left, 0))
        left += image.width + GAP
    return encoded(canvas)
