"""Writes a page per RPC from the comments of the contracts: `python protos/document.py [OUT]`."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import grpc_tools
from google.protobuf import descriptor_pb2
from grpc_tools import protoc

ROOT = Path(__file__).parent
CONTRACTS = ("lyncean/model/v1/model.proto", "lyncean/scorer/v1/scorer.proto", "lyncean/tool/v1/tool.proto")
OUT = ROOT.parent / "docs" / "contract"

_Field = descriptor_pb2.FieldDescriptorProto
_SAMPLES = {
    "GetModelInfo": "{}",
    "Generate": '{"messages": [{"role": "ROLE_USER", "parts": [{"text": "What is 2 + 2?"}]}], '
    '"config": {"max_output_tokens": 16, "temperature": 0}}',
    "Likelihood": '{"messages": [{"role": "ROLE_USER", "parts": [{"text": "What is 2 + 2?"}]}], '
    '"continuations": ["4", "5"], "return_tokens": true}',
    "ListRules": "{}",
    "ListTools": "{}",
}
"""Requests that a server answers as they stand, for the grpcurl line."""
_PORTS = {"ModelService": 50051, "ScorerService": 50052, "ToolService": 50053}


class Contract:
    """One .proto with its comments, by the full name of what they are about."""

    def __init__(self, file: descriptor_pb2.FileDescriptorProto) -> None:
        self.file = file
        self.comments: dict[tuple[int, ...], str] = {}
        for location in file.source_code_info.location:
            text = location.leading_comments or location.trailing_comments
            self.comments[tuple(location.path)] = "\n".join(line.removeprefix(" ") for line in text.splitlines())
        self.messages = {f".{file.package}.{m.name}": (i, m) for i, m in enumerate(file.message_type)}
        self.enums = {f".{file.package}.{e.name}": (i, e) for i, e in enumerate(file.enum_type)}

    def pages(self) -> Iterator[tuple[str, str]]:
        """Yields file name and text of each RPC's page."""
        for number, service in enumerate(self.file.service):
            for place, method in enumerate(service.method):
                yield f"{service.name}.{method.name}.md", self._page(service, method, (6, number, 2, place))

    def _page(
        self,
        service: descriptor_pb2.ServiceDescriptorProto,
        method: descriptor_pb2.MethodDescriptorProto,
        path: tuple[int, ...],
    ) -> str:
        full = f"{self.file.package}.{service.name}"
        asks, answers = (_last(name) for name in (method.input_type, method.output_type))
        streams = ("stream " if method.client_streaming else "", "stream " if method.server_streaming else "")
        lines = [
            f"<!-- Made by protos/document.py from {self.file.name}; do not edit. -->",
            f"# {full}/{method.name}",
            f"`rpc {method.name}({streams[0]}{asks}) returns ({streams[1]}{answers})`",
            self.comments[path],
        ]
        if method.name in _SAMPLES:
            port = _PORTS[service.name]
            line = f"grpcurl -plaintext -d '{_SAMPLES[method.name]}' 127.0.0.1:{port} {full}/{method.name}"
            lines += ["A server with reflection needs no files:", f"```sh\n{line}\n```"]
        seen: list[str] = []
        self._reach(method.input_type, seen)
        self._reach(method.output_type, seen)
        for name in seen:
            lines += self._message(name) if name in self.messages else self._enum(name)
        return "\n\n".join(lines) + "\n"

    def _reach(self, name: str, seen: list[str]) -> None:
        if name in seen or not (name in self.messages or name in self.enums):
            return
        seen.append(name)
        for field in self.messages[name][1].field if name in self.messages else ():
            if field.type_name:
                self._reach(field.type_name, seen)

    def _message(self, name: str) -> Iterator[str]:
        number, message = self.messages[name]
        yield f"## {message.name}"
        yield self.comments[(4, number)]
        if message.field:
            rows = ["| # | field | type | meaning |", "|---|---|---|---|"]
            for place, field in enumerate(message.field):
                meaning = " ".join(self.comments[(4, number, 2, place)].split()).replace("|", "\\|")
                rows.append(f"| {field.number} | `{field.name}` | {self._type(message, field)} | {meaning} |")
            yield "\n".join(rows)

    def _type(self, message: descriptor_pb2.DescriptorProto, field: _Field) -> str:
        kind = _last(field.type_name) if field.type_name else _Field.Type.Name(field.type).removeprefix("TYPE_").lower()
        entry = next(
            (nested for nested in message.nested_type if nested.name == kind and nested.options.map_entry), None
        )
        if entry:
            value = entry.field[1]
            return (
                f"map<string, {_last(value.type_name) or _Field.Type.Name(value.type).removeprefix('TYPE_').lower()}>"
            )
        if field.label == _Field.LABEL_REPEATED:
            return f"repeated {kind}"
        if field.HasField("oneof_index") and not field.proto3_optional:
            return f"{kind} (one of `{message.oneof_decl[field.oneof_index].name}`)"
        return f"optional {kind}" if field.proto3_optional else kind

    def _enum(self, name: str) -> Iterator[str]:
        number, enum = self.enums[name]
        yield f"## {enum.name}"
        yield self.comments[(5, number)]
        rows = ["| # | value | meaning |", "|---|---|---|"]
        for place, value in enumerate(enum.value):
            meaning = " ".join(self.comments[(5, number, 2, place)].split())
            rows.append(f"| {value.number} | `{value.name}` | {meaning} |")
        yield "\n".join(rows)


def document(out: Path) -> None:
    """Writes the pages of every RPC into a folder."""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "set"
        include = Path(grpc_tools.__file__).parent / "_proto"
        arguments = [
            "protoc",
            f"-I{ROOT}",
            f"-I{ROOT / 'third_party'}",
            f"-I{include}",
            "--include_source_info",
            f"--descriptor_set_out={made}",
        ]
        if protoc.main([*arguments, *CONTRACTS]):
            raise SystemExit("protoc failed: see above")
        files = descriptor_pb2.FileDescriptorSet.FromString(made.read_bytes()).file
    for file in files:
        for name, text in Contract(file).pages():
            (out / name).write_text(text)


def _last(name: str) -> str:
    return name.rpartition(".")[2]


if __name__ == "__main__":
    document(Path(sys.argv[1]) if len(sys.argv) > 1 else OUT)
