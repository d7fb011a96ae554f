"""A tool that runs a model's Python code in a closed process: `tool-server sandbox`."""
