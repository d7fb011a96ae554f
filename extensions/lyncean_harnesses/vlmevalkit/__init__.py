"""VLMEvalKit's tables as tasks `vlmevalkit:NAME`."""
