"""Commands, groups and options that the command lines of all services share."""

from lyncean.cli.groups import Command, LazyGroup, examples, root

__all__ = ["Command", "LazyGroup", "examples", "root"]
