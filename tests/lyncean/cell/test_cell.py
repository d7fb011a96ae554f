"""Cells: what code in them may do, and what it cannot, however it tries."""

from __future__ import annotations

import errno
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lyncean.cell.cell import Cell, CellError, StartError
from lyncean.cell.closing import LAYERS, Fence
from lyncean.cell.syscalls import MACHINES
from lyncean.cell.zygote import Zygote

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="cells are closed by Linux: run the tests there")
ROOT = Path(__file__).parents[3]
SETUP = "helpers.cell_functions:setup"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    (folder / "token").write_text("hf_secret")
    return folder


@pytest.fixture(scope="module")
def make(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Cell]]:
    cells: list[Cell] = []

    def cell(**options: Any) -> Cell:
        folder = tmp_path_factory.mktemp("own")
        programs = options.pop("programs", False)
        reads = ("/bin", "/usr/bin") if programs else ()
        fence = Fence(reads, (str(folder),), file_size=64 << 20, programs=programs)
        arguments = {"parent": os.getpid(), "folder": str(folder), "home": str(home)}
        cells.append(Cell(SETUP, arguments, fence, **options))
        return cells[-1]

    yield cell
    for opened in cells:
        opened.close()


@pytest.fixture(scope="module")
def warm(make: Callable[..., Cell]) -> Cell:
    return make()


@pytest.fixture(scope="module")
def forking(make: Callable[..., Cell]) -> Cell:
    return make(fork=True)


@pytest.fixture(scope="module")
def zygote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zygote]:
    base = str(tmp_path_factory.getbasetemp())
    started = Zygote(SETUP, {}, Fence(("/bin", "/usr/bin"), (base,), file_size=64 << 20, programs=True))
    yield started
    started.close()


@pytest.fixture(scope="module")
def by_zygote(make: Callable[..., Cell], zygote: Zygote) -> Cell:
    return make(zygote=zygote)


@pytest.fixture(scope="module")
def by_zygote_forking(make: Callable[..., Cell], zygote: Zygote) -> Cell:
    return make(zygote=zygote, fork=True)


@pytest.fixture(params=["warm", "forking", "by_zygote", "by_zygote_forking"])
def cell(request: pytest.FixtureRequest) -> Cell:
    chosen: Cell = request.getfixturevalue(request.param)
    return chosen


ESCAPES = {
    "parents_environment": "file", "home": "file", "password_file": "file", "outside_write": "file",
    "tcp": "network", "udp": "network", "message": "network", "listening": "network", "dns": "network",
    "abstract_socket": "network", "docker_socket": "network", "kill": "network", "kill_all": "network",
    "fork": "process", "subprocess": "process", "memory": "memory",
}  # fmt: skip


@pytest.mark.parametrize("name", ESCAPES)
def test_an_escape_is_refused_and_named(cell: Cell, name: str, home: Path) -> None:
    with pytest.raises(CellError) as caught:
        cell.call(name)
    assert caught.value.limit == ESCAPES[name]
    assert "hf_secret" not in str(caught.value)
    assert [file.name for file in home.iterdir()] == ["token"]
    assert cell.call("add", 1, 2) == 3, "the cell goes on"


def test_a_cell_says_which_layers_hold(cell: Cell) -> None:
    cell.call("add", 1, 2)
    assert cell.layers == LAYERS


def test_nothing_of_the_environment_reaches_a_cell(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    variables = cell.call("environment")
    assert not {"HF_TOKEN", "HOME", "PATH", "USER"} & variables.keys()
    assert "hf_secret" not in str(variables)


def test_a_cell_cannot_trace_nor_loosen_itself(cell: Cell) -> None:
    assert cell.call("traced") == errno.EPERM
    with pytest.raises(CellError, match=r"not permitted|not allowed"):
        cell.call("limits_raised")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="x86-64 has a second table of system calls: run it there")
def test_the_second_table_of_system_calls_is_refused(cell: Cell) -> None:
    assert cell.call("older_table") in (errno.EPERM, errno.ENOSYS)


def test_what_honest_code_does_works(cell: Cell) -> None:
    assert cell.call("threads") == [4, 4096]
    assert cell.call("own_folder") == "mine"


