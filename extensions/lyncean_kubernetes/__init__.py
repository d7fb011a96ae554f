"""Runs on a Kubernetes cluster: what `orchestrator submit` renders, and what its pods wait for."""
