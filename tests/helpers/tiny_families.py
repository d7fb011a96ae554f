"""The builders of `tiny` for families beyond LLaVA and Qwen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers as tf

from helpers.tiny import (
    QWEN_TOKENS,
    STD,
    TEMPLATE,
    VOCAB,
    WIDTH,
    clip_vision,
    ids,
    qwen_template,
    save,
    text_config,
    tokenizer,
)


def siglip(image: int = 28, patch: int = 14, **kwargs: Any) -> dict[str, Any]:
    """A two-layer SigLIP tower."""
    return {
        "model_type": "siglip_vision_model",
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "image_size": image,
        "patch_size": patch,
        "vision_use_head": False,
        **kwargs,
    }


def llava_next(out: Path) -> None:
    """LLaVA-NeXT: the image once whole and once in tiles."""
    tok = tokenizer({"image_token": "<image>"})
    pinpoints = [[28, 56], [56, 28], [56, 56]]
    images = tf.LlavaNextImageProcessor(
        size={"shortest_edge": 28}, crop_size={"height": 28, "width": 28}, image_grid_pinpoints=pinpoints
    )
    processor = tf.LlavaNextProcessor(
        images,
        tok,
        patch_size=14,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=TEMPLATE.replace("IMAGE", "<image>\n"),
    )
    config = tf.LlavaNextConfig(
        vision_config=clip_vision(),
        text_config=text_config(),
        image_token_id=tok.convert_tokens_to_ids("<image>"),
        image_grid_pinpoints=pinpoints,
        image_seq_length=4,
    )
    save(ids(tok, config), processor, out)


def llava_onevision(out: Path) -> None:
    """LLaVA-OneVision over Qwen2: tiles for one image, none for several."""
    tok = tokenizer({"image_token": "<image>", "video_token": "<video>"})
    pinpoints = [[28, 28], [28, 56], [56, 28], [56, 56]]
    images = tf.LlavaOnevisionImageProcessor(size={"height": 28, "width": 28}, image_grid_pinpoints=pinpoints)
    videos = tf.LlavaOnevisionVideoProcessor(size={"height": 28, "width": 28})
    processor = tf.LlavaOnevisionProcessor(
        images,
        tok,
        videos,
        num_image_tokens=4,
        vision_feature_select_strategy="full",
        chat_template=TEMPLATE.replace("IMAGE", "<image>\n").replace("VIDEO", "<video>\n"),
    )
    config = tf.LlavaOnevisionConfig(
        vision_config=siglip(),
        text_config=text_config("qwen2"),
        image_token_id=tok.convert_tokens_to_ids("<image>"),
        video_token_id=tok.convert_tokens_to_ids("<video>"),
        image_grid_pinpoints=pinpoints,
        vision_feature_select_strategy="full",
    )
    save(ids(tok, config), processor, out)


def internvl(out: Path) -> None:
    """InternVL over Qwen2: tiles of 28, four patches folded into one token."""
    names = {
        "start_image_token": "<img>",
        "end_image_token": "</img>",
        "context_image_token": "<IMG_CONTEXT>",
        "video_token": "<video>",
    }
    tok = tokenizer(names)
    images = tf.GotOcr2ImageProcessor(size={"height": 28, "width": 28}, crop_to_patches=True, max_patches=2)
    videos = tf.InternVLVideoProcessor(size={"height": 28, "width": 28})
    template = TEMPLATE.replace("IMAGE", "<IMG_CONTEXT>\n").replace("VIDEO", "<video>\n")
    processor = tf.InternVLProcessor(images, tok, videos, image_seq_length=4, chat_template=template)
    vision = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = tf.InternVLConfig(
        vision_config=vision | {"image_size": [28, 28], "patch_size": [7, 7]},
        text_config=text_config("qwen2"),
        image_token_id=tok.convert_tokens_to_ids("<IMG_CONTEXT>"),
        image_seq_length=4,
        downsample_ratio=0.5,
    )
    save(ids(tok, config), processor, out)


def _idefics(out: Path, kind: str) -> None:
    names = {
        "image_token": "<image>",
        "fake_image_token": "<fake_token_around_image>",
        "global_image_token": "<global-img>",
        "end_of_utterance_token": "<end_of_utterance>",
        "video_token": "<video>",
    }
    rows = tuple(f"<row_{i + 1}_col_{j + 1}>" for i in range(6) for j in range(6))
    tok = tokenizer(names, rows)
    sizes: dict[str, Any] = {"size": {"longest_edge": 56}, "max_image_size": {"longest_edge": 28}}
    template = TEMPLATE.replace("IMAGE", "<image>").replace("VIDEO", "<video>")
    if kind == "idefics3":
        processor = tf.Idefics3Processor(
            tf.Idefics3ImageProcessor(**sizes), tok, image_seq_len=1, chat_template=template
        )
    else:
        videos = tf.SmolVLMVideoProcessor(
            size={"longest_edge": 28},
            max_image_size={"longest_edge": 28},
            video_sampling={"fps": 1, "max_frames": 2, "video_size": {"longest_edge": 28}},
        )
        processor = tf.SmolVLMProcessor(
            tf.SmolVLMImageProcessor(**sizes), tok, videos, image_seq_len=1, chat_template=template
        )
    vision = {k: v for k, v in siglip().items() if k not in ("model_type", "vision_use_head")}
    config = tf.AutoConfig.for_model(
        kind,
        vision_config=vision,
        text_config=text_config(max_position_embeddings=1024),
        image_token_id=tok.convert_tokens_to_ids("<image>"),
        scale_factor=2,
    )
    save(ids(tok, config), processor, out)


def idefics3(out: Path) -> None:
    """Idefics3: tiles of 28 and the whole image, four patches folded into one token."""
    _idefics(out, "idefics3")


def smolvlm(out: Path) -> None:
    """SmolVLM: Idefics3's successor."""
    _idefics(out, "smolvlm")