@pytest.mark.parametrize(
    ("name", "limit"), [("computing", "cpu"), ("sleeping", "cpu"), ("large_file", "file"), ("ended", "")]
)
def test_a_call_that_goes_too_far_ends_alone(make: Callable[..., Cell], zygote: Zygote, name: str, limit: str) -> None:
    options: list[dict[str, Any]] = [{}, {"fork": True}, {"zygote": zygote}]
    for kwargs in options:
        cell = make(**kwargs)
        with pytest.raises(CellError) as caught:
            cell.call(name, seconds=1)
        assert caught.value.limit == limit
        assert cell.call("add", 1, 2) == 3, "the next call is answered"


def test_calls_share_a_warm_cell_and_nothing_in_a_forking_one(warm: Cell, forking: Cell) -> None:
    assert [warm.call("stored", "x") for _ in range(2)] == [1, 2]
    assert [forking.call("stored", "x") for _ in range(2)] == [1, 1]


def test_no_call_of_a_forking_cell_answers_the_next(forking: Cell) -> None:
    """Writes to other descriptors reach nobody, and an early reply belongs to that call."""
    for _ in range(5):
        assert forking.call("forged") in ("true", "forged")
        assert forking.call("add", 1, 2) == 3


def test_what_is_not_json_and_what_raises_are_errors(cell: Cell) -> None:
    with pytest.raises(CellError, match="TypeError: Object of type set is not JSON"):
        cell.call("not_json")
    with pytest.raises(CellError, match="KeyError: 'absent'"):
        cell.call("raises")


def test_a_cell_that_is_less_closed_does_not_run() -> None:
    with pytest.raises(CellError, match="seccomp does not hold on this system"):
        Cell("helpers.cell_functions:without_seccomp").call("add")
    with pytest.raises(CellError, match="No module named 'nowhere_at_all'"):
        Cell("helpers.cell_functions:failing").call("add")


@pytest.mark.parametrize("layer", ["landlock", "seccomp"])
def test_a_layer_of_its_zygote_is_not_taken_for_that_of_a_cell(layer: str, zygote: Zygote) -> None:
    with pytest.raises(CellError, match=f"{layer} does not hold on this system"):
        Cell("helpers.cell_functions:pretending", {"layer": layer}, Fence(file_size=1), zygote=zygote).call("add")


def test_cells_of_a_zygote_share_nothing_but_what_it_imported(make: Callable[..., Cell], zygote: Zygote) -> None:
    cells = [make(zygote=zygote, first=("stored", "x")) for _ in range(2)]
    assert [cell.call("stored", "x") for cell in cells] == [2, 2]
    assert [cells[0].call("stored", "x") for _ in range(2)] == [3, 4]


def test_the_first_call_is_seen_by_the_others_of_a_forking_cell(make: Callable[..., Cell], zygote: Zygote) -> None:
    for options in ({}, {"zygote": zygote}):
        cell = make(fork=True, first=("stored", "x"), **options)
        assert [cell.call("stored", "x") for _ in range(2)] == [2, 2]
    cell = make(fork=True, first=("raises",))
    for _ in range(2):
        with pytest.raises(CellError, match="KeyError: 'absent'"):
            cell.call("add", 1, 2)


def test_a_zygote_that_cannot_import_is_an_error() -> None:
    cell = Cell(SETUP, zygote=Zygote("helpers.cell_functions:failing", {}, Fence()))
    for _ in range(2):
        with pytest.raises(StartError, match="No module named 'nowhere_at_all'"):
            cell.call("add", 1, 2)


def test_programs_start_where_that_is_declared_without_files_or_network(
    make: Callable[..., Cell], zygote: Zygote
) -> None:
    for options in ({}, {"zygote": zygote}):
        cell = make(programs=True, **options)
        assert cell.call("program") == "hello\n"
        for name in ("password_file", "home", "outside_write", "tcp", "udp"):
            with pytest.raises(CellError) as caught:
                cell.call(name)
            assert caught.value.limit in ("file", "network")


@pytest.mark.parametrize("of_zygote", [False, True])
def test_a_child_ends_with_its_cell(make: Callable[..., Cell], zygote: Zygote, *, of_zygote: bool) -> None:
    cell = make(zygote=zygote) if of_zygote else make()
    cell.call("add", 1, 2)
    process = cell._process
    cell.close()
    assert process is not None
    assert process.poll() is not None
    assert cell.call("add", 1, 2) == 3, "a further call starts it again"


