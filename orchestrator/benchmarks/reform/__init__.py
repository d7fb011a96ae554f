"""ReForm-Eval: its datasets, prompts, dialogues and metrics, used by `orchestrator.benchmarks.reform.benchmark`."""
