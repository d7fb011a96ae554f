"""Tiny checkpoints of every model family, made from config: random weights, real processors.

`python -m helpers.tiny llava OUT`, in tests/, writes one that `model-server` can serve. The
weights are drawn with a standard deviation of 0.08: with the libraries' own 0.02 a tiny model
hardly looks at its image, and most mistakes would pass.
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers as tf
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

import lyncean.transformers_import  # noqa: F401  (before transformers: makes torchvision importable)

CORPUS = [
    "The answer is A. The answer is B. Which option is correct? Options: (A) red (B) blue (C) green (D) yellow",
    "Question: what color is the object in the image? Answer with the option's letter from the given choices directly.",
    "How many dogs are there in the picture? There are two dogs and three cats. yes no left right above below",
    "Please choose one of the following, and explain your reasoning step by step before you answer. 1 2 3 4 5 6 7 8 9",
    "user assistant system USER: ASSISTANT: Human: Bot:\n\n  \n it's don't I'm you'll   the a an of to and in on at by",
]
WIDTH, LAYERS, HEADS, VOCAB = 64, 2, 4, 512
STD = 0.08
TEMPLATE = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' }}{% if m['content'] is string %}{{ m['content'] }}"
    "{% else %}{% for c in m['content'] %}{% if c['type'] == 'image' %}{{ 'IMAGE' }}"
    "{% elif c['type'] == 'video' %}{{ 'VIDEO' }}{% elif c['type'] == 'audio' %}{{ 'AUDIO' }}"
    "{% else %}{{ c['text'] }}{% endif %}{% endfor %}{% endif %}{{ '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)

VICUNA = (
    "{% for m in messages %}{% if m['role'] == 'user' %}USER: {{ m['content'] }} "
    "{% else %}ASSISTANT: {{ m['content'] }}</s>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}ASSISTANT:{% endif %}"
)
"""Ends in a colon, and an assistant's words begin with a blank: as LLaVA 1.5, Idefics3 and SmolVLM have it."""


def tokenizer(extra: dict[str, str] | None = None, more: tuple[str, ...] = (), **kwargs: Any) -> Any:
    """A byte-level BPE tokenizer with real merges and the given special tokens."""
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    core.post_processor = processors.ByteLevel(trim_offsets=True)
    trainer = trainers.BpeTrainer(
        vocab_size=440, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    core.train_from_iterator(CORPUS, trainer)
    special = ["<pad>", "<s>", "</s>", "<|im_start|>", "<|im_end|>", *(extra or {}).values(), *more]
    core.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in dict.fromkeys(special)])
    return tf.PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>",
        extra_special_tokens=extra or {},
        padding_side="left",
        **kwargs,
    )


def llama_tokenizer() -> Any:
    """A tokenizer as LLaMA's: SentencePiece's blanks, one of them before every text, and bytes for unknown signs."""
    core = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    core.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    core.decoder = decoders.Metaspace(prepend_scheme="always")
    specials = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    trainer = trainers.BpeTrainer(vocab_size=VOCAB - 8, special_tokens=specials, show_progress=False)
    core.train_from_iterator([line.replace("\n", " ") for line in CORPUS], trainer)
    plan = json.loads(core.to_str())
    plan["added_tokens"] = [token for token in plan["added_tokens"] if not token["content"].startswith("<0x")]
    # As LLaMA's file has it: whole texts are merged, the blanks are the normalizer's.
    plan["pre_tokenizer"] = None
    plan["normalizer"] = {
        "type": "Sequence",
        "normalizers": [
            {"type": "Prepend", "prepend": "▁"},
            {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
        ],
    }
    return tf.PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(json.dumps(plan)),
        unk_token="<unk>",
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<unk>",
        padding_side="left",
    )


def text_config(kind: str = "llama", **kwargs: Any) -> dict[str, Any]:
    """A two-layer decoder."""
    return {
        "model_type": kind,
        "hidden_size": WIDTH,
        "intermediate_size": 2 * WIDTH,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": 2,
        "head_dim": WIDTH // HEADS,
        "vocab_size": VOCAB,
        "max_position_embeddings": 512,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        **kwargs,
    }


