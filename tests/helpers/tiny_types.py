"""Tiny checkpoints of any multimodal type of `transformers`, by one principle and a table of corrections.

The type's own default config is shrunk: widths, layers, experts and vocabularies by the names that the library has for
them. Its processor is made of its own parts; the special tokens are those that the processor's source names. What the
principle does not know about a type stands in `TYPES`, as data.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import transformers as tf
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.feature_extraction_auto import FEATURE_EXTRACTOR_MAPPING_NAMES
from transformers.models.auto.image_processing_auto import IMAGE_PROCESSOR_MAPPING_NAMES
from transformers.models.auto.modeling_auto import MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES
from transformers.models.auto.processing_auto import PROCESSOR_MAPPING_NAMES
from transformers.models.auto.video_processing_auto import VIDEO_PROCESSOR_MAPPING_NAMES

from helpers.tiny import HEADS, LAYERS, TEMPLATE, VOCAB, WIDTH, save, tokenizer

_NARROW = WIDTH // 2
_MOST = 12_000_000
"""Parameters; more was not shrunk."""


@dataclass(frozen=True)
class Tiny:
    """Deviations of a type from the defaults.

    Attributes:
        config: Settings that replace those of the shrunk config, by dotted path; None removes one, and a function
            gets the tokenizer.
        image: Settings of the image processor.
        video: Those of the video processor.
        audio: Those of the feature extractor.
        processor: Those of the processor itself.
        parts: Classes of the processor ("processor", "image", "video", "audio") if the library names none.
        tokens: Special tokens by the tokenizer's attribute, such as "image_token".
        more: Further special tokens.
        ids: The token of a config's setting, where it is not the processor's or the tokenizer's of that name.
        marks: The chat template's text for an image, a video and audio; by default the processor's token.
        template: The chat template; "" if the type has none.
    """

    config: Mapping[str, Any] = field(default_factory=dict)
    image: Mapping[str, Any] = field(default_factory=dict)
    video: Mapping[str, Any] = field(default_factory=dict)
    audio: Mapping[str, Any] = field(default_factory=dict)
    processor: Mapping[str, Any] = field(default_factory=dict)
    parts: Mapping[str, str] = field(default_factory=dict)
    tokens: Mapping[str, str] = field(default_factory=dict)
    more: tuple[str, ...] = ()
    ids: Mapping[str, str] = field(default_factory=dict)
    marks: Mapping[str, str] = field(default_factory=dict)
    template: str = TEMPLATE


# Sizes by name: in the text part, and in all others.
_SIZES: dict[str, tuple[int, int]] = {
    "hidden_size": (WIDTH, _NARROW),
    "d_model": (WIDTH, _NARROW),
    "embed_dim": (WIDTH, _NARROW),
    "n_embd": (WIDTH, _NARROW),
    "intermediate_size": (2 * WIDTH, 2 * _NARROW),
    "ffn_dim": (2 * WIDTH, 2 * _NARROW),
    "encoder_ffn_dim": (2 * WIDTH, 2 * _NARROW),
    "decoder_ffn_dim": (2 * WIDTH, 2 * _NARROW),
    "mlp_dim": (2 * WIDTH, 2 * _NARROW),
    "d_ff": (2 * WIDTH, 2 * _NARROW),
    "num_attention_heads": (HEADS, 2),
    "attention_heads": (HEADS, 2),
    "encoder_attention_heads": (HEADS, 2),
    "decoder_attention_heads": (HEADS, 2),
    "num_heads": (HEADS, 2),
    "num_key_value_heads": (2, 2),
    "head_dim": (WIDTH // HEADS, _NARROW // 2),
    "global_head_dim": (WIDTH // HEADS, _NARROW // 2),
    "d_kv": (WIDTH // HEADS, _NARROW // 2),
    "vocab_size": (VOCAB, VOCAB),
    "out_hidden_size": (WIDTH, WIDTH),
    "text_hidden_size": (WIDTH, WIDTH),
    "projector_hidden_size": (WIDTH, WIDTH),
    "output_dim": (WIDTH, WIDTH),
    "projection_dim": (WIDTH, WIDTH),
    "encoder_hidden_size": (_NARROW, _NARROW),
    "moe_intermediate_size": (32, 32),
    "shared_expert_intermediate_size": (32, 32),
    "moe_shared_expert_intermediate_size": (32, 32),
    "n_routed_experts": (4, 4),
    "num_local_experts": (4, 4),
    "num_experts": (4, 4),
    "moe_num_experts": (4, 4),
    "num_experts_per_tok": (2, 2),
    "moe_k": (2, 2),
    "n_group": (1, 1),
    "topk_group": (1, 1),
    "first_k_dense_replace": (1, 1),
    "kv_lora_rank": (16, 16),
    "q_lora_rank": (16, 16),
    "qk_nope_head_dim": (8, 8),
    "qk_rope_head_dim": (8, 8),
    "qk_head_dim": (16, 16),
    "v_head_dim": (16, 16),
    "index_head_dim": (16, 16),
    "index_n_heads": (8, 8),
    "index_topk": (8, 8),
    "index_topk_blocks": (2, 2),
    "index_block_size": (8, 8),
    "linear_key_head_dim": (16, 16),
    "linear_value_head_dim": (16, 16),
    "linear_num_key_heads": (2, 2),
    "linear_num_value_heads": (2, 2),
    "query_pre_attn_scalar": (16, 16),
    "sliding_window": (16, 16),
    "max_position_embeddings": (2048, 64),
    "num_mel_bins": (16, 16),
    "max_source_positions": (100, 100),
    "mamba_num_heads": (4, 4),
    "mamba_head_dim": (32, 32),
    "ssm_state_size": (16, 16),
    "num_query_tokens": (4, 4),
    "projection_intermediate_size": (WIDTH, WIDTH),
    "alignment_intermediate_size": (WIDTH, WIDTH),
    "projection_hidden_size": (_NARROW, _NARROW),
    "merged_hidden_size": (WIDTH, WIDTH),
    "dense_intermediate_size": (WIDTH, WIDTH),
    "shared_intermediate_size": (32, 32),
    "shared_experts_intermediate_size": (32, 32),
    "share_expert_dim": (32, 32),
    "intermediate_size_mlp": (2 * WIDTH, 2 * _NARROW),
    "linear_head_dim": (16, 16),
    "linear_num_heads": (2, 2),
    "num_position_embeddings": (16, 16),
    "swa_num_attention_heads": (HEADS, HEADS),
    "swa_num_key_value_heads": (2, 2),
    "swa_head_dim": (16, 16),
    "num_sliding_attention_heads": (HEADS, HEADS),
    "depth": (2, 2),
}
_COUNTS = ("num_hidden_layers", "num_layers", "encoder_layers", "decoder_layers", "depth", "layers")


def shrunk(plan: Mapping[str, Any], text: bool, patch: int = 0) -> dict[str, Any]:
    """Returns a config's settings with small sizes.

    Args:
        plan: The settings.
        text: Whether they are those of the decoder.
        patch: Pixels of a patch in the parts around.
    """
    kept = _kept_layers(plan)
    length = max((len(value) for value in plan.values() if isinstance(value, (list, tuple))), default=0)
    before = next((plan[name] for name in _COUNTS if isinstance(plan.get(name), int)), length)
    patch = plan.get("patch_size", patch) if isinstance(plan.get("patch_size"), int) else patch
    small: dict[str, Any] = {}
    for name, value in plan.items():
        if (
            isinstance(value, dict)
            and name != "per_layer_config"
            and (name.endswith("_config") or name == "encoder" or name == "decoder")
        ):
            inner = name in ("text_config", "llm_config", "language_config", "decoder", "thinker_config")
            small[name] = shrunk(value, inner or not (name.endswith("_config")), patch)
        elif name in _COUNTS and isinstance(value, int):
            small[name] = len(kept) or min(value, LAYERS)
        elif isinstance(value, (list, tuple)) and kept and len(value) == before:
            small[name] = [value[index] for index in kept]
        elif name in _SIZES and isinstance(value, int) and not isinstance(value, bool):
            small[name] = min(value, _SIZES[name][0 if text else 1])
        elif name == "per_layer_config" and isinstance(value, dict):
            small[name] = {
                f"{index:02}": shrunk(value[f"{layer:02}"], text)
                for index, layer in enumerate(kept)
                if f"{layer:02}" in value
            }
        elif str(name).endswith("_indexes") and value:
            small[name] = [0]
        elif name == "image_grid_pinpoints":
            side = 2 * (_patch(plan) or 14)
            small[name] = [[side, 2 * side], [2 * side, side], [2 * side, 2 * side]]
        elif name == "image_size" and isinstance(value, int):
            small[name] = 2 * (patch or 14)
        elif name == "image_size" and isinstance(value, (list, tuple)):
            patch_side = plan.get("patch_size", patch)
            small[name] = [2 * (patch_side if isinstance(patch_side, int) else patch_side[0])] * 2
        elif name in ("rope_parameters", "rope_scaling") and isinstance(value, dict):
            small[name] = _rope(value)
        else:
            small[name] = value
    if "kv_lora_rank" in small and "num_key_value_heads" in small:  # latent attention has keys for each head
        small["num_key_value_heads"] = small["num_attention_heads"]
    return small


def _kept_layers(plan: Mapping[str, Any]) -> list[int]:
    """Returns one layer of each kind, in order, where a list names the layers' kinds; at least two."""
    kinds = plan.get("layer_types") or plan.get("layers_block_type") or plan.get("mlp_layer_types")
    if not kinds:
        return []
    rest = plan.get("mlp_layer_types") or kinds
    pairs = list(zip(kinds, rest, strict=False))
    first = sorted({pairs.index(pair) for pair in pairs})
    return first if len(first) > 1 else [0, 1][: len(kinds)]


