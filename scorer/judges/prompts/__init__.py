"""The prompts of judges, one file per judged rule."""
