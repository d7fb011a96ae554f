"""Loads a checkpoint: model, processor, and the facts that identify them."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
import transformers as tf
from PIL import Image
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES,
)

import lyncean.transformers_import  # noqa: F401  (makes the next imports work)
from lyncean.media.types import Kind
from model_server.backend import LoadError
from model_server.hf import adapter as adapters
from model_server.hf.clips import audio_processor, clip_kinds
from model_server.hf.families import family_of
from model_server.hf.family import Family
from model_server.hf.files import check_files, content_hash, weight_files
from model_server.hf.settings import Settings

_KEPT_SETTINGS = ("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id", "generation_kwargs")
_VISION = ("vision_config", "vision_tower", "mm_vision_tower", "visual", "img_processor")
"""Settings of a config that say that the model has a vision encoder."""
_CALL = {"data_format", "device", "disable_grouping", "input_data_format", "return_tensors"}
"""Arguments of an image processor that say how it is called, not what it makes of an image."""
_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True)
class Checkpoint:
    """A loaded model.

    Attributes:
        model: The `transformers` model, in evaluation mode.
        processor: Its processor; for a text-only model the tokenizer.
        tokenizer: Its tokenizer.
        kind: The config's `model_type`.
        family: Behaviour of this model type.
        has_vision: Whether it takes images.
        clips: The kinds of clips that its processor takes.
        revision: Identity of the weights, and of what the settings change about the answers.
        context: Tokens of prompt and output together; 0 where the config does not say.
        template: The chat template; "" where there is none.
        image_settings: Settings of the user's that defaults of the processor would override at each call.
        quantization: Method by which the weights are quantized; "" where they are not.
    """

    model: Any
    processor: Any
    tokenizer: Any
    kind: str
    family: Family
    has_vision: bool
    clips: frozenset[Kind]
    revision: str
    context: int
    template: str
    image_settings: Mapping[str, Any] = field(default_factory=dict)
    quantization: str = ""

    @property
    def takes_media(self) -> bool:
        """True if it has a processor beside its tokenizer, for more than text."""
        return self.processor is not self.tokenizer

    @property
    def device(self) -> torch.device:
        """The device of its inputs."""
        return torch.device(self.model.device)

    @cached_property
    def ends(self) -> frozenset[int]:
        """Tokens that end an output, by the generation settings, else the config, else the tokenizer."""
        for source in (getattr(self.model, "generation_config", None), self.model.config, self.tokenizer):
            tokens = getattr(source, "eos_token_id", None)
            if tokens is not None:
                return frozenset([tokens] if isinstance(tokens, int) else tokens)
        return frozenset()


def load(settings: Settings) -> Checkpoint:
    """Loads the checkpoint of the settings.

    Raises:
        LoadError: With the cause and the fix in one line.
    """
    device = _device(settings.device)
    shared = {"trust_remote_code": settings.trust_remote_code}
    if settings.revision:
        shared["revision"] = settings.revision  # type: ignore[assignment]
    folder, adapter = Path(settings.model), adapters.find(settings.model, settings.adapter)
    try:
        if folder.is_dir():
            check_files(weight_files(folder))
        full_config = tf.AutoConfig.from_pretrained(settings.model, **shared)
        # Of models that also speak, only the part that reads and sees is loaded.
        config = getattr(full_config, "thinker_config", full_config)
        adapters.check_config(config, settings.model)
        auto = _class_for(config, settings)
        processor = _processor(auto, config, settings, shared)
        with ThreadPoolExecutor(1) as pool:
            revision = pool.submit(_revision, folder, full_config)
            model = _weights(auto, config, settings, device, shared)
            digest = revision.result()
        if adapter:
            adapters.put_into(model, adapter)
    except (OSError, ValueError, ImportError, KeyError, AttributeError, RuntimeError, TypeError) as error:
        raise LoadError(f"cannot load {settings.model}: {_cause(error, settings)}") from error
    tokenizer = getattr(processor, "tokenizer", processor)
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    template = _template(settings, processor, tokenizer)
    text = model.config.get_text_config()
    context = getattr(text, "max_position_embeddings", None) or getattr(text, "n_positions", None) or 0
    trained = f"adapter={content_hash(adapters.files(adapter))}" if adapter else ""
    changes = filter(None, (settings.quantize, settings.processor_text, trained))
    return Checkpoint(
        model,
        processor,
        tokenizer,
        config.model_type,
        family_of(config.model_type, model),
        image_processor(processor) is not None,
        clip_kinds(processor),
        "+".join((digest, *changes)),
        int(context),
        template,
        _overridden(processor, settings.processor),
        settings.quantize or _quantized(config),
    )


def image_processor(processor: Any) -> Any:
    """Returns the part of a processor that takes images; None without one."""
    return getattr(processor, "image_processor", None)


def _processor(auto: Any, config: Any, settings: Settings, shared: dict[str, Any]) -> Any:
    """Loads the processor, or only the tokenizer if the checkpoint has no other or the model takes text alone."""
    cause = ""
    try:
        processor = tf.AutoProcessor.from_pretrained(settings.model, **settings.processor, **shared)  # type: ignore[no-untyped-call]
    except (OSError, ValueError, ImportError, KeyError, AttributeError, RuntimeError, TypeError) as error:
        if auto is not tf.AutoModelForCausalLM:
            raise
        # A text model's files may name the processor of a larger relative, which they do not have.
        processor, cause = None, f": {_cause(error, settings)}"
    images, audio = image_processor(processor), audio_processor(processor)
    sees = auto is not tf.AutoModelForCausalLM and audio is None
    if images is None and (sees or any(getattr(config, name, None) for name in _VISION)):
        raise LoadError(
            f"{settings.model} ({config.model_type}) has no image processor that transformers can load{cause}; "
            + _elsewhere(settings)
        )
    if auto is tf.AutoModelForCausalLM and not _remote(auto, config, settings):
        images = audio = None  # text models of the library may lie beside the processor files of a larger relative
    if images is None and settings.processor:
        raise LoadError(f"--processor {settings.processor_text}: {settings.model} takes no images")
    if images is None and audio is None:
        return tf.AutoTokenizer.from_pretrained(settings.model, **shared)
    if settings.processor:
        _check_settings(images, settings)
    return processor


def _overridden(processor: Any, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the changes for which the processor has its own defaults, which override its image processor's."""
    defaults = set(getattr(processor, "images_kwargs", {}))
    defaults |= set(
        getattr(getattr(processor, "valid_processor_kwargs", None), "_defaults", {}).get("images_kwargs", ())
    )
    return {name: value for name, value in changes.items() if name in defaults}


