"""Loads a checkpoint: model, processor, and the facts that identify them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers as tf
from safetensors import SafetensorError, safe_open
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
)

import model_server.hf.compat  # noqa: F401  (makes the next imports work)
from model_server.backend import LoadError
from model_server.hf.settings import Settings

_KEPT_SETTINGS = ("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id", "generation_kwargs")
_POINTER = b"version https://git-lfs"
_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True)
class Checkpoint:
    """A loaded model.

    Attributes:
        model: The `transformers` model, in evaluation mode.
        processor: Its processor; for a text-only model the tokenizer.
        tokenizer: Its tokenizer.
        kind: The config's `model_type`.
        has_vision: Whether it takes images.
        revision: Identity of the weights.
        context: Tokens of prompt and output together; 0 where the config does not say.
        template: The chat template; "" where there is none.
    """

    model: Any
    processor: Any
    tokenizer: Any
    kind: str
    has_vision: bool
    revision: str
    context: int
    template: str

    @property
    def device(self) -> torch.device:
        """Where inputs go."""
        return torch.device(self.model.device)


def load(settings: Settings) -> Checkpoint:
    """Loads what the settings name.

    Raises:
        LoadError: With the cause and the fix in one line.
    """
    device = _device(settings.device)
    shared = {"trust_remote_code": settings.trust_remote_code}
    if settings.revision:
        shared["revision"] = settings.revision  # type: ignore[assignment]
    folder = Path(settings.model)
    try:
        if folder.is_dir():
            check_files(_weight_files(folder))
        config = tf.AutoConfig.from_pretrained(settings.model, **shared)
        auto, has_vision = _class_for(config, settings)
        maker = tf.AutoProcessor if has_vision else tf.AutoTokenizer
        processor = maker.from_pretrained(settings.model, **shared)
        with ThreadPoolExecutor(1) as pool:
            revision = pool.submit(_revision, folder, config)
            model = _weights(auto, settings, device, shared)
            digest = revision.result()
    except (OSError, ValueError, ImportError, KeyError, AttributeError, RuntimeError) as error:
        raise LoadError(f"cannot load {settings.model}: {_cause(error, settings)}") from error
    tokenizer = getattr(processor, "tokenizer", processor)
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    template = _template(settings, processor, tokenizer)
    text = model.config.get_text_config()
    context = getattr(text, "max_position_embeddings", None) or getattr(text, "n_positions", None) or 0
    return Checkpoint(model, processor, tokenizer, config.model_type, has_vision, digest, int(context), template)


def _weights(auto: Any, settings: Settings, device: str, shared: dict[str, Any]) -> Any:
    dtype = _DTYPES.get(settings.dtype, "auto")
    if settings.dtype not in _DTYPES and settings.dtype != "auto":
        raise LoadError(f"--dtype {settings.dtype} is unknown: one of {', '.join(_DTYPES)}, auto")
    if dtype == "auto" and device == "cpu":
        dtype = torch.float32
    spread = settings.device == "auto" and torch.cuda.device_count() > 1
    model, report = auto.from_pretrained(
        settings.model,
        dtype=dtype,
        attn_implementation=None if settings.attention == "auto" else settings.attention,
        device_map="auto" if spread else None,
        output_loading_info=True,
        **shared,
    )
    missing = sorted(report["missing_keys"]) + sorted(str(key) for key in report["mismatched_keys"])
    if missing:
        raise LoadError(
            f"{settings.model} lacks {len(missing)} weights of {type(model).__name__} ({missing[0]}, ...): "
            "they would be random; is the download complete, and is it this architecture?"
        )
    _forget_sampling(model)
    model = model.eval()
    return model if spread else model.to(device)


def _forget_sampling(model: Any) -> None:
    """Keeps of generation settings which tokens begin and end an output.

    From the rest, penalties, beams and forbidden words among it, the library fills in whatever a request leaves open.
    """
    for part in model.modules():
        settings = getattr(part, "generation_config", None)
        if settings is not None:
            kept = {name: getattr(settings, name) for name in _KEPT_SETTINGS if hasattr(settings, name)}
            part.generation_config = tf.GenerationConfig(**kept)  # type: ignore[no-untyped-call]


def _device(name: str) -> str:
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        kind = torch.device(name).type
    except RuntimeError as error:
        raise LoadError(f"--device {name} is unknown: cpu, cuda, cuda:N or auto") from error
    if kind == "cuda" and not torch.cuda.is_available():
        raise LoadError(f"--device {name}: this torch sees no GPU; use --device cpu, or a CUDA build of torch")
    return name


def _class_for(config: Any, settings: Settings) -> tuple[Any, bool]:
    kind = config.model_type
    if kind in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES:
        return tf.AutoModelForImageTextToText, True
    if kind in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        return tf.AutoModelForCausalLM, False
    remote = getattr(config, "auto_map", None) or {}
    if settings.trust_remote_code and "AutoModelForImageTextToText" in remote:
        return tf.AutoModelForImageTextToText, True
    if settings.trust_remote_code and "AutoModelForCausalLM" in remote:
        return tf.AutoModelForCausalLM, False
    raise LoadError(f"{settings.model} is of type {kind!r}, which is neither an image-text nor a causal language model")


def _cause(error: Exception, settings: Settings) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    if not Path(settings.model).exists() and ("not a valid model identifier" in text or "couldn't connect" in text):
        return "there is no such folder, and no such model could be reached on the hub"
    if "trust_remote_code" in text:
        return "it comes with code of its own: add --trust-remote-code if you trust it"
    return text if len(text) <= 400 else f"{text[:400]}..."


def _template(settings: Settings, processor: Any, tokenizer: Any) -> str:
    if settings.chat_template:
        try:
            template = settings.chat_template.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise LoadError(f"--chat-template {settings.chat_template} cannot be read as text: {error}") from error
        processor.chat_template = template
        return template
    template = getattr(processor, "chat_template", None) or getattr(tokenizer, "chat_template", None) or ""
    if isinstance(template, dict):
        template = template.get("default", "")
    return str(template)


def _revision(folder: Path, config: Any) -> str:
    if not folder.is_dir():
        return str(getattr(config, "_commit_hash", None) or "")
    return content_hash(_weight_files(folder))


def _weight_files(folder: Path) -> list[Path]:
    for index, pattern in (
        ("model.safetensors.index.json", "*.safetensors"),
        ("pytorch_model.bin.index.json", "pytorch_model*.bin"),
    ):
        listed = folder / index
        if listed.exists():
            names = set(json.loads(listed.read_text(encoding="utf-8"))["weight_map"].values())
            return sorted(folder / name for name in names)
        files = sorted(folder.glob(pattern))
        if files:
            return files
    return []


def check_files(files: Iterable[Path]) -> None:
    """Opens weight files and reads what they say of themselves, no weights.

    Raises:
        LoadError: One is missing, may not be read, or is cut short or damaged; with the cause and the fix.
    """
    for file in files:
        try:
            with file.open("rb") as stream:
                head = stream.read(len(_POINTER))
        except FileNotFoundError as error:
            raise LoadError(f"{file} is missing: download the checkpoint again") from error
        except OSError as error:
            raise LoadError(
                f"{file} cannot be read ({error.strerror}): check its owner, its mode and that it is a file"
            ) from error
        if head == _POINTER:
            raise LoadError(f"{file} is a pointer of git-lfs and not the weights: run git lfs pull")
        if not head:
            raise LoadError(f"{file} is empty: download it again")
        if file.suffix == ".safetensors":
            try:
                with safe_open(file, "np"):
                    pass
            except SafetensorError as error:
                raise LoadError(f"{file} is cut short or damaged ({error}): download it again") from error


def content_hash(files: Iterable[Path]) -> str:
    """Returns "sha256:..." over the files' contents, in their order; "" for no files."""
    total, any_file = hashlib.sha256(), False
    for path in files:
        any_file = True
        with path.open("rb") as stream:
            total.update(hashlib.file_digest(stream, "sha256").digest())
    return f"sha256:{total.hexdigest()}" if any_file else ""


def text_hash(text: str) -> str:
    """Returns a text's SHA-256 in hexadecimal; "" for no text."""
    return hashlib.sha256(text.encode()).hexdigest() if text else ""
