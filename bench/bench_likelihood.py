"""Measures the log-likelihood of N candidates after one image and prompt: our way, the peers' ways and the floor.

`python bench/bench_likelihood.py` builds a LLaVA of 37 million parameters with 576 image tokens,
checks that all ways agree, and prints milliseconds and ratios. With a GPU it runs there.

  reform    the whole input repeated per candidate, full logits: ReForm-Eval's way
  single    one forward pass per candidate
  expanded  the prompt once, its cache repeated per candidate
  forked    the same, one token of each candidate at a time (--hybrid)
  packed    the prompt once, all candidates in one row after it (the server's way)
  floor     one plain forward pass over the prompt and all candidates' tokens

`--hybrid` replaces three of four attention layers by gated delta nets, as in Qwen3.5: nothing is packed then, and
`expanded` is the server's way.
"""

# ruff: noqa: E402  (the path comes before the imports that need it)
from __future__ import annotations

import argparse
import io
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path[:0] = [
    str(Path(__file__).resolve().parents[1]),
    str(Path(__file__).resolve().parents[1] / "tests"),
]

import torch
import transformers as tf
from helpers import tiny
from PIL import Image

from lyncean.model.v1 import model_pb2 as model
from model_server.hf import checkpoint as checkpoints
from model_server.hf.batch import to_device
from model_server.hf.likelihood import Question, Tree, expanded, packed, plain
from model_server.hf.prompt import Prompter
from model_server.hf.settings import Settings
from model_server.hf.vision import VisionCache
from model_server.metrics import Metrics

WORDS = (
    "red blue green yellow a dog two cats the man on left right of above below wearing hat table wooden".split()  # noqa: SIM905
)


