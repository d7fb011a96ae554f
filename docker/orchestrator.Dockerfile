# The orchestrator: benchmarks, engine, reports. No torch, no weights.
ARG BASE_IMAGE=python:3.11-slim-bookworm

FROM ${BASE_IMAGE} AS dependencies
# Extras of the wheel: "remote" for run folders behind a URL (16 MB), "media" for audio and videos (PyAV, 36 MB packed);
# --build-arg EXTRAS= leaves them out.
ARG EXTRAS="remote media"
WORKDIR /src
COPY pyproject.toml constraints.txt docker/dependencies.py docker/slim.py ./
RUN --mount=type=secret,id=pip.conf,target=/etc/pip.conf \
    --mount=type=secret,id=ca-certificates \
    python3 dependencies.py orchestrator pyproject.toml ${EXTRAS} > requirements.txt \
    && python3 -m venv /opt/lyncean \
    && /opt/lyncean/bin/pip install --no-cache-dir --constraint constraints.txt --requirement requirements.txt \
    && python3 slim.py /opt/lyncean \
    && mkdir /runs

# Code changes often and dependencies seldom: it comes as a layer of its own, which needs no package index again.
FROM ${BASE_IMAGE} AS code
WORKDIR /src
RUN --mount=type=secret,id=pip.conf,target=/etc/pip.conf \
    --mount=type=secret,id=ca-certificates \
    python3 -m venv /opt/lyncean && /opt/lyncean/bin/pip install --no-cache-dir hatchling
COPY . .
# The demo model is the model server's.
RUN rm -r model_server/demo/checkpoint \
    && /opt/lyncean/bin/pip install --no-cache-dir --no-deps --no-index --no-build-isolation --root /code .

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
