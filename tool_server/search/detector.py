"""Open-vocabulary detectors of transformers: OWL-ViT, OWLv2, Grounding DINO and others of its automatic class."""

from __future__ import annotations

import hashlib
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol

from lyncean.errors import UserError
from tool_server.search.hierarchy import Box, Detection

if TYPE_CHECKING:
    from PIL import Image

_NOT_OF_MODEL = {".git", ".cache", ".gitattributes", "README.md"}


class Detector(Protocol):
    """A detector of objects by their names."""

    revision: str
    """Changes whenever a detection may change."""

    def detect(self, image: Image.Image, name: str) -> list[Detection]:
        """Returns the detections of an object in an RGB image, in its pixels, weak ones included."""


class TransformersDetector:
    """A detector of transformers, one image at a time.

    Args:
        model: Folder or hub id of a checkpoint with safetensors.
        revision: Commit, branch or tag of a hub id.
        device: "cpu", "cuda", "cuda:1", or "auto".
        dtype: "float32", "bfloat16" or "float16".

    Raises:
        UserError: A package is missing, or the checkpoint is not a detector.
    """

    def __init__(self, model: str, revision: str | None = None, device: str = "auto", dtype: str = "float32") -> None:
        try:
            from lyncean.transformers_import import torch, transformers
        except ImportError as error:
            raise UserError(
                f"visual search needs torch and transformers ({error}): pip install 'lyncean[transformers]'"
            ) from error
        folder = _folder(model, revision)
        self._device = ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device
        self._lock = Lock()
        try:
            self._processor: Any = transformers.AutoProcessor.from_pretrained(folder, backend="pil")  # type: ignore[no-untyped-call]
            loaded = transformers.AutoModelForZeroShotObjectDetection.from_pretrained(
                folder, dtype=getattr(torch, dtype), use_safetensors=True
            )
            self._model: Any = loaded.to(self._device).eval()
        except (OSError, ValueError, KeyError, RuntimeError, AttributeError) as error:
            line = (str(error).splitlines() or [type(error).__name__])[0]
            raise UserError(f"{model} is not a checkpoint of an open-vocabulary detector: {line}") from error
        facts = (_hash(folder), torch.__version__, transformers.__version__, self._device, dtype)
        self.revision = hashlib.sha256("\n".join(facts).encode()).hexdigest()

    def detect(self, image: Image.Image, name: str) -> list[Detection]:
        """Returns the detections of an object; see `Detector`."""
        from lyncean.transformers_import import torch

        labels = [[name.replace(".", " ")]]  # a full stop divides names for Grounding DINO
        with self._lock, torch.inference_mode():
            inputs = self._processor(images=image, text=labels, return_tensors="pt", truncation=True).to(self._device)
            floats = {key: value.to(self._model.dtype) for key, value in inputs.items() if value.is_floating_point()}
            outputs = self._model(**{**inputs, **floats})
            result = self._processor.post_process_grounded_object_detection(
                outputs, threshold=0.0, target_sizes=[(image.height, image.width)], text_labels=labels
            )[0]
            boxes, scores = result["boxes"].float().tolist(), result["scores"].float().tolist()
        clipped = [(_clipped(box, image.size), score) for box, score in zip(boxes, scores, strict=True)]
        return [Detection(box, score) for box, score in clipped if box[0] < box[2] and box[1] < box[3]]


def _clipped(box: list[float], size: tuple[int, int]) -> Box:
    """Returns a box clipped to an image; a coordinate that is not finite makes it empty."""
    left, top, right, bottom = (min(max(0.0, at), float(size[index % 2])) for index, at in enumerate(box))
    return left, top, right, bottom


def _folder(model: str, revision: str | None) -> Path:
    if Path(model).is_dir():
        return Path(model)
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    try:
        return Path(snapshot_download(model, revision=revision, ignore_patterns=["*.bin", "*.pt", "*.msgpack", "*.h5"]))
    except (HFValidationError, HfHubHTTPError, OSError) as error:
        line = (str(error).splitlines() or [type(error).__name__])[0]
        raise UserError(f"{model} is neither a folder nor a model of the hub that can be read: {line}") from error


def _hash(folder: Path) -> str:
    """Returns a hash of the files of a checkpoint."""
    digest = hashlib.sha256()
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = file.relative_to(folder)
        if name.parts[0] in _NOT_OF_MODEL:
            continue
        with file.open("rb") as opened:
            digest.update(f"{name}\0".encode() + hashlib.file_digest(opened, "sha256").digest())
    return digest.hexdigest()
