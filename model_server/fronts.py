"""Fronts: other protocols before a ModelService, in a process of their own or beside the gRPC server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from lyncean.errors import UserError
from lyncean.plugins.registry import WORD, Registry

if TYPE_CHECKING:
    from lyncean.rpc import Credentials, ServerConfig
    from model_server.service import ModelServicer

DEFAULT = "openai"
"""The front of `--http-port`."""


class Beside(Protocol):
    """A front in the gRPC server's process, with that one's TLS, token and grace."""

    def start(self) -> None:
        """Answers from now on, with 503 until the model is loaded."""

    def drain(self) -> None:
        """Takes no more requests."""

    async def stop(self) -> None:
        """Drains, and waits for what is in flight."""


@runtime_checkable
class Front(Protocol):
    """A front, by the entry point `lyncean.fronts`."""

    @property
    def name(self) -> str:
        """Its name."""

    def run(self, endpoint: str, config: ServerConfig, credentials: Credentials, timeout: float) -> None:
        """Serves before the model server at `endpoint` until SIGTERM or SIGINT, then drains for `config.grace` seconds.

        Raises:
            BindError: If the port cannot be bound, or the port file not written.
            SecurityError: If TLS files cannot be read.
        """

    def beside(self, servicer: ModelServicer, config: ServerConfig, port: int) -> Beside:
        """Binds a port for a front to a servicer of this process; 0 picks a free one.

        Raises:
            BindError: If the port cannot be bound.
            SecurityError: If TLS files cannot be read.
        """


FRONTS: Registry[Front] = Registry("front", {DEFAULT: "lyncean_openai_front:FRONT"}, (Front,), names=WORD)


def front_named(name: str) -> Front:
    """Returns a front by its name.

    Raises:
        UserError: If there is none of this name, or it cannot be loaded.
    """
    try:
        return FRONTS.get(name)
    except LookupError as error:
        raise UserError(str(error.args[0])) from None
