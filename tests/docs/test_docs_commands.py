"""Every command of every page is typed by a test, and every one of ours names a subcommand and options that exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest
from helpers.page_commands import PAGES, ROOT, commands

from model_server.cli import main as model_server
from orchestrator.cli import main as orchestrator
from scorer.cli import main as scorer
from tool_server.cli import main as tool_server

PROGRAMS = {"orchestrator": orchestrator, "scorer": scorer, "model-server": model_server, "tool-server": tool_server}
TYPED_BY = {
    "README.md": "docs/test_first_pages.py",
    "CONTRIBUTING.md": "docs/test_first_pages.py",
    "docs/evaluate-a-model.md": "docs/test_first_pages.py",
    "docs/api-models.md": "model_server/openai_api/test_api_models.py",
    "docs/audit.md": "orchestrator/cli/test_cli_prompts.py",
    "docs/first-steps.md": "docs/test_journeys.py",
    "docs/add-a-benchmark.md": "orchestrator/benchmarks/taskfile/test_taskfile.py",
    "docs/benchmarks/marvel.md": "docs/test_docs_benchmarks.py",
    "docs/benchmarks/visualpuzzles.md": "docs/test_docs_benchmarks.py",
    "docs/benchmarks/voila.md": "docs/test_docs_benchmarks.py",
    "docs/benchmarks/vstar.md": "docs/test_docs_benchmarks.py",
    "docs/ci.md": "docs/test_ci_page.py",
    "docs/coming-from-lmms-eval.md": "docs/test_docs_benchmarks.py",
    "docs/demo-model.md": "docs/test_docs_benchmarks.py demo_model/test_demo_train.py",
    "docs/lmms-eval-tasks.md": "extensions/harnesses/test_lmms.py",
    "docs/offline.md": "docs/test_docs_benchmarks.py",
    "docs/other-languages.md": "docs/test_docs_benchmarks.py examples/test_examples_languages.py",
    "docs/plug-your-own.md": "docs/test_docs_benchmarks.py",
    "docs/reform.md": "docs/test_docs_benchmarks.py",
    "docs/contract.md": "docs/test_docs_contract.py docs/test_protoc.py",
    "docs/contract/ModelService.Generate.md": "docs/test_docs_contract.py",
    "docs/contract/ModelService.GetModelInfo.md": "docs/test_docs_contract.py",
    "docs/contract/ModelService.Likelihood.md": "docs/test_docs_contract.py",
    "docs/contract/ScorerService.ListRules.md": "docs/test_docs_contract.py",
    "docs/contract/ToolService.ListTools.md": "docs/test_docs_contract.py",
    "docs/extraction.md": "scorer/test_scorer_docs.py",
    "docs/judges.md": "scorer/test_scorer_docs.py docs/test_report_docs.py orchestrator/run/test_eval_judge.py",
    "docs/read-the-numbers.md": "scorer/test_scorer_docs.py",
    "docs/write-a-rule.md": "scorer/test_scorer_docs.py",
    "docs/kubernetes.md": "deploy/test_kubernetes_page.py deploy/test_compose.py",
    "docs/papers.md": "docs/test_papers_page.py",
    "docs/performance.md": "bench/test_bench_pages.py",
    "docs/performance-models.md": "bench/test_bench_pages.py",
    "docs/performance-scorer.md": "bench/test_bench_pages.py",
    "docs/scale.md": "bench/test_bench_pages.py",
    "docs/reports-and-comparison.md": "docs/test_report_docs.py",
    "docs/tools.md": "orchestrator/run/test_tools.py",
    "docs/suites.md": "orchestrator/suite/test_suite_docs.py",
    "docs/run-folder.md": "orchestrator/run_folder/remote/test_remote.py",
}
"""Pages that have commands, and the tests that type all of them: a line more is typed as well, or fails."""


def ours(page: Path) -> list[str]:
    """Returns what a page says of our programs: in its commands, and within its sentences."""
    names = "|".join(PROGRAMS)
    inline = re.findall(rf"`((?:{names}) [^`\n]+)`", page.read_text(encoding="utf-8"))
    typed = (re.search(rf"(?:^|[|&] *|\bdo |\w=\S+ )((?:{names}) .*)", line) for line in commands(page))
    return [*inline, *(match[1].partition(";")[0] for match in typed if match)]


def test_every_page_with_commands_has_a_test_that_types_them() -> None:
    assert {str(page.relative_to(ROOT)) for page in PAGES if commands(page)} == TYPED_BY.keys()
    for page, tests in TYPED_BY.items():
        for test in tests.split():
            assert Path(page).name in (ROOT / "tests" / test).read_text(encoding="utf-8"), f"{test} lacks {page}"


@pytest.mark.parametrize("page", [page for page in PAGES if ours(page)], ids=lambda page: page.stem)
def test_what_is_written_can_be_typed(page: Path) -> None:
    for line in ours(page):
        args = shlex.split(line, comments=True)
        command: click.Command = PROGRAMS[args[0]]
        rest = args[1:]
        while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
            context = click.Context(command)
            inner = command.get_command(context, rest[0])
            assert inner, f"{line}: there is no {rest[0]}"
            command, rest = inner, rest[1:]
        known = {"--help", "-h"}
        known |= {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
        ends = [rest.index(word) for word in ("|", "--") if word in rest]  # after `--` are another program's arguments
        options = rest[: min(ends, default=len(rest))]
        unknown = {word.partition("=")[0] for word in options if word.startswith("--")} - known
        assert not unknown, f"{line}: {unknown}"
