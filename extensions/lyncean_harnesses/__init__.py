"""Tasks and models of other harnesses: lmms-eval, lm-evaluation-harness, VLMEvalKit, Inspect."""
