"""The fixtures of `helpers.model_serving`."""

from helpers.model_serving import ask, checkpoint_folder, endpoint, hf, picture_fixture, served

__all__ = ["ask", "checkpoint_folder", "endpoint", "hf", "picture_fixture", "served"]