def build(folder: Path, width: int, layers: int, hybrid: bool = False, patch: int = 14) -> None:
    """Writes a LLaVA whose images have (336 / patch)² tokens: 576, 256 for patches of 21, 64 for patches of 42."""
    tok = tiny.tokenizer({"image_token": "<image>"})
    images = tf.CLIPImageProcessor(size={"shortest_edge": 336}, crop_size={"height": 336, "width": 336})
    processor = tf.LlavaProcessor(
        images,
        tok,
        patch_size=patch,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=tiny.TEMPLATE.replace("IMAGE", "<image>\n"),
    )
    delta: dict[str, Any] = {}
    if hybrid:
        delta["layer_types"] = ["full_attention" if layer % 4 == 3 else "linear_attention" for layer in range(layers)]
        delta |= {f"linear_num_{part}_heads": width // 64 for part in ("key", "value")}
        delta |= {f"linear_{part}_head_dim": 64 for part in ("key", "value")}
    text = tiny.text_config(
        "qwen3_5_text" if hybrid else "llama",
        **delta,
        hidden_size=width,
        intermediate_size=width * 11 // 4,
        num_hidden_layers=layers,
        num_attention_heads=width // 64,
        num_key_value_heads=width // 64,
        head_dim=64,
        vocab_size=8192,
        max_position_embeddings=2048,
    )
    vision = tiny.clip_vision(336, patch, hidden_size=width // 2, intermediate_size=2 * width, num_hidden_layers=4)
    vision["num_attention_heads"] = 4
    config = tf.LlavaConfig(vision_config=vision, text_config=text, image_token_id=tok.convert_tokens_to_ids("<image>"))
    tiny.save(tiny.ids(tok, config), processor, folder)


def picture(seed: int = 1) -> bytes:
    """Returns a JPEG of coarse blocks in the size of a photograph."""
    generator = torch.Generator().manual_seed(seed)
    blocks = (torch.rand((12, 16, 3), generator=generator) * 255).byte().numpy()
    buffer = io.BytesIO()
    Image.fromarray(blocks).resize((1024, 768)).save(buffer, "JPEG")
    return buffer.getvalue()


@torch.inference_mode()
def reform(loaded: Any, question: Question, rows: int) -> list[float]:
    """Repeats the whole input per candidate, pads on the right, sums the cross entropy of the candidate."""
    sums: list[float] = []
    pixels = question.prompt.inputs["pixel_values"].to(loaded.device, loaded.model.dtype)
    for first in range(0, len(question.joined), rows):
        part = question.joined[first : first + rows]
        longest = max(len(candidate.ids) for candidate in part)
        ids = torch.zeros((len(part), longest), dtype=torch.long, device=loaded.device)
        labels = torch.full_like(ids, -100)
        mask = torch.zeros_like(ids)
        for row, candidate in enumerate(part):
            line = torch.tensor(candidate.ids, device=loaded.device)
            ids[row, : len(line)], mask[row, : len(line)] = line, 1
            labels[row, candidate.start : len(line)] = line[candidate.start :]
        repeated = pixels.repeat_interleave(len(part), dim=0)
        logits = loaded.model(input_ids=ids, attention_mask=mask, pixel_values=repeated).logits[:, :-1]
        loss = torch.nn.functional.cross_entropy(
            logits.reshape(-1, logits.shape[-1]).float(), labels[:, 1:].reshape(-1), reduction="none"
        )
        sums += (-loss.view(len(part), -1).sum(-1)).tolist()
    return sums


@torch.inference_mode()
def floor(loaded: Any, question: Question, tokens: int) -> None:
    """Runs one causal pass over the prompt and `tokens` further tokens."""
    inputs = loaded.family.extend(question.prompt.inputs, len(question.prompt.ids), [5] * tokens)
    loaded.model(**to_device(inputs, loaded.device, loaded.model.dtype), use_cache=False, logits_to_keep=tokens + 1)


def best_ms(ways: dict[str, Callable[[], Any]], rounds: int, clock: Callable[[], float]) -> dict[str, float]:
    """Returns the best time of each way, in ms; the ways take turns, so that a busy moment hits them alike."""
    best = dict.fromkeys(ways, float("inf"))
    for _ in range(rounds):
        for name, run in ways.items():
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            start = clock()
            run()
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            best[name] = min(best[name], (clock() - start) * 1000)
    return best


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--candidates", type=int, nargs="+", default=[4, 10, 50])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--hybrid", action="store_true", help="Recurrent layers beside those of attention.")
    parser.add_argument("--rows", type=int, default=64, help="Most rows of ReForm-Eval's way at a time.")
    parser.add_argument("--cpu-time", action="store_true", help="Processor time, for a machine that is busy otherwise.")
    parser.add_argument("--json", type=Path, help="Write the figures here as well.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        build(Path(folder), options.width, options.layers, options.hybrid)
        loaded = checkpoints.load(Settings(model=folder, dtype=options.dtype))
    prompter = Prompter(loaded, 10**9)
    message = model.Message(role=model.ROLE_USER)
    message.parts.add(image=model.Image(data=picture()))
    message.parts.add(text="Question: what is in the image? Answer:")
    prompt = prompter.prepare([message])
    size = sum(p.numel() for p in loaded.model.parameters()) / 1e6
    print(f"{size:.1f} M parameters, {loaded.device}, {loaded.model.dtype}, {torch.get_num_threads()} threads,")
    images = prompt.tokens["image_tokens"]
    print(f"prompt of {len(prompt.ids)} tokens, {images} for the image; best of {options.repeats} rounds, ms")
    clock = time.process_time if options.cpu_time else time.perf_counter
    vision = VisionCache(loaded, 10**9, Metrics())
    figures = []
    for count in options.candidates:
        texts = [
            " " + " ".join(WORDS[(n * 7 + i * 3) % len(WORDS)] for i in range(1 + n % 3)) + f" {n}"
            for n in range(count)
        ]
        question = Question(prompt, prompter.join(prompt, texts))
        tree = Tree()
        for candidate in question.joined:
            tree.add(candidate.ids[question.shared :], candidate.start - question.shared)
        tokens = sum(len(candidate.ids) - candidate.start for candidate in question.joined)

        def kept(inputs: dict[str, Any], *, only: Any = prompt) -> dict[str, Any]:
            return vision.apply([only], inputs)

        ways: dict[str, Callable[[], Any]] = {
            "reform": lambda q=question: reform(loaded, q, options.rows),
            "single": lambda q=question: plain(loaded, q.prompt, q.joined),
            "expanded": lambda q=question: expanded(loaded, q),
        }
        if options.hybrid:
            ways["forked"] = lambda q=question: expanded(loaded, q, stepwise=True)
        else:
            ways["packed"] = lambda q=question: packed(loaded, [q])[0]
            ways["packed, image kept"] = lambda q=question, k=kept: packed(loaded, [q], k)[0]
        ways["floor"] = lambda q=question, t=tokens: floor(loaded, q, t)
        server = "expanded" if options.hybrid else "packed"
        ours = [score.logprob for score in ways[server]()]
        reference = ways["reform"]()
        apart = max(abs(one - other) for one, other in zip(ours, reference, strict=True))
        times = best_ms(ways, options.repeats, clock)
        figures.append({"candidates": count, "tokens": tokens, "nodes": len(tree.ids), "apart": apart, "ms": times})
        if options.json:
            options.json.write_text(json.dumps(figures, indent=1))
        print(
            f"N={count:<4} M={tokens:<5}"
            + "  ".join(f"{name} {value:,.0f}" for name, value in times.items())
            + f"  | reform/{server} {times['reform'] / times[server]:.1f}x"
            + f"  {server}/floor {times[server] / times['floor']:.2f}  largest difference {apart:.1e}"
        )


if __name__ == "__main__":
    main()