def clip_vision(image: int = 28, patch: int = 14, **kwargs: Any) -> dict[str, Any]:
    """A two-layer CLIP tower."""
    return {
        "model_type": "clip_vision_model",
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "image_size": image,
        "patch_size": patch,
        "projection_dim": 32,
        **kwargs,
    }


def save(config: Any, processor: Any, out: Path, cls: Any = None, **generation: Any) -> None:
    """Draws the weights and writes the folder."""
    torch.manual_seed(7)
    model = (cls or tf.AutoModelForImageTextToText).from_config(config).eval()
    tok = getattr(processor, "tokenizer", processor)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(0.0, STD)
            else:
                parameter.add_(torch.randn_like(parameter) * 0.02)
        # What it says can be read: tokens that are not plain text stand at logit 0, far from the maximum.
        thinker = getattr(model, "thinker", model)
        head = thinker.get_output_embeddings() or getattr(thinker, "text_decoder", thinker).get_output_embeddings()
        tokens = {number: text.lstrip("Ġ▁") for text, number in tok.get_vocab().items()}
        odd = [number for number, text in tokens.items() if not (text.isalnum() and text.isascii())]
        head.weight[odd] = 0.0
        head.weight[len(tok) :] = 0.0
    model.generation_config = tf.GenerationConfig(
        eos_token_id=tok.eos_token_id, pad_token_id=tok.pad_token_id, bos_token_id=tok.bos_token_id, **generation
    )
    model.save_pretrained(out)
    processor.save_pretrained(out)


def ids(tok: Any, config: Any) -> Any:
    """Gives a config's text part the tokenizer's own special ids."""
    text = config.get_text_config()
    text.pad_token_id, text.bos_token_id, text.eos_token_id = tok.pad_token_id, tok.bos_token_id, tok.eos_token_id
    config.pad_token_id, config.bos_token_id, config.eos_token_id = (
        text.pad_token_id,
        text.bos_token_id,
        text.eos_token_id,
    )
    return config


def text(out: Path) -> None:
    """A text-only causal model."""
    tok = tokenizer()
    tok.chat_template = TEMPLATE
    save(ids(tok, tf.LlamaConfig(**text_config())), tok, out, tf.AutoModelForCausalLM)


def thinking(out: Path, opens: str = "<think>", closes: str = "</think>", label: str = "") -> None:
    """A text-only causal model that reasons: its template opens the reasoning, and it closes it after some words.

    The mark is a little more probable than a word that the model says early, and takes its place.
    """
    tok = tokenizer()
    # Qwen's marks are no special tokens and stay in decoded text; Gemma's are, and leave the thoughts there alone.
    tok.add_tokens([AddedToken(mark, special=bool(label), normalized=False) for mark in (opens, closes)])
    off = "enable_thinking is defined and not enable_thinking"
    tok.chat_template = TEMPLATE.replace(
        "'<|im_start|>assistant\n' }}", f"'<|im_start|>assistant\n' + ('' if {off} else '{opens}{label}\n') }}}}"
    )
    config = tf.LlamaConfig(**text_config(), tie_word_embeddings=False)
    save(ids(tok, config), tok, out, tf.AutoModelForCausalLM)
    model = tf.AutoModelForCausalLM.from_pretrained(out)
    prompt = tok.apply_chat_template([{"role": "user", "content": "What is it?"}], add_generation_prompt=True)
    generated = model.generate(torch.tensor([prompt["input_ids"]]), max_new_tokens=40, do_sample=False)[
        0, -40:
    ].tolist()
    index = next(index for index in range(5, 40) if generated[index] not in generated[:index])
    with torch.no_grad():
        rows = model.get_output_embeddings().weight
        rows[tok.convert_tokens_to_ids(closes)] = 1.001 * rows[generated[index]]
    model.save_pretrained(out)


def gemma_channels(out: Path) -> None:
    """The same with Gemma 4's marks."""
    thinking(out, "<|channel>", "<channel|>", "thought")