def test_descriptors_reach_a_function_and_do_not_stay(cell: Cell) -> None:
    source, target = (os.memfd_create("test") for _ in range(2))
    try:
        os.write(source, b"word ")
        for length in (5, 10):
            assert cell.call("doubled", 1, descriptors=[source, target]) == 5
            assert os.fstat(target).st_size == length
        with pytest.raises(CellError, match="TypeError"):
            cell.call("doubled", "x", descriptors=[source, target])
        assert cell.call("add", 1, 2) == 3
    finally:
        os.close(source)
        os.close(target)


def test_a_cell_that_ended_between_two_calls_starts_again(make: Callable[..., Cell]) -> None:
    cell = make()
    cell.call("add", 1, 2)
    assert cell._process is not None
    cell._process.kill()
    cell._process.wait()
    assert cell.call("add", 1, 2) == 3


_UNPRIVILEGED = """
import json, os, sys
from lyncean.cell import Cell, CellError, Fence
own, home, *names = sys.argv[1:]
found = {"user": os.getuid()}
for fork in (False, True):
    arguments = {"parent": os.getpid(), "folder": own, "home": home}
    cell = Cell("helpers.cell_functions:setup", arguments, Fence((), (own,)), fork=fork)
    for name in names:
        try:
            found[f"{name} {fork}"] = [str(cell.call(name)), "no limit"]
        except CellError as error:
            found[f"{name} {fork}"] = [str(error), error.limit]
    found[f"layers {fork}"] = cell.layers
    cell.close()
print(json.dumps(found))
"""


def test_no_escape_is_open_to_a_user_without_privileges(tmp_path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("all tests of this file run without privileges then: run it as root for this one")
    folder, base, home = (tmp_path / name for name in ("copy", "own", "home"))
    for name in ("lyncean/cell", "lyncean/plugins", "lyncean/rpc", "lyncean/__init__.py", "lyncean/errors.py",
                 "tests/helpers/__init__.py", "tests/helpers/cell_functions.py"):  # fmt: skip
        target = folder / name.removeprefix("tests/")
        target.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, target)
    for directory in (base, home):
        directory.mkdir()
        os.chown(directory, 65534, 65534)
    (home / "token").write_text("hf_secret")
    os.chown(home / "token", 65534, 65534)
    for path in (folder, *folder.parents):
        if path.is_relative_to(tempfile.gettempdir()) and path != Path(tempfile.gettempdir()):
            path.chmod(0o755)
    command = [python_for(65534), "-c", _UNPRIVILEGED, str(base), str(home), *ESCAPES]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, user=65534, group=65534, extra_groups=(), cwd="/",
        env={"PYTHONPATH": str(folder)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    outcomes = json.loads(done.stdout)
    assert outcomes.pop("user") == 65534
    assert [outcomes.pop(f"layers {fork}") for fork in (False, True)] == [[*LAYERS]] * 2
    assert {name: limit for name, (_, limit) in outcomes.items()} == {
        f"{name} {fork}": limit for name, limit in ESCAPES.items() for fork in (False, True)
    }
    assert "hf_secret" not in done.stdout
    assert [file.name for file in home.iterdir()] == ["token"]


def python_for(user: int) -> str:
    """Returns a Python that a user may run: ours may lie in root's home."""
    for python in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        try:
            subprocess.run([python, "-c", "import ctypes"], check=True, user=user, group=user, cwd="/")
        except OSError:
            continue
        return python
    pytest.fail(f"no Python that user {user} may run: put one into /usr/bin")


@pytest.mark.parametrize(
    ("machine", "header"), [("x86_64", "x86_64-linux-gnu/asm/unistd_64.h"), ("aarch64", "asm-generic/unistd.h")]
)
def test_numbers_are_those_of_the_kernel(machine: str, header: str) -> None:
    file = Path("/usr/include") / header
    if not file.exists():
        pytest.skip(f"{file} is not here: apt-get install linux-libc-dev")
    defined = dict(re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", file.read_text()))
    for name, number in MACHINES[machine].numbers.items():
        if name in defined:
            assert int(defined[name]) == number, name
    assert len(MACHINES[machine].numbers.keys() & defined.keys()) > 60


def test_both_machines_refuse_the_same() -> None:
    """Calls that a machine lacks are older ones."""
    x86, arm = (MACHINES[name].numbers.keys() for name in ("x86_64", "aarch64"))
    older = {"fork", "vfork", "iopl", "ioperm", "open", "chmod", "chown", "lchown", "utime", "utimes", "futimesat"}
    assert x86 - arm == {*older, "inotify_init"}
    assert arm <= x86
