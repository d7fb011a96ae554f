"""Makes the Python code of the contracts: `python protos/generate.py [OUT]`.

The tools are the oldest ones that the package supports (grpcio-tools 1.72, protobuf 6.30), since generated code
refuses an older runtime than its generator's.
"""

import sys
from pathlib import Path

import grpc_tools
from grpc_tools import protoc

ROOT = Path(__file__).parent
CONTRACTS = ("lyncean/model/v1/model.proto", "lyncean/scorer/v1/scorer.proto", "lyncean/tool/v1/tool.proto")


def generate(out: Path) -> None:
    """Writes *_pb2.py, *_pb2.pyi, *_pb2_grpc.py and *_pb2_grpc.pyi below `out`."""
    include = Path(grpc_tools.__file__).parent / "_proto"
    scripts = Path(sys.executable).parent
    arguments = [
        "protoc",
        f"-I{ROOT}",
        f"-I{ROOT / 'third_party'}",
        f"-I{include}",
        f"--python_out={out}",
        f"--grpc_python_out={out}",
        *(f"--plugin=protoc-gen-{name}={scripts / f'protoc-gen-{name}'}" for name in ("mypy", "mypy_grpc")),
        f"--mypy_out=quiet:{out}",
        f"--mypy_grpc_out=quiet:{out}",
        *CONTRACTS,
    ]
    if protoc.main(arguments):
        raise SystemExit("protoc failed: see above")


if __name__ == "__main__":
    generate(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT.parent)