def longrope(out: Path) -> None:
    """A text-only causal model whose positions are scaled once a text is longer than 200 tokens, as Phi's are."""
    tok = tokenizer()
    tok.chat_template = TEMPLATE
    rope = {"rope_type": "longrope", "rope_theta": 10000.0, "factor": 2.56, "original_max_position_embeddings": 200}
    rope |= {"short_factor": [1.0] * 8, "long_factor": [2.0 + index for index in range(8)]}
    text = {name: value for name, value in text_config().items() if name not in ("model_type", "head_dim")}
    config = tf.Phi3Config(**text, rope_parameters=rope, original_max_position_embeddings=200)
    save(ids(tok, config), tok, out, tf.AutoModelForCausalLM)


def _decoder(out: Path, kind: str, **kwargs: Any) -> None:
    tok = tokenizer()
    tok.chat_template = TEMPLATE
    config = tf.AutoConfig.for_model(**text_config(kind, **kwargs))
    save(ids(tok, config), tok, out, tf.AutoModelForCausalLM)


def llama4(out: Path) -> None:
    """A text-only causal model one of whose layers sees chunks of 200 tokens."""
    _decoder(
        out,
        "llama4_text",
        attention_chunk_size=200,
        no_rope_layers=[1, 0],
        num_local_experts=2,
        intermediate_size_mlp=128,
        interleave_moe_layer_step=1,
    )


def nemotron_h(out: Path) -> None:
    """A text-only causal model with a Mamba layer between its attention and its perceptron."""
    _decoder(
        out,
        "nemotron_h",
        layers_block_type=["mamba", "attention", "mlp"],
        num_hidden_layers=3,
        mamba_num_heads=4,
        mamba_head_dim=32,
        ssm_state_size=16,
        n_groups=2,
        chunk_size=8,
    )


def jamba(out: Path) -> None:
    """A text-only causal model whose Mamba layer goes on from its state by one token at a time alone."""
    _decoder(
        out,
        "jamba",
        attn_layer_period=2,
        attn_layer_offset=1,
        num_experts=2,
        num_experts_per_tok=1,
        expert_layer_period=2,
        expert_layer_offset=1,
        mamba_d_state=8,
        mamba_dt_rank=8,
    )


def gemma2(out: Path) -> None:
    """A text-only causal model whose attention the library has in its eager form alone, PaliGemma 2's."""
    _decoder(out, "gemma2", sliding_window=16, query_pre_attn_scalar=16)


def llama(out: Path) -> None:
    """A text-only causal model with LLaMA's kind of tokenizer and Vicuna's template."""
    tok = llama_tokenizer()
    tok.chat_template = VICUNA
    save(ids(tok, tf.LlamaConfig(**text_config())), tok, out, tf.AutoModelForCausalLM)


def llava(out: Path) -> None:
    """LLaVA 1.5: CLIP at 28 x 28 and patches of 14 give 4 tokens an image."""
    tok = tokenizer({"image_token": "<image>"})
    images = tf.CLIPImageProcessor(size={"shortest_edge": 28}, crop_size={"height": 28, "width": 28})
    processor = tf.LlavaProcessor(
        images,
        tok,
        patch_size=14,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=TEMPLATE.replace("IMAGE", "<image>\n"),
    )
    config = tf.LlavaConfig(
        vision_config=clip_vision(),
        text_config=text_config(),
        image_token_id=tok.convert_tokens_to_ids("<image>"),
        image_seq_length=4,
    )
    save(ids(tok, config), processor, out)


QWEN_TOKENS = {
    "image_token": "<|image_pad|>",
    "video_token": "<|video_pad|>",
    "vision_bos_token": "<|vision_start|>",
    "vision_eos_token": "<|vision_end|>",
}


def qwen_template() -> str:
    """Qwen's marks around images and videos."""
    template = TEMPLATE.replace("IMAGE", "<|vision_start|><|image_pad|><|vision_end|>")
    return template.replace("VIDEO", "<|vision_start|><|video_pad|><|vision_end|>")