def lfm2_vl(out: Path) -> None:
    """LFM2-VL: a short convolution beside one layer of attention."""
    names = {"image_token": "<image>", "image_start_token": "<|image_start|>", "image_end_token": "<|image_end|>"}
    tok = tokenizer({**names, "image_thumbnail_token": "<|img_thumbnail|>"})
    images = tf.Lfm2VlImageProcessor(
        do_image_splitting=False, encoder_patch_size=14, min_image_tokens=1, max_image_tokens=4, tile_size=28
    )
    processor = tf.Lfm2VlProcessor(images, tok, chat_template=TEMPLATE.replace("IMAGE", "<image>"))
    vision = siglip(patch=14) | {"model_type": "siglip2_vision_model", "num_patches": 16}
    config = tf.Lfm2VlConfig(
        vision_config=vision,
        text_config=text_config("lfm2", layer_types=["conv", "full_attention"]),
        image_token_id=tok.convert_tokens_to_ids("<image>"),
        projector_hidden_size=64,
    )
    save(ids(tok, config), processor, out)


def gemma3(out: Path) -> None:
    """Gemma 3: sliding attention in one layer of two, with a window shorter than any prompt."""
    names = {"image_token": "<image_soft_token>", "boi_token": "<start_of_image>", "eoi_token": "<end_of_image>"}
    tok = tokenizer(names)
    images = tf.Gemma3ImageProcessor(size={"height": 28, "width": 28}, image_seq_length=4)
    template = TEMPLATE.replace("IMAGE", "<start_of_image>")
    processor = tf.Gemma3Processor(images, tok, chat_template=template, image_seq_length=4)
    config = tf.Gemma3Config(
        vision_config=siglip(patch=7),
        text_config={
            **{k: v for k, v in text_config().items() if k != "model_type"},
            "sliding_window": 8,
            "layer_types": ["sliding_attention", "full_attention"],
            "query_pre_attn_scalar": 16,
        },
        mm_tokens_per_image=4,
        image_token_id=tok.convert_tokens_to_ids("<image_soft_token>"),
        boi_token_index=tok.convert_tokens_to_ids("<start_of_image>"),
        eoi_token_index=tok.convert_tokens_to_ids("<end_of_image>"),
    )
    config.image_token_id = config.image_token_index = tok.convert_tokens_to_ids("<image_soft_token>")
    save(ids(tok, config), processor, out)


