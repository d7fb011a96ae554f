"""Settings of the `transformers` backend. No heavy imports, so that a command line stays quick."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lyncean.rpc.addresses import shown_place
from model_server.backend import LoadError
from model_server.hf import adapter as adapters

_BY_API = re.compile(r"(gpt-\d|chatgpt|o\d(-|$)|claude|gemini|grok)[^/]*$", re.IGNORECASE)
"""Names of models that vendors serve and no hub has."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings to load and run a checkpoint.

    Attributes:
        model: Folder or hub id.
        name: The model's name in results; "" takes the folder's or the hub id's.
        device: "cpu", "cuda", "cuda:N", or "auto": all GPUs by the library's placement, else CPU.
        dtype: "float32", "bfloat16", "float16", or "auto": the checkpoint's on a GPU, float32 on CPU.
        attention: Attention implementation of the library; "auto" is sdpa where the model has it, else eager.
        revision: Commit, branch or tag of a hub id.
        adapter: Folder or hub id of a PEFT adapter of this model; "" takes the model alone.
        chat_template: File with a template to use instead of the checkpoint's.
        trust_remote_code: Run the checkpoint's own code.
        processor: Settings of the image processor that replace those of its files.
        quantize: Quantization while loading: "bitsandbytes-8bit", "bitsandbytes-4bit" or "fp8"; None for none.
        max_batch: Most requests of one batch.
        batch_wait: Longest wait of a request for others to share its batch, in seconds.
        max_queue: Maximum number of queued requests.
        default_max_tokens: The value of an unset `max_output_tokens`, if the context allows it.
        image_cache_bytes: Bound on cached vision features; 0 caches none.
        max_image_pixels: Images of more pixels are refused.
    """

    model: str
    name: str = ""
    device: str = "auto"
    dtype: str = "auto"
    attention: str = "auto"
    revision: str | None = None
    adapter: str = ""
    chat_template: Path | None = None
    trust_remote_code: bool = False
    processor: Mapping[str, Any] = field(default_factory=dict)
    quantize: str | None = None
    max_batch: int = 8
    batch_wait: float = 0.005
    max_queue: int = 256
    default_max_tokens: int = 512
    image_cache_bytes: int = 512_000_000
    max_image_pixels: int = 100_000_000

    @property
    def processor_text(self) -> str:
        """The processor's settings in one order, as part of the model's identity."""
        return ",".join(f"{name}={json.dumps(value)}" for name, value in sorted(self.processor.items()))

    def check(self) -> None:
        """Refuses unusable settings before anything heavy is imported.

        Raises:
            LoadError: If the folder does not exist or holds no checkpoint.
        """
        adapters.check(self.model, self.adapter)
        folder = Path(self.model)
        if folder.is_file():
            raise LoadError(f"{folder} is a file: give the folder that save_pretrained wrote")
        if _BY_API.match(self.model) and not folder.exists():
            raise LoadError(
                f"{self.model} is not a folder or a hub id (owner/name): a model behind an API is openai:{self.model}, "
                f"or litellm:VENDOR/{self.model}"
            )
        no_id = self.model.startswith(("/", ".", "~")) or self.model.count("/") > 1 or re.search("[:@?]", self.model)
        if no_id and not folder.exists():
            raise LoadError(f"there is no folder {shown_place(self.model)}; a hub id has the form owner/name")
        if folder.is_dir() and not (folder / "config.json").exists():
            raise LoadError(f"{folder} holds no config.json: give the folder that save_pretrained wrote")
