"""An OpenAI-compatible HTTP front before a ModelService."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from lyncean.errors import UserError

if TYPE_CHECKING:
    from lyncean.rpc import Credentials, ServerConfig
    from lyncean_openai_front.serve import Beside
    from model_server.service import ModelServicer


class OpenAIFront:
    """The front `openai`; its packages are imported on use."""

    name = "openai"

    def run(self, endpoint: str, config: ServerConfig, credentials: Credentials, timeout: float) -> None:
        """Serves before a model server until a signal; errors as `serve.run`, and UserError without the extra."""
        try:
            from lyncean_openai_front.serve import run
        except ModuleNotFoundError as error:
            _missing(error)
        run(endpoint, config, credentials, timeout)

    def beside(self, servicer: ModelServicer, config: ServerConfig, port: int) -> Beside:
        """Returns the front beside a gRPC server; errors as `Beside`, and UserError without the extra."""
        try:
            from lyncean_openai_front.serve import Beside
        except ModuleNotFoundError as error:
            _missing(error)
        return Beside(servicer, config, port)


def _missing(error: ModuleNotFoundError) -> NoReturn:
    raise UserError(f"{error.name} is not installed: pip install 'lyncean[http]'") from error


FRONT = OpenAIFront()
