# Servers of tools that models call: files of tools, the Python sandbox, MCP servers. No torch, no weights.
ARG BASE_IMAGE=python:3.11-slim-bookworm

FROM ${BASE_IMAGE} AS dependencies
WORKDIR /src
COPY docker/locked/tool-server.txt docker/slim.py ./
RUN --mount=type=secret,id=pip.conf,target=/etc/pip.conf \
    --mount=type=secret,id=ca-certificates \
    python3 -m venv /opt/lyncean \
    && /opt/lyncean/bin/pip install --no-cache-dir --no-compile --no-deps --require-hashes --requirement tool-server.txt \
    && python3 slim.py /opt/lyncean

# Code changes often and dependencies seldom: it comes as a layer of its own, which needs no package index again.
FROM ${BASE_IMAGE} AS code
WORKDIR /src
COPY docker/locked/build.txt docker/locked/build.txt
RUN --mount=type=secret,id=pip.conf,target=/etc/pip.conf \
    --mount=type=secret,id=ca-certificates \
    python3 -m venv /opt/lyncean \
    && /opt/lyncean/bin/pip install --no-cache-dir --no-deps --require-hashes --requirement docker/locked/build.txt
COPY . .
# The demo model is the model server's.
RUN rm -r model_server/demo/checkpoint \
    && /opt/lyncean/bin/pip install --no-cache-dir --no-compile --no-deps --no-index --no-build-isolation --root /code . \
    && python3 docker/slim.py /code/opt/lyncean orchestrator model_server scorer lyncean_harnesses lyncean_interop lyncean_kubernetes lyncean_openai_front

FROM ${BASE_IMAGE}
LABEL org.opencontainers.image.title="lyncean-tool-server" \
      org.opencontainers.image.description="Runs the tools that models call" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=dependencies /opt/lyncean /opt/lyncean
COPY --from=code /code/opt/lyncean /opt/lyncean
ENV PATH=/opt/lyncean/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 HOME=/tmp
USER 65532:65532
EXPOSE 50053
ENTRYPOINT ["tool-server"]
CMD ["sandbox", "--host", "0.0.0.0", "--port", "50053"]
