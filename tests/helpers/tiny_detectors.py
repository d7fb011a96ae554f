"""Tiny open-vocabulary detectors made from config: random weights, real processors."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from helpers.tiny import tokenizer
from lyncean.transformers_import import torch, transformers as tf

_SIDE = 64


def owlv2(out: Path) -> Path:
    """Writes an OWLv2 of two layers."""
    layers = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = tf.Owlv2Config(
        text_config={**layers, "vocab_size": 512, "max_position_embeddings": 16},
        vision_config={**layers, "image_size": _SIDE, "patch_size": 16},
        projection_dim=32,
    )
    text_tokenizer = tokenizer(model_max_length=16)
    text_tokenizer.padding_side = "right"  # the text is read at its token of the highest number: the first padding
    images = tf.Owlv2ImageProcessorPil(size={"height": _SIDE, "width": _SIDE})
    return _save(tf.Owlv2ForObjectDetection(config), tf.Owlv2Processor(images, text_tokenizer), out)


def grounding_dino(out: Path) -> Path:
    """Writes a Grounding DINO of one or two layers each."""
    layers = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = tf.GroundingDinoConfig(
        backbone_config=tf.SwinConfig(
            image_size=_SIDE,
            patch_size=4,
            embed_dim=16,
            depths=[1, 1, 1, 1],
            num_heads=[1, 1, 1, 1],
            window_size=4,
            out_features=["stage2", "stage3", "stage4"],
        ),
        text_config=tf.BertConfig(**layers, vocab_size=2048),
        d_model=32,
        encoder_layers=1,
        decoder_layers=2,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        num_queries=20,
        max_text_len=32,
        num_feature_levels=4,
    )
    images = tf.GroundingDinoImageProcessorPil(size={"shortest_edge": _SIDE, "longest_edge": 2 * _SIDE})
    processor = tf.GroundingDinoProcessor(images, _bert_tokenizer())
    return _save(tf.GroundingDinoForObjectDetection(config), processor, out)


def _bert_tokenizer() -> Any:
    """A tokenizer by letters with BERT's numbers of special tokens, which Grounding DINO's code names."""
    vocabulary = {f"[unused{number}]": number for number in range(1100)}
    vocabulary = {word: number for word, number in vocabulary.items() if number not in (0, 100, 101, 102, 1012, 1029)}
    vocabulary |= {"[PAD]": 0, "[UNK]": 100, "[CLS]": 101, "[SEP]": 102, ".": 1012, "?": 1029}
    letters = "abcdefghijklmnopqrstuvwxyz0123456789"
    vocabulary |= {
        sign + letter: 1100 + number for number, (sign, letter) in enumerate(itertools.product(("", "##"), letters))
    }
    core = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    core.normalizer = normalizers.BertNormalizer()
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    core.post_processor = processors.BertProcessing(("[SEP]", 102), ("[CLS]", 101))
    return tf.PreTrainedTokenizerFast(
        tokenizer_object=core,
        model_max_length=32,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
    )


def _save(model: Any, processor: Any, out: Path) -> Path:
    torch.manual_seed(7)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(0.0, 0.08)
    model.save_pretrained(out)
    processor.save_pretrained(out)
    return out
