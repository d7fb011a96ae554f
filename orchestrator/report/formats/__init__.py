"""Runs in the forms that other tools and papers take, one file per form."""
