# syntax=docker/dockerfile:1
# The model server over transformers, or over an OpenAI-compatible endpoint. Weights are mounted, never copied in.
ARG BASE_IMAGE=python:3.11-slim-bookworm

FROM ${BASE_IMAGE} AS build
# "cpu" pins torch to its CPU build, "cuda" takes the package index's build, which carries the CUDA libraries,
# "none" leaves torch out: enough for the openai and demo backends.
ARG VARIANT=cuda
WORKDIR /src
RUN python3 -m venv /opt/lynceus
# Dependencies change seldom and code often: their layer comes first.
COPY pyproject.toml constraints.txt docker/dependencies.py ./
RUN case "${VARIANT}" in \
      cpu|cuda) python3 dependencies.py model-server pyproject.toml transformers openai ;; \
      none) python3 dependencies.py model-server pyproject.toml openai ;; \
      *) echo "VARIANT is cpu, cuda or none, not '${VARIANT}'" >&2; exit 2 ;; \
    esac > requirements.txt \
    && if [ "${VARIANT}" = cpu ]; then sed -i 's/^torch>=.*/torch==2.13.0+cpu/' requirements.txt; fi \
    && /opt/lynceus/bin/pip install --no-cache-dir --constraint constraints.txt --requirement requirements.txt
COPY README.md LICENSE ./
COPY protos protos
COPY model_server model_server
COPY scorer scorer
COPY orchestrator orchestrator
COPY deploy deploy
RUN /opt/lynceus/bin/pip install --no-cache-dir --no-deps . \
    && /opt/lynceus/bin/pip uninstall --yes --quiet pip setuptools \
    && find /opt/lynceus -type d -name tests -prune -exec rm -rf {} +

FROM ${BASE_IMAGE}
LABEL org.opencontainers.image.title="lynceus-model-server" \
      org.opencontainers.image.description="lynceus.model.v1.ModelService over a backend" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/lynceus /opt/lynceus
ENV PATH=/opt/lynceus/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 HOME=/tmp \
    NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
USER 65532:65532
EXPOSE 50051
ENTRYPOINT ["model-server"]
CMD ["serve", "--host", "0.0.0.0", "--port", "50051"]
