"""Imports `torch` and `transformers` so that they work side by side.

The torchvision wheel on the package index is built for CUDA; beside a CPU build of torch its own
library does not load, its operators stay undeclared and the import fails, although nothing
that image processors use is missing. Declaring the two names that its Python code
registers against makes the import succeed; the operators themselves are never called.
"""

from __future__ import annotations

import importlib.util
import os

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import torch

_KEPT: list[torch.library.Library] = []


def _declare_missing_operators() -> None:
    if importlib.util.find_spec("torchvision") is None:
        return
    try:
        import torchvision
    except RuntimeError as error:
        if "torchvision::" not in str(error):
            raise
        library = torch.library.Library("torchvision", "DEF")  # type: ignore[no-untyped-call]
        for name in ("nms", "qnms"):
            signature = f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
            library.define(signature)  # type: ignore[no-untyped-call]
        _KEPT.append(library)  # a collected library takes its declarations along
        _forget("torchvision")
        import torchvision  # noqa: F401


def _forget(package: str) -> None:
    import sys

    for name in [name for name in sys.modules if name == package or name.startswith(f"{package}.")]:
        del sys.modules[name]


_declare_missing_operators()

import transformers  # noqa: E402

transformers.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
transformers.logging.disable_progress_bar()  # type: ignore[no-untyped-call]

__all__ = ["torch", "transformers"]
