"""A model server for every task: it answers "A" and draws a grey image where one is asked for."""

from __future__ import annotations

from lyncean.model.v1 import model_pb2 as model
from model_server.kit import Model, Output, Request, main
from orchestrator.benchmarks.drawing import png


class Drawer(Model):
    name = "drawer"
    image_output = True

    def generate(self, request: Request) -> str | Output:
        if request.modality != model.MODALITY_IMAGE:
            return "A"
        from PIL import Image

        return Output("Here.", image_files=[png(Image.new("L", (8, 8), 128))])


if __name__ == "__main__":
    main(Drawer)
