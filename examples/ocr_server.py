"""A real model that serves the contract: OCR. Needs the package rapidocr-onnxruntime; `python examples/ocr_server.py`.

The package's weights (PP-OCRv4, 15 MB) are in its wheel. The answer to any question is the text in the images.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import numpy as np

from model_server.kit import Model, Request, main


class Ocr(Model):
    name = "rapidocr"
    multi_image = True
    max_concurrency = 1  # one call uses all cores
    engine: Any

    def load(self) -> None:
        from rapidocr_onnxruntime import RapidOCR

        self.revision = version("rapidocr-onnxruntime")
        self.engine = RapidOCR()

    def generate(self, request: Request) -> str:
        results = [self.engine(np.asarray(image)[:, :, ::-1])[0] for image in request.images]  # it takes BGR
        return "\n".join(text for lines in results for _, text, _ in lines or ())


if __name__ == "__main__":
    main(Ocr)
