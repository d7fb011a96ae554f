"""The contracts: generated code and published pages are current, lint finds nothing, services keep apart."""

from __future__ import annotations

import ast
import json
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf import json_format

from lyncean.model.v1 import model_pb2 as model

ROOT = Path(__file__).parents[2]
PROTOS = ROOT / "protos"
PAGES = ROOT / "docs" / "contract"


def test_generated_code_is_what_the_generator_makes(tmp_path: Path) -> None:
    runpy.run_path(str(PROTOS / "generate.py"))["generate"](tmp_path)
    generated = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*_pb2*"))
    assert len(generated) == 12
    for path in generated:
        assert (tmp_path / path).read_text() == (ROOT / path).read_text(), f"run `make protos`: {path} is stale"


def test_pages_are_current(tmp_path: Path) -> None:
    runpy.run_path(str(PROTOS / "document.py"))["document"](tmp_path)
    pages = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert pages == {path.name: path.read_text() for path in PAGES.iterdir()}, "run `python protos/document.py`"


def test_every_rpc_has_its_page_and_every_link_leads_somewhere() -> None:
    page = (ROOT / "docs" / "contract.md").read_text()
    links = re.findall(r"\]\(contract/([^)]+)\)", page)
    assert sorted(links) == sorted(path.name for path in PAGES.iterdir())


def test_grpcurl_lines_hold_requests_of_the_contract() -> None:
    count = 0
    for file in PAGES.glob("ModelService.*.md"):
        for body, method in re.findall(r"-d '([^']*)' \S+ \S+/(\w+)", file.read_text()):
            json_format.ParseDict(json.loads(body), getattr(model, f"{method}Request")())
            count += 1
    assert count == 3


def test_a_sample_has_the_fields_of_a_response() -> None:
    """Both ends read one as the other, by its bytes."""
    whole = {field.name: field for field in model.GenerateResponse.DESCRIPTOR.fields}
    sample = {field.name: field for field in model.Sample.DESCRIPTOR.fields}
    assert whole.keys() - sample.keys() == {"served_by", "samples", "prompt"}
    for name, field in sample.items():
        kinds = [
            (descriptor.number, descriptor.type, descriptor.message_type, descriptor.enum_type)
            for descriptor in (field, whole[name])
        ]
        assert kinds[0] == kinds[1], name


def test_buf_lint_finds_nothing() -> None:
    buf = shutil.which("buf") or Path(sys.executable).parent / "buf"
    if not Path(buf).exists():
        pytest.skip("buf is not installed")
    done = subprocess.run([str(buf), "lint", str(PROTOS)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("package", ["orchestrator", "scorer", "model_server", "tool_server", "lyncean"])
def test_services_import_nothing_of_each_other(package: str) -> None:
    others = {"orchestrator", "scorer", "model_server", "tool_server"} - {package}
    for path in (ROOT / package).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or ""]
            else:
                continue
            met = {name.split(".")[0] for name in names} & others
            assert not met, f"{path.relative_to(ROOT)}:{node.lineno} imports {met}"


@pytest.mark.parametrize("package", ["orchestrator", "scorer", "tool_server"])
def test_imports_without_torch(package: str) -> None:
    modules = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for path in sorted((ROOT / package).rglob("*.py"))
        if path.name != "__main__.py"
    ]
    program = (
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] in ('torch', 'torchvision', 'transformers'):\n"
        "            raise ImportError(name + ' is not installed')\n"
        "sys.meta_path.insert(0, Absent())\n"
        "import importlib\n"
        f"for name in {modules!r}: importlib.import_module(name)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("old", "new", "breaks"),
    [
        ("string detail = 9;", "string detail = 9;\n  // More.\n  string more = 99;", False),
        ("string detail = 9;", "string detail = 12;", True),
        ("string detail = 9;", "string remark = 9;", True),
        ("rpc Score(stream", "rpc Grade(stream", True),
    ],
)
def test_changes_to_the_contract_are_additive_or_found(tmp_path: Path, old: str, new: str, breaks: bool) -> None:
    buf = Path(sys.executable).parent / "buf"
    if not buf.exists():
        pytest.skip("buf is not installed")
    changed = tmp_path / "protos"
    shutil.copytree(PROTOS, changed, ignore=shutil.ignore_patterns("*.py", "*.pyi", "__pycache__"))
    contract = changed / "lyncean" / "scorer" / "v1" / "scorer.proto"
    text = contract.read_text()
    assert old in text
    contract.write_text(text.replace(old, new))
    done = subprocess.run(
        [str(buf), "breaking", str(changed), "--against", str(PROTOS)], capture_output=True, check=False
    )
    assert (done.returncode != 0) == breaks, done.stdout
