"""Turns messages into model inputs: the model's own chat template and processor, and the join rule."""

from __future__ import annotations

import copy
import inspect
import threading
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from tokenizers import Tokenizer

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import InternalFailure, InvalidRequest, Unsupported
from model_server import images
from model_server.clips import usage_of
from model_server.hf.checkpoint import Checkpoint
from model_server.hf.clips import ClipDecoder, Decoded
from model_server.hf.inputs import Joined, Prompt
from model_server.hf.shown import sizes
from model_server.hf.template import Template
from model_server.parts import content

if TYPE_CHECKING:
    from model_server.hf.draw import Drawer


class Prompter:
    """Builds prompts. Safe to use from several threads.

    Args:
        checkpoint: The model with its processor.
        max_pixels: Larger images are refused.

    Attributes:
        clips: Decodes audio and videos.
        template: Renders the conversations.
        apart: Kinds of media that a prompt may not hold together. Set by the self-check.

    Raises:
        LoadError: If the chat template is invalid.
    """

    def __init__(self, checkpoint: Checkpoint, max_pixels: int) -> None:
        self._checkpoint = checkpoint
        self._max_pixels = max_pixels
        self._local = threading.local()
        self._join = _offsets_tokenizer(checkpoint.tokenizer)
        # Some tokenizers return token types for models that do not take them.
        typed = "token_type_ids" in inspect.signature(checkpoint.model.forward).parameters
        self._unwanted = {"labels"} if typed else {"labels", "token_type_ids"}
        self._image_ids = checkpoint.family.image_token_ids(checkpoint)
        self._clip_ids = {kind: checkpoint.family.clip_token_ids(checkpoint, kind) for kind in checkpoint.clips}
        self._placeholders = sorted(checkpoint.family.placeholders(checkpoint)) if checkpoint.takes_media else []
        self.clips = ClipDecoder(checkpoint.processor)
        self.apart: set[frozenset[str]] = set()
        self._specials = frozenset(checkpoint.tokenizer.added_tokens_decoder)
        self.template = Template(checkpoint, self._thread_processor)

    @property
    def can_join(self) -> bool:
        """True if the tokenizer reports the offsets of its tokens, which the join rule needs."""
        return self._join is not None

    def prepare(
        self,
        messages: Sequence[model.Message],
        *,
        drawer: Drawer | None = None,
        arguments: Mapping[str, Any] | None = None,
        tools: Sequence[model.Tool] = (),
    ) -> Prompt:
        """Renders the conversation, decodes images and clips, and tokenizes.

        Args:
            messages: The conversation.
            drawer: Draws the requested image; None for text.
            arguments: Variables for the chat template.
            tools: Tools that the model may call.

        Raises:
            InvalidRequest: For a bad image or clip, an argument that the template does not have, or a conversation
                that it refuses.
            Unsupported: For media that this model does not take together.
        """
        for name in arguments or ():
            if name not in self.template.arguments:
                known = ", ".join(sorted(self.template.arguments)) or "none"
                raise InvalidRequest("unknown_argument", f"the chat template has no variable {name!r}; it has {known}")
        parts = list(content(messages))
        kinds = {str(part.WhichOneof("kind")) for part in parts} - {"text", "tool_call"}
        for pair in self.apart:
            if pair <= kinds:
                raise Unsupported("no_mixed_media", f"this model takes no {' and '.join(sorted(pair))} in one prompt")
        pictures: list[Any] = []
        keys: list[str] = []
        for message in messages:
            self._refuse_placeholders(message.reasoning)
        for tool in tools:
            self._refuse_placeholders(f"{tool.description} {tool.input_schema}")
        for part in parts:
            self._refuse_placeholders(part.text or f"{part.tool_call.name} {part.tool_call.arguments}")
            if part.HasField("image"):
                where = f"image {len(keys)}"
                pictures.append(images.decode(part.image.data, max_pixels=self._max_pixels, where=where))
                keys.append(images.digest(part.image).hex())
        decoded = self.clips.decode(messages)
        if self._checkpoint.family.needs_image and not pictures:
            raise InvalidRequest("image_needed", "this model answers about an image: the prompt holds none")
        rendered = self.template.render(messages, arguments, tools) + (drawer.suffix if drawer else "")
        inputs, text = self._encoded(rendered, pictures, decoded, drawer.processor_kwargs if drawer else {})
        decoded.correct(inputs, self._checkpoint.processor)
        ids = inputs["input_ids"][0].tolist()
        return Prompt(
            inputs,
            ids,
            text,
            self._media_tokens(inputs, ids, len(pictures), decoded),
            () if decoded.kinds else tuple(keys),
            decoded.kinds,
            tuple(usage_of(messages, decoded.sounds, decoded.videos)),
            tuple(sizes(inputs, len(pictures), self._checkpoint) if not decoded.kinds else ()),
            messages[-1].role == model.ROLE_ASSISTANT,
        )

    def prepare_raw(self, raw: model.RawPrompt) -> Prompt:
        """Tokenizes a prompt that no template renders, or takes its tokens.

        Raises:
            InvalidRequest: For placeholders of media, or tokens that the model does not have.
        """
        self._refuse_placeholders(raw.text)
        text = raw.text or "x"  # for a prompt of tokens, any text shows the names of the inputs
        inputs, text = self._encoded(text, [], Decoded(), {})
        if raw.HasField("tokens"):
            ids = list(raw.tokens.ids)
            self._check_tokens(ids)
            inputs = self._checkpoint.family.extend(inputs, 0, ids)
            inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
            text = str(self._checkpoint.tokenizer.decode(ids))
        ids = inputs["input_ids"][0].tolist()
        if not ids:
            raise InvalidRequest("no_token", "the raw_prompt is not a token of this model")
        return Prompt(inputs, ids, text, raw=True)

    def _check_tokens(self, ids: Sequence[int]) -> None:
        size = self._checkpoint.model.get_input_embeddings().num_embeddings
        media = self._image_ids.union(*self._clip_ids.values())
        for number in ids:
            if number >= size:
                raise InvalidRequest(
                    "unknown_token", f"the model has {size} tokens, none of number {number}", value=str(number)
                )
            if number in media:
                raise InvalidRequest("placeholder_in_text", f"token {number} stands for media: send these as parts")

    def _media_tokens(
        self, inputs: Mapping[str, torch.Tensor], ids: Sequence[int], pictures: int, decoded: Decoded
    ) -> dict[str, int]:
        count = {kind: sum(number in numbers for number in ids) for kind, numbers in self._clip_ids.items()}
        images, seen = sum(number in self._image_ids for number in ids), count.get("video", 0)
        if decoded.videos and not seen:  # frames use the tokens of images; each frame has as many as a tile
            frames = sum(len(video.images) for video in decoded.videos)
            seen = images * frames // len(inputs["pixel_values"]) if pictures else images
            images -= seen
        return {"image_tokens": images, "audio_tokens": count.get("audio", 0), "video_tokens": seen}

    def _refuse_placeholders(self, text: str) -> None:
        for token in self._placeholders:
            if token in text:
                raise InvalidRequest(
                    "placeholder_in_text",
                    f"the text holds {token!r}, by which this model marks an image or a clip: send these as parts",
                )

    def join(self, prompt: Prompt, continuations: Sequence[str]) -> list[Joined]:
        """Tokenizes the prompt together with each continuation, after the blank that the template puts there.

        Only the text after the last special token is tokenized again: an added token always
        ends a segment, so the tokens before it cannot change. Each call checks that the tail
        alone yields the prompt's own tokens.
        """
        assert self._join is not None, "Likelihood is not claimed without token ends"
        kept, tail = self._tail(prompt)
        joined = []
        for text in continuations:
            self._refuse_placeholders(text)
            gap = "" if prompt.continues or prompt.raw or text[0].isspace() else self.template.gap
            encoding = self._join.encode(tail + gap + text, add_special_tokens=False)
            # Ends never decrease, so bisection finds the first token that ends beyond the prompt.
            start = bisect_right([end for _, end in encoding.offsets], len(tail))
            if start == len(encoding.ids):
                raise InvalidRequest("no_token", f"the continuation {text!r} is not a token of this model")
            ids = prompt.ids[:kept] + encoding.ids
            if kept + start == 0 or ids[0] != prompt.ids[0]:
                raise InvalidRequest(
                    "no_prompt_token", f"the prompt and the continuation {text!r} begin with a token that holds both"
                )
            joined.append(Joined(ids, kept + start))
        return joined

    def _tail(self, prompt: Prompt) -> tuple[int, str]:
        assert self._join is not None
        encoding = self._join.encode(prompt.text, add_special_tokens=False)
        special = [i for i, number in enumerate(encoding.ids) if number in self._specials]
        for last in (special[-1:], []):
            first = last[0] if last else 0
            tail = prompt.text[encoding.offsets[first][0] :] if last else prompt.text
            again = self._join.encode(tail, add_special_tokens=False).ids
            kept = len(prompt.ids) - len(again)
            if kept >= 0 and prompt.ids[kept:] == again:
                return kept, tail
        raise InternalFailure(
            "no_join", "the processor's tokens are not those of its text: continuations cannot be joined"
        )

    def _encoded(
        self, rendered: str, pictures: list[Any], decoded: Decoded, more: Mapping[str, Any]
    ) -> tuple[dict[str, torch.Tensor], str]:
        """Returns the inputs of a prompt, and its text as the tokenizer read it."""
        if self._checkpoint.takes_media:
            encoded, rendered = self._process(rendered, pictures, decoded, more)
        else:
            encoded = self._thread_processor()(rendered, return_tensors="pt", add_special_tokens=self._adds(rendered))
        inputs = {k: v for k, v in encoded.items() if isinstance(v, torch.Tensor) and k not in self._unwanted}
        return inputs, rendered

    def _process(
        self, rendered: str, pictures: list[Any], decoded: Decoded, more: Mapping[str, Any]
    ) -> tuple[Any, str]:
        processor = self._thread_processor()
        recorder = _Recorder(processor.tokenizer)
        recording = copy.copy(processor)
        recording.tokenizer = recorder
        kwargs = {**self._checkpoint.family.processor_kwargs(self._checkpoint), **more}
        if self._checkpoint.image_settings:
            kwargs["images_kwargs"] = dict(self._checkpoint.image_settings)
        if pictures:
            kwargs["images"] = self._checkpoint.family.nest(pictures)
        kwargs |= decoded.arguments(processor)
        try:
            encoded = recording(
                text=[rendered],
                return_tensors="pt",
                add_special_tokens=self._adds(rendered),
                **kwargs,
            )
        except (ValueError, IndexError, TypeError) as error:
            cause = str(error).partition("\n")[0]
            raise InvalidRequest("processor_refused", f"the model's processor refuses this prompt: {cause}") from error
        return encoded, recorder.texts[0]

    def _adds(self, rendered: str) -> bool:
        bos = self._checkpoint.tokenizer.bos_token
        return not (bos and rendered.startswith(bos))

    def _thread_processor(self) -> Any:
        """Returns this thread's copy of the processor: fast tokenizers cannot be used by two threads at once."""
        if not hasattr(self._local, "processor"):
            self._local.processor = copy.deepcopy(self._checkpoint.processor)
        return self._local.processor


class _Recorder:
    """A tokenizer that records the texts of its calls."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self.texts: list[str] = []

    def __call__(self, text: Any, *args: Any, **kwargs: Any) -> Any:
        self.texts.append(text if isinstance(text, str) else text[0])
        return self._tokenizer(text, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tokenizer, name)


def _offsets_tokenizer(tokenizer: Any) -> Tokenizer | None:
    """Returns the same tokenizer with exact ends: byte-level ones report ends without trailing blanks."""
    core = getattr(tokenizer, "backend_tokenizer", None)
    if not isinstance(core, Tokenizer):
        return None
    exact = Tokenizer.from_str(core.to_str().replace('"trim_offsets":true', '"trim_offsets":false'))
    exact.no_truncation()
    exact.no_padding()
    return exact
