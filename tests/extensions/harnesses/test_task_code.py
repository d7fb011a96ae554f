"""Code of a task that runs text as Python is found in its syntax trees, with the imports within its folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.toy_harness import write

from lyncean_harnesses.library.task_code import place_in, place_in_task

RUNS = {
    "eval": "def f(x):\n    return eval(x)",
    "exec": "def f(x):\n    exec(x)",
    "eval as a function": "def f(xs):\n    return list(map(eval, xs))",
    "eval of builtins": "import builtins\nf = lambda x: builtins.eval(x)",
    "an imported eval": "from builtins import eval as number\nf = lambda x: number(x)",
    "sympify": "import sympy\nf = lambda x: sympy.sympify(x)",
    "simplify": "import sympy as sp\nf = lambda x: sp.simplify(x)",
    "S": "from sympy import S\nf = lambda x: S(x)",
    "parse_expr": "from sympy.parsing.sympy_parser import parse_expr\nf = lambda x: parse_expr(x)",
    "parse_expr as a function": "from sympy.parsing.sympy_parser import parse_expr as p\nf = lambda xs: [*map(p, xs)]",
    "parse_latex": "def f(x):\n    from sympy.parsing.latex import parse_latex; return parse_latex(x)",
    "latex2sympy": "from latex2sympy2 import latex2sympy\nf = lambda x: latex2sympy(x)",
    "math_verify": "try:\n    from math_verify import parse; f = lambda x: parse(x)\nexcept ImportError: pass",
    "programs": "import evaluate\nmetric = evaluate.load('code_eval')",
}
"""Modules whose second line runs text."""

QUIET = {
    "a model's eval": "def f(model):\n    model.eval()",
    "a compiled pattern": "import re\nWORD = re.compile('eval(x)')",
    "a logger": "from loguru import logger as eval_logger\neval_logger.debug('exec')",
    "literals": "import ast\nf = lambda x: ast.literal_eval(x)",
    "a distance": "import editdistance\nf = lambda x, y: editdistance.eval(x, y)",
    "a distance by its name": "from editdistance import eval\nf = lambda x, y: eval(x, y)",
    "numbers of sympy": "import sympy\nX = sympy.Symbol('x')\nY = sympy.pi",
    "a comment": "# eval(x)\n'exec(x)'",
    "what cannot be parsed": "def f(:\n    eval(x)",
}


@pytest.mark.parametrize("name", RUNS)
def test_what_runs_text_is_found(name: str, tmp_path: Path) -> None:
    write(tmp_path, {"utils.py": RUNS[name]})
    assert place_in([tmp_path / "utils.py"], []).startswith(f"{tmp_path}/utils.py:2 calls ")


@pytest.mark.parametrize("name", QUIET)
def test_what_does_not_run_text_is_left_alone(name: str, tmp_path: Path) -> None:
    write(tmp_path, {"utils.py": QUIET[name]})
    assert place_in([tmp_path / "utils.py"], []) == ""


@pytest.mark.parametrize(
    "imports",
    [
        "import grading",
        "from grading import number",
        "from .grading import number",
        "from . import grading",
        "from harness.tasks.mine.grading import number",
        "import harness.tasks.mine.grading as own",
        "def f():\n    from grading import number",
        "from parts.grading import number",
        "from harness.tasks.shared.grading import number",
        "from above import number",
    ],
)
def test_imports_are_followed_within_the_folders_of_tasks(imports: str, tmp_path: Path) -> None:
    tasks = tmp_path / "harness" / "tasks"
    number = "def number(text):\n    return eval(text)\n"
    write(tasks / "mine", {"utils.py": imports, "grading.py": number, "parts/grading.py": "import rest\n" + number})
    write(tasks, {"shared/grading.py": number, "above.py": number})
    assert "calls eval" in place_in([tasks / "mine" / "utils.py"], [tasks])


def test_a_package_runs_text_where_what_it_imports_first_does(tmp_path: Path) -> None:
    write(tmp_path, {"utils.py": "import own.quiet", "own/__init__.py": "X = eval('1')", "own/quiet.py": ""})
    assert place_in([tmp_path / "utils.py"], []) == f"{tmp_path}/own/__init__.py:1 calls eval"


def test_what_lies_outside_of_the_folders_is_not_followed(tmp_path: Path) -> None:
    write(tmp_path / "harness", {"core.py": "X = eval('1')", "__init__.py": "X = eval('1')"})
    write(tmp_path / "harness" / "tasks" / "mine", {"utils.py": "from harness.core import X\nimport os, yaml"})
    folder = tmp_path / "harness" / "tasks"
    assert place_in([folder / "mine" / "utils.py"], [folder]) == ""


def test_eval_is_named_before_a_parser(tmp_path: Path) -> None:
    write(tmp_path, {"utils.py": "from sympy import sympify\nsympify(x)\neval(x)"})
    assert place_in([tmp_path / "utils.py"], []) == f"{tmp_path}/utils.py:3 calls eval"


def test_a_task_names_its_modules_and_those_of_the_configurations_that_it_includes(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "quiet/quiet.yaml": "task: quiet\nprocess_results: !function utils.f\n",
            "quiet/utils.py": "def f(x): return x",
            "quiet/script.py": "eval(input())",  # nothing of the task's imports it
            "deep/deep.yaml": "include: [../_base]\nmetric_list:\n  - {metric: x, aggregation: !function own.f}\n",
            "deep/own.py": "",
            "_base": "filter_list: [{filter: [{filter_fn: !function base.f}]}]\n",
            "base.py": "def f(x): return eval(x)",
            "variant/one/one.yaml": "doc_to_text: !function utils.f\n",
            "variant/utils.py": "def f(x): return eval(x)",
            "text.yaml": "task: text\ndoc_to_text: '!function utils.f eval(x)'\n",
        },
    )
    assert place_in_task(tmp_path / "quiet" / "quiet.yaml", [tmp_path]) == ""
    assert place_in_task(tmp_path / "text.yaml", [tmp_path]) == ""
    assert place_in_task(tmp_path / "deep" / "deep.yaml", [tmp_path]) == f"{tmp_path}/base.py:1 calls eval"
    above = f"{tmp_path}/variant/utils.py:1 calls eval"
    assert place_in_task(tmp_path / "variant" / "one" / "one.yaml", [tmp_path]) == above
