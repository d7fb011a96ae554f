"""Values that the shared options refuse before anything listens or dials."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from lyncean.cli.options import POSITIVE_SECONDS, server_options
from lyncean.rpc import SecurityError, Tls


@pytest.mark.parametrize(
    "args",
    [
        ("--port", "99999"),
        ("--port", "-1"),
        ("--health-port", "70000"),
        ("--grace", "-1"),
        ("--grace", "inf"),
        ("--max-connection-age", "1e12"),
    ],
)
def test_numbers_out_of_range(args: tuple[str, ...]) -> None:
    @click.command()
    @server_options(50051)
    def serve(config: object) -> None:
        raise AssertionError(config)

    result = CliRunner().invoke(serve, args)
    assert result.exit_code == 2
    assert "is not in the range" in result.output


@pytest.mark.parametrize("number", ["nan", "-nan", "inf", "-inf", "1e12", "1e400", "x", "0"])
def test_seconds_are_finite_and_not_too_many(number: str) -> None:
    @click.command()
    @click.option("--timeout", type=POSITIVE_SECONDS)
    def wait(timeout: float) -> None:
        raise AssertionError(timeout)

    result = CliRunner().invoke(wait, ["--timeout", number])
    assert result.exit_code == 2
    assert "Invalid value for '--timeout'" in result.output


def test_files_that_are_no_pem(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("not a certificate\n")
    with pytest.raises(SecurityError, match="no certificate in PEM"):
        Tls(ca=file).channel_credentials()
    with pytest.raises(SecurityError, match="no certificate and its private key"):
        Tls(file, file).server_credentials()
