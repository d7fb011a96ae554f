"""A model server as a model of other harnesses: their own command lines get what a direct call over gRPC gets.

Each skips where the harness is absent.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from helpers.engine_cluster import Server, wait_for
from helpers.harness_models import CHOICES, MODULES, TOKENS, Questions, failure, installed, samples

from lyncean.media.types import media_type
from lyncean.model.v1 import model_pb2 as model, model_pb2_grpc as model_grpc

COUNT = 40
BLIND = """
from model_server.kit import Model, main
class Blind(Model):
    name = "blind"
    image_input = False
    def generate(self, request):
        return "A"
main(Blind)
"""


@pytest.fixture(scope="module")
def questions(tmp_path_factory: pytest.TempPathFactory) -> Questions:
    return Questions(tmp_path_factory.mktemp("questions"), COUNT)


@pytest.fixture(scope="module")
def bundled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The bundled model with its weights; in batches, log-probabilities would differ in the last digits."""
    command = [sys.executable, "-m", "model_server", "serve", "--backend", "transformers", "--model", "demo"]
    server = Server(tmp_path_factory.mktemp("bundled"), [*command, "--device", "cpu", "--deterministic"]).start()
    wait_for(lambda: serving(server))
    yield server
    server.kill()


def serving(server: Server) -> bool:
    with grpc.insecure_channel(server.address) as channel:
        stub: Any = model_grpc.ModelServiceStub(channel)
        try:
            return bool(stub.GetModelInfo(model.GetModelInfoRequest()))
        except grpc.RpcError:
            return False


def direct(server: Server, questions: Questions, method: str) -> list[Any]:
    """Asks over gRPC, with the images' own bytes."""
    answers: list[Any] = []
    with grpc.insecure_channel(server.address) as channel:
        stub: Any = model_grpc.ModelServiceStub(channel)
        for row in questions.rows:
            data = row["image"]["bytes"]
            image = model.Part(image=model.Image(data=data, media_type=media_type(data)))
            messages = [model.Message(role=model.ROLE_USER, parts=[image, model.Part(text=row["question"])])]
            if method == "generate":
                config = model.GenerationConfig(max_output_tokens=TOKENS)
                request = model.GenerateRequest(messages=messages, config=config)
                answers.append(stub.Generate(request).parts[0].text)
            else:
                likelihood_request = model.LikelihoodRequest(
                    messages=messages, continuations=[f" {choice}" for choice in CHOICES]
                )
                scores = stub.Likelihood(likelihood_request).scores
                answers.append([(score.logprob, score.token_count) for score in scores])
    return answers


@pytest.mark.parametrize("harness", MODULES)
def test_answers_are_those_of_direct_calls(harness: str, questions: Questions, bundled: Server, tmp_path: Path) -> None:
    installed(harness)
    expected = direct(bundled, questions, "generate")
    assert len(set(expected)) > 3, "the model looks at its images"
    done = questions.ask(harness, tmp_path, bundled.address)
    assert done.returncode == 0, done.stdout + done.stderr
    assert samples(harness, tmp_path) == expected


@pytest.mark.parametrize("harness", ["lmms-eval", "lm-eval"])
def test_likelihoods_with_images_are_those_of_direct_calls(
    harness: str, questions: Questions, bundled: Server, tmp_path: Path
) -> None:
    installed(harness)
    expected = direct(bundled, questions, "likelihood")
    done = questions.ask(harness, tmp_path, bundled.address, "likelihood")
    assert done.returncode == 0, done.stdout + done.stderr
    # lmms-eval's models return the mean loss of a token, those of lm-evaluation-harness the sum.
    mine = [[-total / tokens if harness == "lmms-eval" else total for total, tokens in scores] for scores in expected]
    for got, wanted in zip(samples(harness, tmp_path), mine, strict=True):
        assert got == pytest.approx(wanted, abs=1e-9, rel=0)


@pytest.mark.parametrize("harness", MODULES)
def test_a_model_that_cannot_be_asked_is_one_line(harness: str, questions: Questions, tmp_path: Path) -> None:
    installed(harness)
    wrong = tmp_path / "wrong"
    wrong.write_text("wrong")
    token, program = tmp_path / "token", tmp_path / "blind.py"
    token.write_text("right")
    program.write_text(BLIND)
    server = Server(tmp_path / "blind", [sys.executable, str(program), "--token-file", str(token)]).start()
    try:
        cases = [
            ("127.0.0.1:1", {}, "the model server at 127.0.0.1:1: "),
            (server.address, {"token_file": str(wrong)}, "UNAUTHENTICATED"),
            (server.address, {"token_file": str(token), "colour": "red"}, "unknown model argument 'colour'"),
            (server.address, {"token_file": str(token)}, "the task needs IMAGE_INPUT, which this model does not have"),
        ]
        if harness == "inspect":  # which takes a quarter of a minute to start; the model's name is its address
            cases = [cases[1], cases[3]]
        else:
            cases.append((server.address, {"token_file": str(token), "model": "other"}, "serves 'blind', not 'other'"))
        for address, arguments, message in cases:
            done = questions.ask(harness, tmp_path / "log", address, **arguments)
            output = done.stdout + done.stderr
            if "IMAGE_INPUT" in message and harness == "inspect":  # where a sample fails, its log has the line
                assert message in failure(tmp_path / "log")
                continue
            assert done.returncode != 0, output
            assert len([line for line in output.splitlines() if message in line]) == 1, output
            assert "Traceback" not in output, output
    finally:
        server.kill()