def paligemma(out: Path) -> None:
    """PaliGemma: no chat template, a prefix that sees itself both ways."""
    tok = tokenizer({"image_token": "<image>"})
    images = tf.SiglipImageProcessor(size={"height": 28, "width": 28}, image_seq_length=4)
    images.image_seq_length = 4
    processor = tf.PaliGemmaProcessor(images, tok)
    config = tf.PaliGemmaConfig(
        vision_config=siglip(projection_dim=WIDTH),
        text_config=text_config("gemma", vocab_size=len(tok) + 8),
        projection_dim=WIDTH,
        image_token_id=tok.convert_tokens_to_ids("<image>"),
    )
    config.image_token_index = config.image_token_id
    save(ids(tok, config), processor, out)


def _blip(out: Path, kind: str, text: dict[str, Any], qformer_tokens: bool) -> None:
    tok = tokenizer()
    images = tf.BlipImageProcessor(size={"height": 28, "width": 28})
    if qformer_tokens:
        processor = tf.InstructBlipProcessor(images, tok, tokenizer(), num_query_tokens=4)
    else:
        processor = tf.Blip2Processor(images, tok, num_query_tokens=4)
    small = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = tf.AutoConfig.for_model(
        kind,
        vision_config=small | {"image_size": 28, "patch_size": 14},
        qformer_config=small | {"encoder_hidden_size": 32, "vocab_size": VOCAB, "cross_attention_frequency": 1},
        text_config=text,
        num_query_tokens=4,
        image_token_index=tok.convert_tokens_to_ids("<image>"),
    )
    config.image_token_id = config.image_token_index
    save(ids(tok, config), processor, out)


def blip2(out: Path) -> None:
    """BLIP-2 over OPT, with its learned positions."""
    text = {"model_type": "opt", "hidden_size": WIDTH, "ffn_dim": 128, "num_hidden_layers": 2, "vocab_size": VOCAB}
    text |= {"num_attention_heads": 4, "max_position_embeddings": 512, "word_embed_proj_dim": WIDTH}
    _blip(out, "blip-2", text, qformer_tokens=False)


def instructblip(out: Path) -> None:
    """InstructBLIP over Llama: the question is read by the Q-Former too."""
    _blip(out, "instructblip", text_config(), qformer_tokens=True)


def janus(out: Path) -> None:
    """Janus: sees images, and draws them as tokens of a codebook of its own."""
    names = {"image_token": "<image_placeholder>", "boi_token": "<begin_of_image>", "eoi_token": "<end_of_image>"}
    tok = tokenizer(names)
    images = tf.JanusImageProcessor(image_size=28, size={"height": 28, "width": 28})
    template = TEMPLATE.replace("IMAGE", "<image_placeholder>\n")
    processor = tf.JanusProcessor(images, tok, chat_template=template, num_image_tokens=4)
    vision = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 28, "patch_size": 14}
    config = tf.JanusConfig(
        vision_config=vision | {"mlp_ratio": 2, "projection_dim": WIDTH, "num_image_tokens": 4},
        text_config=text_config(),
        vq_config={
            "embed_dim": 8,
            "num_embeddings": 32,
            "latent_channels": 8,
            "base_channels": 32,
            "channel_multiplier": [1, 1, 1, 1],
            "num_res_blocks": 1,
            "num_patches": 2,
            "projection_dim": WIDTH,
            "image_token_embed_dim": WIDTH,
            "num_hidden_layers": 1,
        },
        image_token_id=tok.convert_tokens_to_ids("<image_placeholder>"),
    )
    begin = tok.convert_tokens_to_ids("<begin_of_image>")
    save(ids(tok, config), processor, out, generation_kwargs={"boi_token_id": begin})


