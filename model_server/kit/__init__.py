"""The kit for a model server in Python: subclass `Model`, implement `generate`, call `main`."""

from model_server.kit.main import command, main
from model_server.kit.model import Model, Output, Request, Score

__all__ = ["Model", "Output", "Request", "Score", "command", "main"]