def qwen(out: Path, kind: str) -> None:
    """Qwen2-VL to Qwen3.5: patches of 14 (16), merged 2 by 2; any image size; Qwen3.5 has a gated delta net."""
    tok = tokenizer(QWEN_TOKENS)
    number = {name: tok.convert_tokens_to_ids(value) for name, value in QWEN_TOKENS.items()}
    third = kind in ("qwen3_vl", "qwen3_5")
    patch = 16 if third else 14
    sizes = {"shortest_edge": (2 * patch) ** 2, "longest_edge": (8 * patch) ** 2}
    images = tf.Qwen2VLImageProcessor(patch_size=patch, size=sizes)
    template = qwen_template()
    names = {"qwen2_vl": "Qwen2VL", "qwen2_5_vl": "Qwen2_5_VL", "qwen3_vl": "Qwen3VL", "qwen3_5": "Qwen3VL"}
    videos = getattr(tf, "Qwen3VLVideoProcessor" if third else "Qwen2VLVideoProcessor")(patch_size=patch, size=sizes)
    processor = getattr(tf, f"{names[kind]}Processor")(images, tok, videos, chat_template=template)
    vision: dict[str, Any] = {"depth": 2, "num_heads": 2, "patch_size": patch, "spatial_merge_size": 2}
    if kind == "qwen2_vl":
        vision |= {"embed_dim": 32, "hidden_size": WIDTH, "mlp_ratio": 2}
    elif kind == "qwen2_5_vl":
        vision |= {"hidden_size": 32, "intermediate_size": 64, "out_hidden_size": WIDTH, "fullatt_block_indexes": [1]}
        vision |= {"window_size": 4 * patch}
    else:
        vision |= {"hidden_size": 32, "intermediate_size": 64, "out_hidden_size": WIDTH, "num_position_embeddings": 16}
        vision |= {"deepstack_visual_indexes": [0]} if kind == "qwen3_vl" else {}
    rope = {"rope_type": "default", "mrope_section": [2, 3, 3], "rope_theta": 10000.0}
    kwargs: dict[str, Any] = {"rope_parameters": rope, "rope_scaling": rope}
    if third:
        rope["mrope_interleaved"] = True
    if kind == "qwen3_5":
        kwargs["layer_types"] = ["linear_attention", "full_attention"]
        kwargs |= {f"linear_num_{part}_heads": 2 for part in ("key", "value")}
        kwargs |= {f"linear_{part}_head_dim": 16 for part in ("key", "value")}
    config = tf.AutoConfig.for_model(
        kind,
        vision_config=vision,
        text_config={k: v for k, v in text_config(f"{kind}_text", **kwargs).items() if k != "model_type"},
        image_token_id=number["image_token"],
        video_token_id=number["video_token"],
        vision_start_token_id=number["vision_bos_token"],
        vision_end_token_id=number["vision_eos_token"],
    )
    save(ids(tok, config), processor, out)


BUILDERS: dict[str, Callable[[Path], None]] = {
    "text": text,
    "llama": llama,
    "longrope": longrope,
    "llama4": llama4,
    "gemma2": gemma2,
    "nemotron_h": nemotron_h,
    "jamba": jamba,
    "thinking": thinking,
    "gemma_channels": gemma_channels,
    "llava": llava,
    "qwen2_vl": lambda out: qwen(out, "qwen2_vl"),
    "qwen2_5_vl": lambda out: qwen(out, "qwen2_5_vl"),
    "qwen3_vl": lambda out: qwen(out, "qwen3_vl"),
    "qwen3_5": lambda out: qwen(out, "qwen3_5"),
}


def build(kind: str, out: Path) -> Path:
    """Writes the checkpoint of one kind into a folder, unless it is there, and returns the folder."""
    if not (out / "config.json").exists():
        builders()[kind](out)
    return out


def builders() -> dict[str, Callable[[Path], None]]:
    """All of them by kind: those written by hand here and in `tiny_families`, and the types of `tiny_types`."""
    from helpers import tiny_families, tiny_types

    by_principle = {kind: functools.partial(tiny_types.build, kind) for kind in tiny_types.types()}
    return by_principle | BUILDERS | tiny_families.BUILDERS


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in builders():
        sys.exit(f"usage: tiny.py KIND OUT, where KIND is one of {', '.join(builders())}")
    print(build(sys.argv[1], Path(sys.argv[2])))
