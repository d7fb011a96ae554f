"""`submit --tool-server` and `--tools grpc:H:P`: sidecars with limits of their own, and the way to a Service."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from helpers.manifests import needs_kubectl, of_kind
from helpers.submitting import submit, submitted

pytestmark = needs_kubectl
RUN = ("--overlay=cpu-demo", "--task=vstar_bench", "--synthetic", "--limit=4", "--run=looks")


def test_a_server_of_tools_is_a_sidecar_that_listens_in_the_pod(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("# a tool\n")
    flags = ("--tools=zoom", "--tool-server=sandbox --seconds 5", f"--tool-server=serve {tmp_path}/mine.py")
    manifests = submitted(*RUN, *flags, "--tag=7", "--registry=registry.example/us", "--shards=2")
    jobs = {one["metadata"]["name"]: one["spec"]["template"]["spec"] for one in of_kind(manifests, "Job")}
    pod = jobs["orchestrator-looks"]
    names = [one["name"] for one in pod["initContainers"]]
    assert names == ["tools-0", "tools-1", "model-server", "scorer", "wait"]
    first, second = pod["initContainers"][:2]
    assert first["args"] == ["sandbox", "--seconds", "5", "--host=127.0.0.1", "--port=50053"]
    assert second["args"] == ["serve", "/tasks/mine.py", "--host=127.0.0.1", "--port=50054"]
    for one in (first, second):
        assert one["image"] == "registry.example/us/lyncean-tool-server:7"
        assert one["restartPolicy"] == "Always"
        assert one["securityContext"]["readOnlyRootFilesystem"]
        assert one["resources"]["limits"]["memory"]
        assert "env" not in one
        assert "envFrom" not in one
    assert [mount["mountPath"] for mount in second["volumeMounts"]] == ["/tmp", "/tasks"]
    args = [word for word in pod["containers"][0]["args"] if word.startswith("--tools")]
    assert args == ["--tools=zoom", "--tools=grpc:127.0.0.1:50053", "--tools=grpc:127.0.0.1:50054"]
    assert {"--tools=127.0.0.1:50053", "--tools=127.0.0.1:50054"} <= set(pod["initContainers"][-1]["args"])
    assert not any(one["name"].startswith("tools") for one in jobs["merge-looks"]["initContainers"])


def test_a_service_of_tools_is_reached_where_all_is_shut() -> None:
    manifests = submitted(*RUN, "--tools=grpc:tools.other:7000", "--component=network-policies")
    (policy,) = (one for one in of_kind(manifests, "NetworkPolicy") if one["metadata"]["name"] == "way-out-looks")
    assert policy["spec"]["egress"] == [{"ports": [{"port": 7000}]}]
    assert of_kind(submitted(*RUN, "--tool-server=sandbox"), "NetworkPolicy") == []


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--tool-server=",), "give a command of tool-server, for example sandbox"),
        (("--tool-server=sandbox --port 7",), "--port is set here"),
        (("--tool-server=sandbox --tls-cert x",), "--tls-cert is set here"),
        (("--tool-server=serve 'x",), "No closing quotation"),
        (("--tool-server=serve nowhere.py",), "nowhere.py cannot be read"),
        (("--tool-server=sandbox", "--component=mtls"), "it has no certificate"),
        (("--tools=grpc:nowhere",), "is not host:port"),
    ],
)
def test_mistakes_are_one_line(flags: tuple[str, ...], says: str) -> None:
    result = submit(*RUN, *flags)
    assert result.exit_code == 2
    assert says in result.stderr


def test_a_file_that_is_not_utf8_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_bytes("# Größe".encode("latin-1"))
    result = submit(*RUN, f"--tool-server=serve {tmp_path / 'tools.py'}")
    assert result.exit_code == 2
    assert "tools.py: save the file as UTF-8" in result.stderr


def test_a_suite_names_them_at_its_models(tmp_path: Path) -> None:
    suite = {
        "models": {"m": {"cluster": {"overlay": "cpu-demo", "tool_server": ["sandbox"]}}},
        "tasks": {"vstar_bench": {"limit": 4, "tools": ["zoom"]}},
        "options": {"synthetic": True},
    }
    file = tmp_path / "night.yaml"
    file.write_text(yaml.safe_dump(suite))
    result = submit("--suite", str(file))
    assert result.exit_code == 0, result.stderr
    assert "--tools=grpc:127.0.0.1:50053" in result.stdout