def emu3(out: Path) -> None:
    """Emu3: images are tokens of the text's own vocabulary, read and drawn; 8 pixels a token."""
    names = {
        "image_token": "<image>",
        "boi_token": "<|image start|>",
        "eoi_token": "<|image end|>",
        "image_wrapper_token": "<|image token|>",
        "eof_token": "<|extra_201|>",
    }
    tok = tokenizer(names, ("<|extra_200|>", *(f"<|visual token {number:06d}|>" for number in range(32))))
    images = tf.Emu3ImageProcessor(min_pixels=16 * 16, max_pixels=32 * 32)
    processor = tf.Emu3Processor(images, tok, chat_template=TEMPLATE.replace("IMAGE", "<image>"))
    config = tf.Emu3Config(
        vq_config={
            "codebook_size": 32,
            "embed_dim": 4,
            "latent_channels": 4,
            "base_channels": 32,
            "channel_multiplier": [1, 1, 1, 1],
            "num_res_blocks": 1,
            "hidden_size": 32,
            "attn_resolutions": [],
            "temporal_downsample_factor": 1,
        },
        text_config={k: v for k, v in text_config(max_position_embeddings=4096).items() if k != "model_type"},
        vocabulary_map=tok.get_vocab(),
    )
    save(ids(tok, config), processor, out)
    model = tf.Emu3ForConditionalGeneration.from_pretrained(out)
    with torch.no_grad():  # so that what is drawn depends on the prompt, and words stay the most probable
        rows = [tok.convert_tokens_to_ids(f"<|visual token {number:06d}|>") for number in range(32)]
        model.lm_head.weight[rows] = 0.2 * STD * torch.randn((32, WIDTH), generator=torch.Generator().manual_seed(7))
    model.save_pretrained(out)


def mllama(out: Path) -> None:
    """Llama 3.2 Vision: tiles seen through cross attention in one layer."""
    tok = tokenizer({"image_token": "<|image|>"}, ("<|python_tag|>",))
    images = tf.MllamaImageProcessor(size={"height": 28, "width": 28}, max_image_tiles=4)
    processor = tf.MllamaProcessor(images, tok, chat_template=TEMPLATE.replace("IMAGE", "<|image|>"))
    vision = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_global_layers": 1}
    vision |= {"attention_heads": 2, "image_size": 28, "patch_size": 14, "max_num_tiles": 4}
    vision |= {"vision_output_dim": 64, "intermediate_layers_indices": [0]}
    vision |= {"supported_aspect_ratios": [[1, 1], [1, 2], [1, 3], [1, 4], [2, 1], [2, 2], [3, 1], [4, 1]]}
    text = {k: v for k, v in text_config().items() if k not in ("model_type", "head_dim")}
    config = tf.MllamaConfig(
        vision_config=vision,
        text_config=text | {"cross_attention_layers": [1]},
        image_token_index=tok.convert_tokens_to_ids("<|image|>"),
    )
    save(ids(tok, config), processor, out)


def kosmos2(out: Path) -> None:
    """Kosmos-2: positions of its own, no explicit masks."""
    tok = tokenizer(unk_token="<unk>", more=("<unk>",))
    images = tf.CLIPImageProcessor(size={"shortest_edge": 28}, crop_size={"height": 28, "width": 28})
    processor = tf.Kosmos2Processor(images, tok, num_patch_index_tokens=4)
    text = {"embed_dim": WIDTH, "ffn_dim": 128, "layers": 2, "attention_heads": 4, "max_position_embeddings": 512}
    config = tf.Kosmos2Config(
        text_config=text | {"vocab_size": VOCAB + 40, "dropout": 0.0, "attention_dropout": 0.0},
        vision_config={k: v for k, v in clip_vision().items() if k not in ("model_type", "projection_dim")},
        latent_query_num=4,
    )
    save(ids(tok, config), processor, out)


def qwen2_5_omni(out: Path) -> None:
    """Qwen2.5-Omni without its voice: the weights stand under the names of the whole model."""
    tok = tokenizer(QWEN_TOKENS | {"audio_token": "<|AUDIO|>", "audio_bos_token": "<|a|>", "audio_eos_token": "<|/a|>"})
    number = {name: tok.convert_tokens_to_ids(value) for name, value in QWEN_TOKENS.items()}
    sizes = {"shortest_edge": 28**2, "longest_edge": 112**2}
    images = tf.Qwen2VLImageProcessor(size=sizes)
    processor = tf.Qwen2_5OmniProcessor(
        images,
        tf.Qwen2VLVideoProcessor(size=sizes),
        tf.WhisperFeatureExtractor(feature_size=16, chunk_length=30),
        tok,
        chat_template=qwen_template().replace("AUDIO", "<|a|><|AUDIO|><|/a|>"),
    )
    vision = {"depth": 2, "num_heads": 2, "hidden_size": 32, "intermediate_size": 64, "out_hidden_size": WIDTH}
    rope = {"rope_type": "default", "mrope_section": [2, 3, 3], "rope_theta": 10000.0}
    text = text_config("qwen2_5_omni_text", rope_parameters=rope, rope_scaling=rope, max_position_embeddings=2048)
    config = tf.Qwen2_5OmniConfig(
        thinker_config={
            "vision_config": {**vision, "fullatt_block_indexes": [1], "window_size": 56},
            "audio_config": {
                "d_model": 32,
                "encoder_layers": 1,
                "encoder_attention_heads": 2,
                "encoder_ffn_dim": 64,
                "output_dim": WIDTH,
                "num_mel_bins": 16,
            },
            "text_config": text,
            "audio_token_index": tok.convert_tokens_to_ids("<|AUDIO|>"),
            "image_token_index": number["image_token"],
            "video_token_index": number["video_token"],
            "vision_start_token_id": number["vision_bos_token"],
            "vision_end_token_id": number["vision_eos_token"],
        },
        enable_audio_output=False,
    )
    ids(tok, config.thinker_config)
    save(config, processor, out, tf.AutoModelForMultimodalLM)


