"""Any ModelService as a model of other harnesses: `--model lyncean` there. One module per harness, and their client."""