def _rope(plan: Mapping[str, Any]) -> dict[str, Any]:
    small = dict(plan)
    if small.get("mrope_section"):
        half = int(WIDTH // HEADS * small.get("partial_rotary_factor", 1.0)) // 2
        small["mrope_section"] = {8: [2, 3, 3], 4: [2, 1, 1], 2: [1, 1, 0]}[half]
    for name, value in small.items():
        if isinstance(value, dict):
            small[name] = _rope(value)
    return small


_ENDS = re.compile(r"(\w+)_token_(?:id|index)$")
_ATTRIBUTE = re.compile(r"tokenizer\.(\w+_token)\b|tokenizer, \"(\w+_token)\"")
_QUOTED = re.compile(r"\"(<[^\"\s{}]{1,40}>|\[[A-Z_]+\])\"")
_USUAL = {"bos_token", "eos_token", "pad_token", "unk_token", "sep_token", "cls_token", "mask_token"}


def _tokenizer(tiny: Tiny, kind: type) -> Any:
    source = inspect.getsource(sys.modules[kind.__module__])
    names = {one or other for one, other in _ATTRIBUTE.findall(source)} - _USUAL
    tokens = {name: f"<|{name.removesuffix('_token')}|>" for name in sorted(names)}
    tokens |= {
        parameter.name: parameter.default
        for parameter in inspect.signature(kind.__init__).parameters.values()
        if parameter.name.endswith("_token") and isinstance(parameter.default, str)
    }
    tokens |= tiny.tokens
    quoted = tuple(dict.fromkeys(_QUOTED.findall(source)))
    return tokenizer(tokens, ("<unk>", "<sep>", *quoted, *tiny.more), unk_token="<unk>", sep_token="<sep>")


def _class(names: Mapping[str, Any], kind: str) -> Any:
    entry = names.get(kind)
    if isinstance(entry, dict):
        entry = entry.get("torchvision") or entry.get("pil")
    return getattr(tf, entry) if entry else None


def _sizes(part: Any, patch: int) -> dict[str, Any]:
    """Returns small sizes for what an image or video processor has sizes for."""
    side = 2 * patch
    settings: dict[str, Any] = {}
    if isinstance(getattr(part, "patch_size", None), int):
        settings["patch_size"] = patch
    size = dict(getattr(part, "size", None) or {})
    if size and "longest_edge" in size and size["longest_edge"] and size["longest_edge"] > 5000:
        merge = getattr(part, "merge_size", None) or 2
        settings["size"] = {"shortest_edge": (merge * patch) ** 2, "longest_edge": (4 * merge * patch) ** 2}
    elif size:
        settings["size"] = {name: side for name in size if size[name]}
    if getattr(part, "crop_size", None):
        settings["crop_size"] = {"height": side, "width": side}
    if getattr(part, "image_grid_pinpoints", None):
        settings["image_grid_pinpoints"] = [[side, 2 * side], [2 * side, side], [2 * side, 2 * side]]
    return settings


def _patch(plan: Any) -> int:
    """Returns the pixels of a patch anywhere in a config."""
    if isinstance(plan, dict):
        patch_size = plan.get("patch_size")
        if isinstance(patch_size, int) and patch_size > 1:
            return patch_size
        return next((patch for value in plan.values() if (patch := _patch(value))), 0)
    return 0


def _processor(kind: str, tiny: Tiny, patch: int) -> Any:
    def part(name: str, table: Mapping[str, Any]) -> Any:
        return getattr(tf, tiny.parts[name]) if name in tiny.parts else _class(table, kind)

    cls = part("processor", PROCESSOR_MAPPING_NAMES)
    if cls is None:
        raise LookupError("transformers names no processor")
    images, videos = part("image", IMAGE_PROCESSOR_MAPPING_NAMES), part("video", VIDEO_PROCESSOR_MAPPING_NAMES)
    audio = part("audio", FEATURE_EXTRACTOR_MAPPING_NAMES)
    tok = _tokenizer(tiny, cls)
    parts: dict[str, Any] = {"tokenizer": tok}
    takes = inspect.signature(cls.__init__).parameters
    if "image_processor" in takes and images:
        parts["image_processor"] = images(**_sizes(images(), patch) | dict(tiny.image))
    if "video_processor" in takes and videos:
        parts["video_processor"] = videos(**_sizes(videos(), patch) | dict(tiny.video))
    for name in ("feature_extractor", "audio_processor"):
        if name in takes and audio:
            parts[name] = audio(**tiny.audio)
    if tiny.template and "chat_template" in takes:
        parts["chat_template"] = tiny.template
    processor = cls(**parts | dict(tiny.processor))
    if tiny.template:
        template = tiny.template
        for mark in ("IMAGE", "VIDEO", "AUDIO"):
            token = tiny.marks.get(mark, getattr(processor, f"{mark.lower()}_token", None))
            template = template.replace(mark, str(token or ""))
        processor.chat_template = template
    return processor


def _numbers(plan: dict[str, Any], processor: Any, named: Mapping[str, str]) -> None:
    """Gives each setting that names a token the number of the processor's or the tokenizer's; makes what is missing."""
    tok = processor.tokenizer
    usual = {"pad": tok.pad_token_id, "bos": tok.bos_token_id, "eos": tok.eos_token_id}
    for name, value in plan.items():
        if isinstance(value, dict):
            _numbers(value, processor, named)
        elif (
            isinstance(name, str)
            and (match := _ENDS.match(name))
            and (isinstance(value, int) or match[1] in usual or getattr(processor, f"{match[1]}_token", None))
        ):
            stem = match[1]
            if stem in usual:
                plan[name] = usual[stem]
                continue
            token = (
                named.get(stem)
                or getattr(processor, f"{stem}_token", None)
                or getattr(tok, f"{stem}_token", None)
                or f"<|{stem}|>"
            )
            if tok.convert_tokens_to_ids(token) in (None, tok.unk_token_id):
                tok.add_tokens([token], special_tokens=True)
            plan[name] = tok.convert_tokens_to_ids(token)


def types() -> list[str]:
    """Returns the multimodal types of the installed library."""
    return sorted(MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES)


def _put(plan: dict[str, Any], path: str, value: Any) -> None:
    *where, name = path.split(".")
    for step in where:
        plan = plan.setdefault(step, {})
    if value is None:
        plan.pop(name, None)
    else:
        plan[name] = value


def build(kind: str, out: Path) -> None:
    """Writes a tiny checkpoint of a type; the library's exceptions pass through if it cannot be built so."""
    tiny = TYPES.get(kind, Tiny())
    cls = CONFIG_MAPPING[kind]
    plan = shrunk(cls().to_dict(), text=True)
    for path, value in tiny.config.items():
        _put(plan, path, value)
    processor = _processor(kind, tiny, _patch(plan) or 14)
    _numbers(plan, processor, tiny.ids)
    for path, value in tiny.config.items():
        _put(plan, path, value(processor.tokenizer) if callable(value) else value)
    config = cls.from_dict(plan)
    with torch.device("meta"):
        count = sum(p.numel() for p in tf.AutoModelForMultimodalLM.from_config(config).parameters())
    if count > _MOST:
        raise ValueError(f"{count} parameters: its config was not shrunk")
    save(config, processor, out, tf.AutoModelForMultimodalLM)


_MROPE = {"text_config.rope_parameters.mrope_section": [2, 3, 3]}
_CLIP = {"vision_config.patch_size": 14, "vision_config.image_size": 28}
_FRAMES = {"VIDEO": "<|begin_of_video|><|video|><|end_of_video|>"}
_LLAVA = {"patch_size": 14, "vision_feature_select_strategy": "default", "num_additional_image_tokens": 1}

TYPES: dict[str, Tiny] = {
    "aria": Tiny(
        config={
            "vision_config.patch_size": 70,
            "vision_config.image_size": 980,
            "projector_patch_to_query_dict": {49: 4, 196: 4},
            "max_value_projector_patch_to_query_dict": 4,
        },
        processor={"size_conversion": {490: 4, 980: 4}},
    ),
    "aya_vision": Tiny(
        config=_CLIP,
        processor={"img_size": 28, "patch_size": 14, "downsample_factor": 2},
        ids={"image": "<|IMG_PATCH|>"},
    ),
    "cosmos3_omni": Tiny(parts={"processor": "Qwen3VLProcessor"}),
    "deepseek_vl": Tiny(processor={"num_image_tokens": 4}),
    "deepseek_vl_hybrid": Tiny(
        config={"high_res_vision_config.image_size": 64},
        image={"high_res_size": {"height": 64, "width": 64}, "high_res_resample": 3},
        processor={"num_image_tokens": 4},
    ),
    "glm46v": Tiny(config=_MROPE, marks=_FRAMES),
    "glm4v": Tiny(config=_MROPE, marks=_FRAMES),
    "glm4v_moe": Tiny(
        marks=_FRAMES,
        config={"text_config.rope_parameters.mrope_section": [2, 1, 1]},
        parts={"image": "Glm4vImageProcessor", "video": "Glm4vVideoProcessor"},
    ),
    "glm_ocr": Tiny(
        config=_MROPE,
        marks=_FRAMES,
        parts={"processor": "Glm46VProcessor", "image": "Glm46VImageProcessor", "video": "Glm46VVideoProcessor"},
    ),
    "glmga": Tiny(config=_MROPE, marks=_FRAMES, parts={"processor": "Glm46VProcessor"}),
    "glmasr": Tiny(audio={"feature_size": 16, "chunk_length": 2}),
    "kimi_k25": Tiny(config={"text_config.head_dim": 8}),
    "llava_next_video": Tiny(config=_CLIP, processor=_LLAVA),
    "mistral3": Tiny(
        config={"vision_config.image_size": 56},
        image={"size": {"longest_edge": 56}},
        processor={"patch_size": 14, "spatial_merge_size": 2},
    ),
    "mistral_large4": Tiny(
        # Scores of its indexer are often 0 in so small a model; which keys it takes would be a matter of rounding.
        config={"vision_config.image_size": 56, "text_config.index_topk": 512},
        image={"size": {"longest_edge": 56}},
        processor={"patch_size": 14, "spatial_merge_size": 2},
    ),
    "ovis2": Tiny(ids={"image": "<IMG_ATOM>"}, processor={"image_seq_length": 4}),
    "paddleocr_vl": Tiny(config=_MROPE),
    "chameleon": Tiny(
        config={
            "vocabulary_map": lambda tok: tok.get_vocab(),
            "vq_config.resolution": 32,
            "vq_config.base_channels": 32,
            "vq_config.channel_multiplier": [1, 1, 1, 1, 1],
            "vq_config.num_embeddings": 32,
            "vq_config.latent_channels": 32,
        },
        image={"size": {"shortest_edge": 32}, "crop_size": {"height": 32, "width": 32}},
        processor={"image_seq_length": 4},
        more=tuple(f"IMGIMG{chr(65 + number // 10)}{chr(65 + number % 10)}Z" for number in range(32)),
    ),
    "cohere2_vision": Tiny(image={"patch_size": 1}),
    "cohere_compass": Tiny(
        config={
            "text_config.rope_parameters": {
                layers: {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [3, 3, 2]}
                for layers in ("full_attention", "sliding_attention")
            },
            "vision_config.out_hidden_size": WIDTH,
        }
    ),
    "ernie4_5_vl_moe": Tiny(
        config={"text_config.rope_parameters.mrope_section": [3, 3, 2], "text_config.moe_intermediate_size": [32, 32]},
        video={"draw_on_frames": False},
    ),
    "glm5_next": Tiny(
        config={"text_config.index_topk": 8, "text_config.index_kpool": 4, "text_config.qk_nope_head_dim": 16}
    ),
    "idefics": Tiny(config={"alpha_initializer": "ones", "alphas_initializer_range": 0.1}),
    # Its processor counts 256 tokens for a page, which are those of 1024 pixels.
    "got_ocr2": Tiny(
        marks={"IMAGE": "<img><imgpad></img>\n"},
        config={
            "vision_config.image_size": 1024,
            "vision_config.global_attn_indexes": [1],
            "vision_config.output_channels": 32,
        },
        image={"size": {"height": 1024, "width": 1024}},
        ids={"image": "<imgpad>"},
        more=("<img>", "</img>", "<imgpad>"),
    ),
    "hunyuan_vl": Tiny(
        marks={"IMAGE": "<|image_start|><|image|><|image_end|>"},
        config={"text_config.head_dim": 16, "text_config.rope_parameters.mrope_section": [2, 2, 2, 2]},
    ),
    "qwen4_exp": Tiny(
        config={
            "text_config.indexer_n_heads": 2,
            "text_config.indexer_kv_heads": 1,
            "text_config.indexer_head_dim": 16,
            "text_config.indexer_budget": 8,
            "text_config.indexer_compress_ratio": 4,
        }
    ),
    "moss_transcribe_diarize": Tiny(audio={"feature_size": 16, "chunk_length": 2}),
    "muse_glimmer": Tiny(config={"out_hidden_size": 128}),
    # Its processor counts 256 tokens for a crop, which are those of 448 pixels.
    "phi4_multimodal": Tiny(
        config={
            "vision_config.image_size": 448,
            "vision_config.crop_size": 448,
            "vision_config.patch_size": 14,
            "audio_config.hidden_size": 32,
            "audio_config.intermediate_size": 64,
            "audio_config.num_blocks": 2,
            "audio_config.ext_pw_out_channel": 32,
            "audio_config.depthwise_separable_out_channel": 32,
            "audio_config.nemo_conv_channels": 16,
            "audio_config.num_attention_heads": 2,
            "audio_config.bias_max_distance": 100,
        },
        image={"size": {"height": 448, "width": 448}, "dynamic_hd": 2},
        ids={"image": "<|image|>", "audio": "<|audio|>"},
    ),
    "qianfan_ocr": Tiny(marks={"IMAGE": "<image>"}, processor={"image_seq_length": 1}),
    "qwen3_asr": Tiny(audio={"feature_size": 16}),
    "qwen3_vl_moe": Tiny(parts={"image": "Qwen2VLImageProcessor"}),
    "step3p7": Tiny(
        config={"text_config.sliding_window": 16, "vision_config.image_size": 56},
        image={"size": {"height": 56, "width": 56}, "patch_size": 56, "vision_patch_size": 14},
    ),
    "video_llava": Tiny(config=_CLIP, processor={"patch_size": 14}),
    "vipllava": Tiny(config={**_CLIP, "vision_feature_layers": [-2, -1]}, processor=_LLAVA),
}

_TIMM, _AUDIO = "needs the package timm", "needs the package torchaudio"
_MISTRAL = "its prompts are made by the package mistral-common alone"
_UNFIT = "no small config was found whose parts fit each other"
_TOKENIZERS = "its processor needs a second tokenizer, which was not made here"
UNBUILT = {
    **dict.fromkeys(("fast_vlm", "gemma3n", "perception_lm"), _TIMM),
    **dict.fromkeys(("fun_asr_nano", "granite_speech", "granite_speech_plus"), _AUDIO),
    **dict.fromkeys(("voxtral", "voxtral_realtime"), _MISTRAL),
    **dict.fromkeys(("instructblipvideo", "nemo_speechlm"), _TOKENIZERS),
    **dict.fromkeys(("deepseek_ocr2", "dots3_note", "florence2", "git", "granite4_vision"), _UNFIT),
    **dict.fromkeys(("granite_docling", "inkling_mm_model", "kosmos-2.5", "kyutai_speech_to_text", "llama4"), _UNFIT),
    **dict.fromkeys(("molmo2", "muse_spark", "nemotron_h_omni", "pix2struct"), _UNFIT),
    **dict.fromkeys(("qwen3_omni_moe", "qwen3_omni_moe_thinker", "unlimited_ocr", "vibevoice_asr"), _UNFIT),
    **dict.fromkeys(("pp_chart2table", "pp_formulanet"), "its encoder takes pages of one large size"),
    "diffusion_gemma": "writes blocks of tokens by diffusion, not one after the other",
    "evolla": "reads proteins, no images",
    "fuyu": "needs the tokenizer of Persimmon, which was not made here",
    "gemma4_unified": "its default config has no encoder",
    "mistral4": "text alone: the library names no processor for it",
    "pi0": "moves a robot, writes no text",
    "qwen2_5_omni_thinker": "a part of `qwen2_5_omni`, measured there",
    "shieldgemma2": "classifies images; the library's class for it does not read its checkpoint",
    "t5gemma2": "its config names no token that begins an output",
    "udop": "reads the words and boxes of an OCR program beside the page",
    "vision-encoder-decoder": "a pair of any two models, with no default config",
}
"""Types that no tiny checkpoint was built of, each with the reason."""
