"""A server's account of itself: description, health, reflection, errors."""

from __future__ import annotations

import re
from typing import Any

import grpc
from google.rpc import error_details_pb2, status_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import CallError
from lyncean.rpc.errors import ERROR_DOMAIN
from orchestrator.conformance.check import Broken, applies, check, wants
from orchestrator.conformance.server import SERVICE, Server, enum_name, in_batch, method_of, one_by_one, text_of
from orchestrator.run_folder import origins
from orchestrator.run_folder.parts import proto_json

_WARNING = f"warning: results say {origins.UNVERIFIED!r}"
_SNAKE = re.compile(r"[a-z][a-z0-9_]*")


@check
async def answers_a_plain_question(server: Server) -> str:
    """One short question of one message, without images and further settings."""
    if server.claims("GENERATE"):
        return f"{text_of(await server.generate('What colour is the sky?'))!r}"[:60]
    await server.likelihood(["What colour is the sky?"], ["blue", "green"])
    return "by scores"


@check
async def info_names_the_model(server: Server) -> str:
    """The server has a name."""
    wants(bool(server.info.model_name.strip()), "model_name is empty")
    return server.info.model_name


@check
async def info_is_stable(server: Server) -> None:
    """Two descriptions are the same."""
    for _ in range(2):
        again = await server.call("GetModelInfo", model.GetModelInfoRequest())
        names = [field.name for field in model.GetModelInfoResponse.DESCRIPTOR.fields]
        changed = [name for name in names if getattr(again, name) != getattr(server.info, name)]
        wants(not changed, f"between two calls {', '.join(changed)} changed")


@check
async def info_capabilities_make_sense(server: Server) -> None:
    """The claims fit together."""
    claimed = list(server.info.capabilities)
    wants(model.CAPABILITY_UNSPECIFIED not in claimed, "CAPABILITY_UNSPECIFIED is claimed; it is never sent")
    wants(len(set(claimed)) == len(claimed), "a capability is claimed twice")
    wants(server.claims("GENERATE") or server.claims("LIKELIHOOD"), "neither GENERATE nor LIKELIHOOD is claimed")
    images = server.claims("IMAGE_INPUT") or not server.claims("MULTI_IMAGE")
    wants(images, "MULTI_IMAGE is claimed without IMAGE_INPUT")
    held = server.info.max_held_bytes
    wants(bool(held) == server.claims("MEDIA_BY_HASH"), f"max_held_bytes is {held}: above 0 with MEDIA_BY_HASH, else 0")


@check
async def info_fields_are_well_formed(server: Server) -> None:
    """Keys and hashes look as they should."""
    bad = [key for key in server.info.properties if not _SNAKE.fullmatch(key)]
    wants(not bad, f"properties has {', '.join(map(repr, bad))}")
    for name in ("chat_template_sha256", "processor_sha256"):
        value = getattr(server.info, name)
        wants(not value or bool(re.fullmatch(r"[0-9a-f]{64}", value)), f"{name} is {value!r}")


@check
async def answers_say_who_gave_them(server: Server) -> str | None:
    """An answer of each method, and those of a Batch, name the checkpoint and the start of the server."""
    info = server.info
    applies(bool(info.boot_id), f"boot_id is empty, so GetModelInfo is asked again after the answers; {_WARNING}")
    requests = server.each_method("Say hello.", ["yes"])
    endings = await server.settled(one_by_one, requests)
    if server.claims("BATCH"):
        endings += await server.settled(in_batch, requests)
    due = (info.model_revision, info.boot_id)
    for ending in endings:
        if not isinstance(ending, CallError):  # other checks are there for those
            served_by, kind = ending.served_by, type(ending).__name__
            identity = (served_by.model_revision, served_by.boot_id)
            wants(identity == due, f"served_by is {identity[0]!r}, {identity[1]!r} in a {kind}")
    return _WARNING if origins.doubt(proto_json(info)) else None


@check
async def health_has_both_names(server: Server) -> None:
    """Both names are SERVING."""
    stub: Any = health_pb2_grpc.HealthStub(server.channel)
    for name in ("", SERVICE):
        request, metadata = health_pb2.HealthCheckRequest(service=name), server.credentials.metadata
        try:
            response = await stub.Check(request, timeout=server.timeout, metadata=metadata)
        except grpc.aio.AioRpcError as error:
            raise Broken(f"health of {name!r} ends with {error.code().name}") from error
        status = enum_name(health_pb2.HealthCheckResponse.ServingStatus, response.status)
        wants(status == "SERVING", f"health of {name!r} is {status}")


@check
async def reflection_names_the_service(server: Server) -> None:
    """Reflection lists the service, in whichever version of it the server speaks."""
    failure = ""
    for version in ("v1", "v1alpha"):
        method: Any = server.channel.stream_stream(
            f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
            request_serializer=reflection_pb2.ServerReflectionRequest.SerializeToString,
            response_deserializer=reflection_pb2.ServerReflectionResponse.FromString,
        )
        requests = iter([reflection_pb2.ServerReflectionRequest(list_services="")])
        call = method(requests, timeout=server.timeout, metadata=server.credentials.metadata)
        try:
            names = [entry.name async for response in call for entry in response.list_services_response.service]
        except grpc.aio.AioRpcError as error:
            failure = f"{error.code().name}: {error.details()}"
            continue
        wants(SERVICE in names, f"reflection lists {', '.join(names) or 'nothing'} and not {SERVICE}")
        return
    raise Broken(f"the server has no reflection, neither v1 nor v1alpha ({failure})")


@check
async def errors_carry_error_info(server: Server) -> str:
    """A refusal has ErrorInfo, with the same reason each time."""
    request, reasons = server.request(), []
    method = getattr(server.stub, method_of(request))
    for _ in range(2):
        try:
            await method(request, timeout=server.timeout, metadata=server.credentials.metadata)
        except grpc.aio.AioRpcError as error:
            reasons.append(_reason(error))
            continue
        raise Broken("a request without messages was answered, so there was no error to look at")
    wants(reasons[0] == reasons[1], f"the same mistake has the reasons {reasons[0]} and {reasons[1]}")
    return reasons[0]


def _reason(error: grpc.aio.AioRpcError) -> str:
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            for detail in status_pb2.Status.FromString(value).details:
                info = error_details_pb2.ErrorInfo()
                if detail.Unpack(info):
                    wants(info.domain == ERROR_DOMAIN, f"ErrorInfo.domain is {info.domain!r}")
                    wants(bool(_SNAKE.fullmatch(info.reason)), f"ErrorInfo.reason is {info.reason!r}: lower snake case")
                    return str(info.reason)
    raise Broken(f"{error.code().name} came without google.rpc.ErrorInfo in grpc-status-details-bin")
