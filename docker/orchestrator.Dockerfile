# The orchestrator: benchmarks, engine, reports. No torch, no weights.
ARG BASE_IMAGE=python:3.11-slim-bookworm

FROM ${BASE_IMAGE} AS dependencies
WORKDIR /src
COPY docker/locked/orchestrator.txt docker/slim.py ./
RUN --mount=type=secret,id=pip.conf,target=/etc/pip.conf \
    --mount=type=secret,id=ca-certificates \
    python3 -m venv /opt/lyncean \
    && /opt/lyncean/bin/pip install --no-cache-dir --no-compile --no-deps --require-hashes --requirement orchestrator.txt \
    && python3 slim.py /opt/lyncean \
    && mkdir /runs

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
    && python3 docker/slim.py /code/opt/lyncean

FROM ${BASE_IMAGE}
LABEL org.opencontainers.image.title="lyncean-orchestrator" \
      org.opencontainers.image.description="Streams benchmark samples to model servers and reports figures" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=dependencies /opt/lyncean /opt/lyncean
COPY --from=code /code/opt/lyncean /opt/lyncean
# A new volume mounted here takes this owner over.
COPY --from=dependencies --chown=65532:65532 /runs /runs
ENV PATH=/opt/lyncean/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 HOME=/tmp
USER 65532:65532
WORKDIR /runs
ENTRYPOINT ["orchestrator"]
