"""ReForm-Eval: its datasets, prompts, dialogues and figures, used by `orchestrator.benchmarks.reform.benchmark`."""
