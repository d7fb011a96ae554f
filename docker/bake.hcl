# All images: `docker buildx bake --file docker/bake.hcl`, from the repository's root. With REGISTRY, which ends in "/",
# they are made to be published: for two platforms, with a list of their packages (SBOM), how they were built
# (provenance), and the times of SOURCE_DATE_EPOCH. `make publish` sets these variables.
variable "TAG" {
  default = "dev"
}

variable "REGISTRY" {
  default = ""
}

variable "BASE_IMAGE" {
  default = "python:3.11-slim-bookworm"
}

variable "SOURCE_DATE_EPOCH" {
  default = ""
}

group "default" {
  targets = ["orchestrator", "scorer", "tool-server", "model-server", "model-server-cpu", "model-server-slim"]
}

target "base" {
  context = "."
  args = {
    BASE_IMAGE = BASE_IMAGE
    SOURCE_DATE_EPOCH = SOURCE_DATE_EPOCH
  }
  platforms = notequal(REGISTRY, "") ? ["linux/amd64", "linux/arm64"] : []
  attest    = notequal(REGISTRY, "") ? ["type=sbom", "type=provenance,mode=max"] : []
}

target "orchestrator" {
  inherits   = ["base"]
  dockerfile = "docker/orchestrator.Dockerfile"
  tags       = ["${REGISTRY}lyncean-orchestrator:${TAG}"]
}

target "scorer" {
  inherits   = ["base"]
  dockerfile = "docker/scorer.Dockerfile"
  tags       = ["${REGISTRY}lyncean-scorer:${TAG}"]
}

target "tool-server" {
  inherits   = ["base"]
  dockerfile = "docker/tool-server.Dockerfile"
  tags       = ["${REGISTRY}lyncean-tool-server:${TAG}"]
}

target "model-server" {
  inherits   = ["base"]
  dockerfile = "docker/model-server.Dockerfile"
  args = {
    VARIANT = "cuda"
  }
  platforms = notequal(REGISTRY, "") ? ["linux/amd64"] : []
  tags = ["${REGISTRY}lyncean-model-server:${TAG}"]
}

target "model-server-cpu" {
  inherits = ["model-server"]
  args = {
    VARIANT = "cpu"
  }
  tags = ["${REGISTRY}lyncean-model-server-cpu:${TAG}"]
}

target "model-server-slim" {
  inherits = ["model-server"]
  args = {
    VARIANT = "none"
  }
  platforms = notequal(REGISTRY, "") ? ["linux/amd64", "linux/arm64"] : []
  tags = ["${REGISTRY}lyncean-model-server-slim:${TAG}"]
}
