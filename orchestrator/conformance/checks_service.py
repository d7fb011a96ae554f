"""What a server says of itself: description, health, reflection, errors."""

from __future__ import annotations

import re
from typing import Any

import grpc
from google.rpc import error_details_pb2, status_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc.errors import ERROR_DOMAIN
from orchestrator.conformance.check import check
from orchestrator.conformance.server import SERVICE, Server
from orchestrator.conformance.verdicts import Broken, wants

_SNAKE = re.compile(r"[a-z][a-z0-9_]*")


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
        changed = [
            name.name
            for name in model.GetModelInfoResponse.DESCRIPTOR.fields
            if getattr(again, name.name) != getattr(server.info, name.name)
        ]
        wants(not changed, f"between two calls {', '.join(changed)} changed")


@check
async def info_capabilities_make_sense(server: Server) -> None:
    """The claims fit together."""
    claimed = list(server.info.capabilities)
    wants(model.CAPABILITY_UNSPECIFIED not in claimed, "CAPABILITY_UNSPECIFIED is claimed; it is never sent")
    wants(len(set(claimed)) == len(claimed), "a capability is claimed twice")
    wants(server.claims("GENERATE") or server.claims("LIKELIHOOD"), "neither GENERATE nor LIKELIHOOD is claimed")
    wants(
        server.claims("IMAGE_INPUT") or not server.claims("MULTI_IMAGE"), "MULTI_IMAGE is claimed without IMAGE_INPUT"
    )


@check
async def info_fields_are_well_formed(server: Server) -> None:
    """Keys and hashes look as they should."""
    bad = [key for key in server.info.properties if not _SNAKE.fullmatch(key)]
    wants(not bad, f"properties has {', '.join(map(repr, bad))}")
    template = server.info.chat_template_sha256
    wants(not template or bool(re.fullmatch(r"[0-9a-f]{64}", template)), f"chat_template_sha256 is {template!r}")


@check
async def health_has_both_names(server: Server) -> None:
    """Both names are SERVING, and one that does not exist is not."""
    stub: Any = health_pb2_grpc.HealthStub(server.channel)
    for name in ("", SERVICE):
        try:
            reply = await stub.Check(
                health_pb2.HealthCheckRequest(service=name),
                timeout=server.timeout,
                metadata=server.credentials.metadata,
            )
        except grpc.aio.AioRpcError as error:
            raise Broken(f"health of {name!r} ends with {error.code().name}") from error
        said = health_pb2.HealthCheckResponse.ServingStatus.Name(reply.status)
        wants(said == "SERVING", f"health of {name!r} is {said}")


@check
async def reflection_names_the_service(server: Server) -> None:
    """Reflection lists the service, in whichever version of it the server speaks."""
    said = "not asked"
    for version in ("v1", "v1alpha"):
        method: Any = server.channel.stream_stream(
            f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
            request_serializer=reflection_pb2.ServerReflectionRequest.SerializeToString,
            response_deserializer=reflection_pb2.ServerReflectionResponse.FromString,
        )
        asked = iter([reflection_pb2.ServerReflectionRequest(list_services="")])
        call = method(asked, timeout=server.timeout, metadata=server.credentials.metadata)
        try:
            answers = [answer async for answer in call]
        except grpc.aio.AioRpcError as error:
            said = f"{error.code().name}: {error.details()}"
            continue
        names = [service.name for answer in answers for service in answer.list_services_response.service]
        wants(SERVICE in names, f"reflection lists {', '.join(names) or 'nothing'} and not {SERVICE}")
        return
    raise Broken(f"the server has no reflection, neither v1 nor v1alpha ({said})")


@check
async def errors_carry_error_info(server: Server) -> str:
    """A refusal has ErrorInfo, with the same reason each time."""
    reasons = []
    for _ in range(2):
        try:
            await (server.stub.Generate if server.claims("GENERATE") else server.stub.Likelihood)(
                model.GenerateRequest() if server.claims("GENERATE") else model.LikelihoodRequest(),
                timeout=server.timeout,
                metadata=server.credentials.metadata,
            )
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
