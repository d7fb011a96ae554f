# syntax=docker/dockerfile:1
# The scorer: extraction rules, judges, metrics. No torch, no weights.
ARG BASE_IMAGE=python:3.11-slim-bookworm

FROM ${BASE_IMAGE} AS build
WORKDIR /src
RUN python3 -m venv /opt/lynceus
# Dependencies change seldom and code often: their layer comes first.
COPY pyproject.toml constraints.txt docker/dependencies.py ./
RUN python3 dependencies.py scorer pyproject.toml openai > requirements.txt \
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
LABEL org.opencontainers.image.title="lynceus-scorer" \
      org.opencontainers.image.description="Turns answers into verdicts and verdicts into figures" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/lynceus /opt/lynceus
ENV PATH=/opt/lynceus/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 HOME=/tmp
USER 65532:65532
EXPOSE 50052
ENTRYPOINT ["scorer"]
CMD ["serve", "--host", "0.0.0.0", "--port", "50052"]