def _check_settings(images: Any, settings: Settings) -> None:
    """Raises LoadError for a setting that the image processor does not have or cannot use."""
    kinds = getattr(images, "valid_kwargs", None)
    known = set(kinds.__annotations__) if kinds else set(images.to_dict())
    for name in settings.processor:
        if name not in known - _CALL:
            raise LoadError(
                f"--processor {name}: {type(images).__name__} has no such setting; it has "
                + ", ".join(sorted(known - _CALL))
            )
    try:
        images(images=[Image.new("RGB", (64, 64))], return_tensors="pt")
    except Exception as error:  # a processor may raise anything: the values are the user's
        raise LoadError(f"--processor {settings.processor_text}: {_cause(error, settings)}") from error


def _weights(auto: Any, config: Any, settings: Settings, device: str, shared: dict[str, Any]) -> Any:
    dtype = _DTYPES.get(settings.dtype, "auto")
    if settings.dtype not in _DTYPES and settings.dtype != "auto":
        raise LoadError(f"--dtype {settings.dtype} is unknown: one of {', '.join(_DTYPES)}, auto")
    if dtype == "auto" and device == "cpu":
        dtype = torch.float32
    spread = settings.device == "auto" and torch.cuda.device_count() > 1
    model, report = auto.from_pretrained(
        settings.model,
        config=config,
        dtype=dtype,
        attn_implementation=None if settings.attention == "auto" else settings.attention,
        # Each weight is loaded straight onto its device, so that the host never holds them all.
        device_map="auto" if spread else device,
        quantization_config=_quantization(settings, torch.bfloat16 if dtype == "auto" else dtype),
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
    return model.eval()


def _quantization(settings: Settings, dtype: Any) -> Any:
    """Returns the library's settings to quantize while loading and compute in `dtype`; None without --quantize."""
    if settings.quantize == "fp8":
        return tf.FineGrainedFP8Config()
    if settings.quantize == "bitsandbytes-8bit":
        return tf.BitsAndBytesConfig(load_in_8bit=True)  # type: ignore[no-untyped-call]
    if settings.quantize == "bitsandbytes-4bit":
        return tf.BitsAndBytesConfig(  # type: ignore[no-untyped-call]
            load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=dtype
        )
    if settings.quantize:
        raise LoadError(f"--quantize {settings.quantize} is unknown: bitsandbytes-8bit, bitsandbytes-4bit or fp8")
    return None


def _quantized(config: Any) -> str:
    """Returns the quantization method of a checkpoint, such as awq or gptq; "" for plain weights."""
    plan = getattr(config, "quantization_config", None) or {}
    method = plan.get("quant_method", "") if isinstance(plan, dict) else plan.quant_method
    return str(getattr(method, "value", method))


def _forget_sampling(model: Any) -> None:
    """Keeps only the generation settings that name tokens which begin and end an output.

    The library would apply the rest, such as penalties, beams and forbidden words, to unset fields of a request.
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


def _class_for(config: Any, settings: Settings) -> Any:
    kind = config.model_type
    if kind in MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES:
        return tf.AutoModelForMultimodalLM
    if kind in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        return tf.AutoModelForCausalLM
    for auto in (tf.AutoModelForMultimodalLM, tf.AutoModelForImageTextToText, tf.AutoModelForCausalLM):
        if _remote(auto, config, settings):
            return auto
    raise LoadError(
        f"{settings.model} is of type {kind!r}, which is neither a multimodal nor a causal language model of "
        f"transformers; {_elsewhere(settings)}"
    )


def _remote(auto: Any, config: Any, settings: Settings) -> bool:
    """Returns True if the checkpoint's own code implements the model for one of the library's classes."""
    return settings.trust_remote_code and auto.__name__ in (getattr(config, "auto_map", None) or {})


def _elsewhere(settings: Settings) -> str:
    """Names the commands that may serve a checkpoint which this backend refuses."""
    trust = " --trust-remote-code" if settings.trust_remote_code else ""
    return (
        f"vLLM may know it: vllm serve {settings.model}{trust}, "
        f"then --backend openai --model {settings.model} --base-url http://localhost:8000/v1"
    )


def _cause(error: Exception, settings: Settings) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    if not Path(settings.model).exists() and ("not a valid model identifier" in text or "couldn't connect" in text):
        return "there is no such folder, and no such model could be reached on the hub"
    if "trust_remote_code" in text:
        return "it comes with code of its own: add --trust-remote-code if you trust it"
    return text if len(text) <= 400 else f"{text[:400]}..."


def _revision(folder: Path, config: Any) -> str:
    if not folder.is_dir():
        return str(getattr(config, "_commit_hash", None) or "")
    return content_hash(weight_files(folder))


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
