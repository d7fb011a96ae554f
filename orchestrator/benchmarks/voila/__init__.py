"""VOILA's questions: their rules, their texts, and the generator that draws and writes them."""
