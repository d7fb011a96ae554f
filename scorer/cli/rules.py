"""`scorer rules`: lists rules and metrics with their parameters."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from lyncean.cli import Command
from scorer.cli.options import rule_options

if TYPE_CHECKING:
    from scorer.registry import Registry
    from scorer.rule import AnyRule


@click.command("rules", cls=Command)
@click.option("--json", "as_json", is_flag=True, help="Print ListRulesResponse as JSON.")
@rule_options
def command(as_json: bool, registry: Registry[AnyRule]) -> None:
    """List rules and metrics, with their parameters."""
    from google.protobuf.json_format import MessageToDict

    from scorer.listing import listing
    from scorer.metrics import metrics

    known = listing(registry, metrics())
    if as_json:
        fields = MessageToDict(known, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)
        click.echo(json.dumps(fields, indent=2, ensure_ascii=False))
        return
    click.echo(f"{known.scorer_version}\n\nRules")
    for rule in known.rules:
        marks = [mark for mark, on in (("parity", rule.parity), ("judged", rule.judged)) if on]
        _entry(f"{rule.name}  {rule.sha256[:12]}  {' '.join(marks)}".rstrip(), rule.description, rule.params)
    click.echo("Metrics")
    for metric in known.metrics:
        _entry(metric.name, metric.description, metric.params)


def _entry(head: str, description: str, params: Mapping[str, str]) -> None:
    click.echo(f"  {head}")
    click.echo(textwrap.fill(description, 100, initial_indent="      ", subsequent_indent="      "))
    for name in sorted(params):
        click.echo(textwrap.fill(f"{name}: {params[name]}", 100, initial_indent="      - ", subsequent_indent=" " * 8))
    click.echo("")
