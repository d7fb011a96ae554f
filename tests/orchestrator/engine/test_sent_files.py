"""Files on the wire: their bytes once, then their hash, as long as that saves bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import grpc
import pytest
from hypothesis import given, strategies as st

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import CallError
from orchestrator.engine.batch import MOST_BYTES, bundles
from orchestrator.engine.sent import SentFiles, not_held
from orchestrator.engine.wire import Request, batch_of, request_of, samples_of
from orchestrator.samples import Call, Clip, Part, image_part, text_part, user

FILES = [bytes([n]) * (10_000 + n) for n in range(4)]
HASHES = [hashlib.sha256(data).digest() for data in FILES]
CLAIMS = [model.CAPABILITY_MEDIA_BY_HASH]


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def about(*places: int, sampled: bool = False, hashed: bool = True) -> Request:
    """Returns a request about some of the files; the last is a clip."""
    media = [
        Part(clip=Clip(FILES[3], model.Audio())) if number == 3 else image_part(FILES[number]) for number in places
    ]
    config = model.GenerationConfig(temperature=1.0, seed=7) if sampled else model.GenerationConfig()
    call = Call((user(*media, text_part("which?")),), config=config)
    return request_of(call, [HASHES[number] for number in places] if hashed else ())


def media(data: bytes) -> list[tuple[int, bytes]]:
    """Returns the bytes and the hash of each file of a request."""
    parts = [part for message in model.GenerateRequest.FromString(data).messages for part in message.parts]
    files = [getattr(part, str(part.WhichOneof("kind"))) for part in parts if not part.HasField("text")]
    return [(len(file.data), file.sha256) for file in files]


def test_hashes_stand_beside_bytes_and_then_alone() -> None:
    request, plain = about(0, 3, 0), about(0, 3, 0, hashed=False)
    assert request.data == plain.data
    assert not plain.files
    # What stands twice in a request is sent once.
    assert media(b"".join(request.by_hash(set()))) == [(10_000, HASHES[0]), (10_003, HASHES[3]), (0, HASHES[0])]
    assert media(b"".join(request.by_hash({HASHES[0]}))) == [(0, HASHES[0]), (10_003, HASHES[3]), (0, HASHES[0])]
    for held in ({HASHES[0], HASHES[3]}, set[bytes]()):
        data = b"".join(request.by_hash(held))
        assert model.GenerateRequest.FromString(data).SerializeToString() == data


def test_a_batch_and_repeats_bring_each_file_once() -> None:
    sent: set[bytes] = set()
    batch = batch_of([(call, call.by_hash(sent)) for call in (about(0, 1), about(1, 2), about(0))])
    calls = model.BatchRequest.FromString(batch).calls
    sizes = [[len(part.image.data) for part in call.generate.messages[0].parts[:-1]] for call in calls]
    assert sizes == [[10_000, 10_001], [0, 10_002], [0]]
    merged = samples_of([about(0, sampled=True)] * 3)
    request = model.GenerateRequest.FromString(b"".join(merged.by_hash(set(HASHES))))
    assert (request.samples, request.messages[0].parts[0].image.data) == (3, b"")


def test_files_count_as_held_once_they_must_be_there() -> None:
    clock = Clock()
    files = SentFiles(model.GetModelInfoResponse(capabilities=CLAIMS, max_held_bytes=1 << 20), clock)
    assert files.sending(about(0, 3)) == set()
    assert files.sending(about(0)) == set()  # at once: the first may still be on its way
    clock.now = 1.0
    assert files.sending(about(0, 1)) == {HASHES[0]}
    files.refused(refused(0), about(0, 3))
    assert files.sending(about(0, 3)) == {HASHES[3]}
    files.refused(CallError(grpc.StatusCode.NOT_FOUND, "media_not_held", "nameless"), about(0, 3))
    assert not files.holds(HASHES[3])


def refused(*places: int) -> CallError:
    named = ",".join(HASHES[number].hex() for number in places)
    error = CallError(grpc.StatusCode.NOT_FOUND, "media_not_held", "gone", {"sha256": named})
    assert not_held(error)
    assert not error.foreign
    return error


def test_the_files_used_last_are_remembered() -> None:
    clock = Clock()
    files = SentFiles(model.GetModelInfoResponse(capabilities=CLAIMS, max_held_bytes=25_000), clock)
    for index in (0, 1, 0, 2):
        files.sending(about(index))
        clock.now += 1
    assert [files.holds(digest) for digest in HASHES] == [True, False, True, False]
    many = SentFiles(model.GetModelInfoResponse(capabilities=CLAIMS, max_held_bytes=1 << 60), clock)
    for number in range(1500):
        call = Call((user(image_part(b"one")),))
        many.sending(request_of(call, [hashlib.sha256(b"%d" % number).digest()]))
    assert len(many._files) == 1024
    small = SentFiles(model.GetModelInfoResponse(capabilities=CLAIMS, max_held_bytes=9_000), clock)
    small.sending(about(0))
    clock.now += 1
    assert not small.holds(HASHES[0])


@pytest.mark.parametrize("claims", [[], CLAIMS])
def test_nothing_is_held_where_it_is_not_claimed(claims: list[model.Capability.ValueType]) -> None:
    files = SentFiles(model.GetModelInfoResponse(capabilities=claims, max_held_bytes=0 if claims else 99), Clock())
    assert not files.capacity


def test_a_server_that_refuses_often_gets_bytes() -> None:
    clock = Clock()
    files = SentFiles(model.GetModelInfoResponse(capabilities=CLAIMS, max_held_bytes=1 << 20), clock)
    tries = 0
    while files.capacity:
        files.sending(about(0))
        clock.now += 1
        assert files.sending(about(0)) == {HASHES[0]}
        files.refused(refused(0), about(0))
        tries += 1
    assert tries < 15
    honest = SentFiles(model.GetModelInfoResponse(capabilities=CLAIMS, max_held_bytes=1 << 20), clock)
    for number in range(400):
        held = honest.sending(about(0))
        clock.now += 1
        if held and number % 10 == 0:
            honest.refused(refused(0), about(0))
    assert honest.capacity


@given(st.lists(st.lists(st.integers(0, 3), max_size=3), max_size=12), st.sets(st.integers(0, 3)), st.integers(1, 5))
def test_bundles_count_what_is_sent(places: list[list[int]], held_numbers: set[int], most: int) -> None:
    requests: Sequence[Request] = [about(*numbers) for numbers in places]
    held, limit = {HASHES[number] for number in held_numbers}, 45_000
    cut = list(bundles(requests, most, limit + 32 * most, held.__contains__))
    assert [index for run in cut for index in run] == list(range(len(requests)))
    for run in cut:
        sent = set(held)
        size = sum(len(b"".join(requests[index].by_hash(sent))) for index in run)
        assert len(run) == 1 or (len(run) <= most and sum(requests[index].size for index in run) <= limit)
        assert size <= MOST_BYTES


def test_a_file_of_an_answered_request_is_there() -> None:
    """The next call of a trajectory follows at once."""
    files = SentFiles(model.GetModelInfoResponse(capabilities=CLAIMS, max_held_bytes=1 << 20), Clock())
    assert files.sending(about(0, 1)) == set()
    assert files.sending(about(0)) == set()
    files.answered(about(0))
    assert files.sending(about(0, 1)) == {HASHES[0]}
