"""The contracts: generated code is current, lint finds nothing, services keep apart."""

from __future__ import annotations

import ast
import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROTOS = ROOT / "protos"


def test_generated_code_is_what_the_generator_makes(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("generate", PROTOS / "generate.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.generate(tmp_path)
    made = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*_pb2*"))
    assert len(made) == 8
    for path in made:
        assert (tmp_path / path).read_text() == (PROTOS / path).read_text(), f"run `make protos`: {path} is stale"


def test_buf_lint_finds_nothing() -> None:
    buf = shutil.which("buf") or Path(sys.executable).parent / "buf"
    if not Path(buf).exists():
        pytest.skip("buf is not installed")
    done = subprocess.run([str(buf), "lint", str(PROTOS)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("package", ["orchestrator", "scorer", "model_server", "protos/lyncean"])
def test_services_import_nothing_of_each_other(package: str) -> None:
    others = {"orchestrator", "scorer", "model_server"} - {package}
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


@pytest.mark.parametrize("package", ["orchestrator", "scorer"])
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
