# All images: `docker buildx bake --file docker/bake.hcl`, from the repository's root.
variable "TAG" {
  default = "dev"
}

variable "REGISTRY" {
  default = ""
}

variable "BASE_IMAGE" {
  default = "python:3.11-slim-bookworm"
}

group "default" {
  targets = ["orchestrator", "scorer", "model-server", "model-server-cpu", "model-server-slim"]
}

target "base" {
  context = "."
  args = {
    BASE_IMAGE = BASE_IMAGE
  }
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

target "model-server" {
  inherits   = ["base"]
  dockerfile = "docker/model-server.Dockerfile"
  args = {
    VARIANT = "cuda"
  }
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
  tags = ["${REGISTRY}lyncean-model-server-slim:${TAG}"]
}
