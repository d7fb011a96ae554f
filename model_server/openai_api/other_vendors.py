"""The `litellm` backend: APIs of other vendors than OpenAI, in the form of chat completions, by the library litellm."""

from __future__ import annotations

import os
from typing import Any

import openai

from lyncean.rpc import InternalFailure, StatusError
from model_server.backend import LoadError
from model_server.metrics import Metrics
from model_server.openai_api.backend import OpenAIBackend
from model_server.openai_api.client import Endpoint, Settings, check_url, key_in

_PRICES_HERE = "LITELLM_LOCAL_MODEL_COST_MAP"
"""Without it the library fetches a list of prices while it is imported."""


class LiteLLMBackend(OpenAIBackend):
    """A model of any vendor that litellm knows, as PROVIDER/MODEL.

    The library turns conversations, images, usage and errors into the form of OpenAI's; a setting that a vendor does
    not have fails, and is never silently left out.

    Args:
        settings: The model; the key is read from `key_file`, else from the vendor's own variable.
        metrics: The server's counters.
    """

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        super().__init__(settings, metrics)
        os.environ.setdefault(_PRICES_HERE, "True")
        import litellm

        litellm.telemetry = False
        litellm.suppress_debug_info = True
        litellm.drop_params = False
        self._library: Any = litellm
        self._limit_field = "max_tokens"

    def load(self) -> None:
        """Checks that the library knows the provider, and has its key.

        Raises:
            LoadError: If it does not.
        """
        settings = self._settings
        check_url(settings.base_url or "")
        try:
            _, provider, *_ = self._library.get_llm_provider(settings.model, api_base=settings.base_url)
        except Exception as error:
            first = settings.model.partition("/")[0]
            raise LoadError(
                f"litellm knows no provider of {settings.model!r}: give PROVIDER/MODEL, for example "
                f"anthropic/{first}, gemini/{first} or mistral/{first}"
            ) from error
        missing = self._library.validate_environment(settings.model, api_base=settings.base_url)["missing_keys"]
        if missing and not settings.key_file and not settings.base_url:
            raise LoadError(f"no key for {provider}: set {missing[0]}, or --api-key-file")
        self._endpoint = Endpoint(str(provider), 0)

    @property
    def _completions(self) -> Any:
        settings = self._settings
        key = key_in(settings.key_file) if settings.key_file else None

        async def send(*, timeout: float, extra_body: dict[str, Any] | None = None, **fields: Any) -> Any:
            try:
                return await self._library.acompletion(
                    **fields,
                    **(extra_body or {}),
                    timeout=timeout,
                    api_key=key,
                    api_base=settings.base_url,
                    max_retries=settings.retries,
                )
            except (openai.OpenAIError, StatusError):  # the library's own errors are those of OpenAI's
                raise
            except Exception as error:
                raise InternalFailure("bad_reply", f"litellm failed: {type(error).__name__}: {error}") from error

        return send