def qwen2_audio(out: Path) -> None:
    """Qwen2-Audio: hears, and sees nothing."""
    names = {"audio_token": "<|AUDIO|>", "audio_bos_token": "<|audio_bos|>", "audio_eos_token": "<|audio_eos|>"}
    tok = tokenizer(names)
    template = TEMPLATE.replace("AUDIO", "<|audio_bos|><|AUDIO|><|audio_eos|>\n")
    hearing = tf.WhisperFeatureExtractor(feature_size=16, chunk_length=2)
    processor = tf.Qwen2AudioProcessor(hearing, tok, chat_template=template)
    audio = {"num_mel_bins": 16, "encoder_layers": 1, "encoder_attention_heads": 2, "encoder_ffn_dim": 64}
    config = tf.Qwen2AudioConfig(
        audio_config=audio | {"model_type": "qwen2_audio_encoder", "d_model": 32, "max_source_positions": 100},
        text_config=text_config("qwen2"),
        audio_token_index=tok.convert_tokens_to_ids("<|AUDIO|>"),
    )
    save(ids(tok, config), processor, out, tf.AutoModelForMultimodalLM)


def gemma4(out: Path) -> None:
    """Gemma 4: images, videos and audio, and layers that share their keys."""
    names = {"image_token": "<|image|>", "boi_token": "<|image>", "eoi_token": "<image|>"}
    names |= {"audio_token": "<|audio|>", "boa_token": "<|audio>", "eoa_token": "<audio|>"}
    tok = tokenizer(names, ("<|video|>",))
    template = TEMPLATE.replace("IMAGE", "<|image|>").replace("VIDEO", "<|video|>").replace("AUDIO", "<|audio|>")
    processor = tf.Gemma4Processor(
        tf.Gemma4AudioFeatureExtractor(feature_size=16),
        tf.Gemma4ImageProcessor(max_soft_tokens=70),
        tok,
        tf.Gemma4VideoProcessor(),
        chat_template=template,
    )
    small = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = tf.Gemma4Config(
        vision_config=small | {"num_key_value_heads": 2, "head_dim": 16, "position_embedding_size": 64},
        audio_config=small | {"subsampling_conv_channels": [16, 4], "output_proj_dims": 32},
        text_config={
            **{name: value for name, value in text_config().items() if name != "model_type"},
            "num_hidden_layers": 3,
            "layer_types": ["sliding_attention", "full_attention", "full_attention"],
            "num_kv_shared_layers": 0,
            "sliding_window": 16,
            "global_head_dim": 16,
            "vocab_size_per_layer_input": VOCAB,
            "hidden_size_per_layer_input": 8,
            "max_position_embeddings": 2048,
        },
        **{
            f"{name}_id": tok.convert_tokens_to_ids(token)
            for name, token in ({"video_token": "<|video|>"} | names).items()
            if name != "eoa_token"
        },
        eoa_token_index=tok.convert_tokens_to_ids("<audio|>"),
    )
    save(ids(tok, config), processor, out, tf.AutoModelForMultimodalLM)


FAMILIES = [llava_next, llava_onevision, internvl, idefics3, smolvlm, lfm2_vl, gemma3, paligemma]
FAMILIES += [instructblip, janus, emu3, mllama, qwen2_5_omni, qwen2_audio, gemma4]
BUILDERS = {build.__name__: build for build in FAMILIES} | {"blip-2": blip2, "kosmos-2": kosmos2}
