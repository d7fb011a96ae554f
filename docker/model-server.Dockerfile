# The model server over transformers, or over an OpenAI-compatible endpoint. Weights are mounted, never copied
# in, but for the 10 MB of the demo model.
ARG BASE_IMAGE=python:3.11-slim-bookworm

FROM ${BASE_IMAGE} AS dependencies
# "cuda" takes torch as package indexes have it, with the CUDA libraries; "cpu" takes its CPU build, which the index has
# to offer; "none" leaves torch out: enough for the backends openai and demo.
ARG VARIANT=cuda
WORKDIR /src
COPY pyproject.toml constraints.txt docker/dependencies.py docker/slim.py docker/locked/model-server-slim.txt ./
RUN --mount=type=secret,id=pip.conf,target=/etc/pip.conf \
    --mount=type=secret,id=ca-certificates \
    python3 -m venv /opt/lyncean \
    && pip="/opt/lyncean/bin/pip install --no-cache-dir --no-compile" \
    && names="python3 dependencies.py model-server pyproject.toml transformers adapters media openai http" \
    && case "${VARIANT}" in \
      cuda) { $names && echo 'torch!=2.13.0+cpu'; } > all.txt && $pip --constraint constraints.txt --requirement all.txt ;; \
      cpu) { $names && echo 'torch==2.13.0+cpu'; } > all.txt && $pip --constraint constraints.txt --requirement all.txt ;; \
      none) $pip --no-deps --require-hashes --requirement model-server-slim.txt ;; \
      *) echo "VARIANT is cpu, cuda or none, not '${VARIANT}'" >&2; exit 2 ;; \
    esac \
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
RUN /opt/lyncean/bin/pip install --no-cache-dir --no-compile --no-deps --no-index --no-build-isolation --root /code . \
    && python3 docker/slim.py /code/opt/lyncean

FROM ${BASE_IMAGE}
LABEL org.opencontainers.image.title="lyncean-model-server" \
      org.opencontainers.image.description="lyncean.model.v1.ModelService over a backend" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=dependencies /opt/lyncean /opt/lyncean
COPY --from=code /code/opt/lyncean /opt/lyncean
ENV PATH=/opt/lyncean/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 HOME=/tmp \
    NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
USER 65532:65532
EXPOSE 50051
ENTRYPOINT ["model-server"]
CMD ["serve", "--host", "0.0.0.0", "--port", "50051"]
