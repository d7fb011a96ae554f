"""The sandbox as a model sees it: a notebook that keeps variables, and gives the same results when it is run again."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from helpers.engine_cluster import environment
from helpers.trajectories import png
from PIL import Image

from lyncean.rpc import Unavailable
from tool_server.sandbox.limits import NOTHING, Limits
from tool_server.sandbox.toolset import Sandbox
from tool_server.types import Output

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="code is closed in by Linux: run the tests there")
WITHOUT_LANDLOCK = Path(__file__).parents[2] / "helpers" / "without_landlock.py"


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    opened = Sandbox(Limits(seconds=5, memory=128 << 20))
    yield opened
    opened.close()


@pytest.fixture
def session(sandbox: Sandbox) -> Iterator[Any]:
    opened = sandbox.open()
    yield opened
    opened.close()


def run(session: Any, code: str, images: Sequence[bytes] = ()) -> Output:
    return session.call("python", json.dumps({"code": code}), images)


def size(data: str | bytes) -> tuple[int, int]:
    assert isinstance(data, bytes)
    return Image.open(io.BytesIO(data)).size


def test_variables_functions_and_files_are_kept(session: Any) -> None:
    assert run(session, "import math\ndef half(n):\n    return n / 2\nx = 5").content == (NOTHING,)
    assert run(session, "open('note.txt', 'w').write('kept')\nx += 1").content == (NOTHING,)
    assert run(session, "print(half(x), math.pi > 3)\nopen('note.txt').read()").content == ("3.0 True\n'kept'\n",)


def test_text_and_images_come_in_their_order(session: Any) -> None:
    code = "print('one')\ndisplay(Image.new('RGB', (8, 6)))\nprint('two')\nnp.zeros((3, 5), np.uint8)\ndisplay(_x)"
    output = run(session, f"_x = np.zeros((3, 5, 3), np.uint8)\n{code}\nImage.new('CMYK', (2, 4))")
    one, first, two, second, third = output.content
    assert (one, two) == ("one\n", "two\n")
    assert [size(first), size(second), size(third)] == [(8, 6), (5, 3), (2, 4)]
    assert run(session, "image = Image.new('L', (7, 7)); image.show()").content[0][:4] == b"\x89PNG"
    assert "".join(map(str, run(session, "print('x' * 10**6)").content)).count("more characters") == 1


def test_saved_images_are_shown_unless_the_code_shows_others(session: Any) -> None:
    save = "[Image.new('L', (n, n)).save(f'{n}.png') for n in (3, 4, 5)]\n"
    output = run(session, f"{save}print('/session/5.png and 3.png')")
    assert [size(piece) for piece in output.content[1:]] == [(5, 5), (3, 3)]
    assert [size(piece) for piece in run(session, f"{save}x = 1").content] == [(3, 3), (4, 4), (5, 5)]
    assert [size(piece) for piece in run(session, f"{save}display(Image.new('L', (9, 9)))").content] == [(9, 9)]
    assert run(session, "Image.open('/session/4.png').size").content == ("(4, 4)\n",)


def test_figures_are_shown(session: Any) -> None:
    pytest.importorskip("matplotlib", reason="figures need matplotlib: pip install 'lyncean[sandbox]'")
    output = run(session, "plt.figure(figsize=(2, 1)); plt.plot([1, 2]); plt.show(); print('shown'); plt.hist([1, 2])")
    first, shown, second = output.content
    assert size(first)[0] > size(first)[1]
    assert str(shown).startswith("shown\n(array(")
    assert size(second)[0] > 300


def test_images_of_the_conversation_are_variables_and_files(session: Any) -> None:
    images = [png(30, 20), png(8, 8)]
    code = "print(image_1.size, Image.open('image_1.png').size, 'image_2' in globals())"
    assert run(session, code, images[:1]).content == ("(30, 20) (30, 20) False\n",)
    assert run(session, "image_1 = 7; print(image_2.size)", images).content == ("(8, 8)\n",)
    assert run(session, "image_1, image_2.size", images).content == ("(7, (8, 8))\n",)
    assert run(session, "image_3", [*images, b"no image"]).content == (NOTHING,)


def test_an_error_names_the_lines_of_the_model_alone(session: Any) -> None:
    run(session, "def f(n):\n    return 1 / n")
    output = run(session, "print('before')\nf(0)")
    assert output.is_error
    before, error = output.content
    assert before == "before\n"
    assert 'File "<call 2>", line 2' in str(error)
    assert 'File "<call 1>", line 2, in f\n    return 1 / n' in str(error)
    assert str(error).endswith("ZeroDivisionError: division by zero\n")
    for code in ("Image.open('none.png')", "f(", "\x00", "raise", "import nowhere_at_all"):
        text = "".join(map(str, run(session, code).content))
        assert "Error" in text
        assert "inside.py" not in text
        assert "site-packages" not in text
        assert "lyncean-sandbox" not in text


def test_a_session_that_was_ended_begins_anew_with_the_images(session: Any) -> None:
    run(session, "x = 1; open('x.txt', 'w').close()", [png(9, 5)])
    assert run(session, "os._exit(0)", [png(9, 5)]).is_error
    code = "print('x' in globals(), os.listdir('.'), image_1.size)"
    assert run(session, code, [png(9, 5)]).content == ("False ['image_1.png'] (9, 5)\n",)


def test_the_end_of_a_process_from_outside_is_not_the_model_s(session: Any) -> None:
    """The call fails, and is made again in a session that its history restores: no variable is missing."""
    run(session, "x = 1")
    os.kill(session._cell._process.pid, signal.SIGKILL)
    with pytest.raises(Unavailable, match="session of the sandbox was lost"):
        run(session, "x")


CALLS = (
    "import time, datetime, uuid, secrets, random\nprint(time.time(), time.perf_counter(), datetime.datetime.now())",
    "start = time.monotonic(); time.sleep(3600); print(f'took {time.monotonic() - start:.3f} s')",
    "print(random.random(), np.random.rand(), np.random.default_rng().random(), uuid.uuid4(), secrets.token_hex())",
    "print({str(n) for n in range(50)}, hash('x'), object(), lambda: 0)",
    "print(os.getcwd(), os.urandom(4)); open('a.txt', 'w').close(); os.path.abspath('a.txt')",
    "1 / 0",
    "class Mine: pass\nraise ValueError(Mine())",
    "Image.fromarray(np.random.randint(0, 255, (9, 9, 3), np.uint8))",
    "x = bytearray(1 << 30)",
    "os._exit(2)",
    "print(datetime.datetime.now()) if 'datetime' in globals() else random.random()",
    "import asyncio; asyncio.run(asyncio.sleep(3600)); print(time.time() if 'time' in globals() else 0)",
    "import tempfile; print(tempfile.mkdtemp())",
    "import time; print(time.clock_gettime(0), time.thread_time_ns(), time.strftime('%c'), time.asctime())",
)


def test_a_replay_gives_the_same_bytes(sandbox: Sandbox) -> None:
    """As after the end of the server: another process of which sessions are made, and other folders."""
    other = Sandbox(Limits(seconds=5, memory=128 << 20))
    results = []
    for server in (sandbox, sandbox, other):
        session = server.open()
        results.append([run(session, code) for code in CALLS])
        session.close()
    other.close()
    assert results[0] == results[1] == results[2]
    assert results[0][1].content == ("took 3600.001 s\n",)
    assert sandbox.revision == other.revision
    assert Sandbox(Limits(seconds=6)).revision != other.revision


def test_a_library_in_c_builds_upon_the_held_clock(session: Any) -> None:
    pytest.importorskip("pandas", reason="no pandas: pip install pandas")
    (text,) = run(
        session, "import pandas; print(pandas.Timestamp.now(), type(pandas.Timestamp.now()).__mro__[3])"
    ).content
    assert text.startswith("2023-11-14 22:13:")
    assert text.endswith("<class 'datetime.datetime'>\n")


def test_every_function_of_time_looks_at_the_held_clock(session: Any) -> None:
    code = (
        "import time; print(time.strftime('%Y'), time.strftime('%Y', time.gmtime(0)), time.ctime()[-4:], "
        "time.asctime()[-4:], time.gmtime(0).tm_year, time.gmtime().tm_year, time.localtime(None).tm_year, "
        "time.clock_gettime(time.CLOCK_REALTIME) < 1.8e9, time.gmtime(time.clock_gettime_ns(0) // 10**9).tm_year)"
    )
    assert run(session, code).content == ("2023 1970 2023 2023 1970 2023 2023 True 2023\n",)


def test_nothing_runs_between_two_calls(session: Any) -> None:
    """A timer would go on: code may not count what it is not asked for."""
    tick = "seen = []; import signal\nsignal.signal(signal.SIGALRM, lambda *_: seen.append(1))\n"
    run(session, f"{tick}signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)")
    status = Path(f"/proc/{session._cell._process.pid}/stat")
    while status.read_text().rpartition(")")[2].split()[0] != "T":
        time.sleep(0.01)
    assert run(session, "len(seen) < 20").content == ("True\n",)


def test_sixty_four_sessions_stay_within_their_limits() -> None:
    """One process of two threads each; what they take beyond the libraries is theirs, up to the limit."""
    sandbox = Sandbox(Limits(memory=64 << 20))
    sessions: list[Any] = [sandbox.open() for _ in range(64)]
    for number, session in enumerate(sessions):
        assert run(session, f"x = {number}; kept = bytearray(b'x') * (1 << 20)").content == (NOTHING,)
        assert "MemoryError" in str(run(session, "more = bytearray(b'x') * (96 << 20)").content)
    processes = [session._cell._process.pid for session in sessions]
    assert len(set(processes)) == 64
    assert all(len(list(Path(f"/proc/{pid}/task").iterdir())) == 2 for pid in processes)
    shares = [_own_bytes(pid) for pid in processes]
    assert max(shares) < 64 << 20
    assert [run(session, "x").content for session in sessions] == [(f"{number}\n",) for number in range(64)]
    for session in sessions:
        session.close()
    assert not any(Path(f"/proc/{pid}").exists() for pid in processes)
    folder = sandbox._base
    assert [path.name for path in folder.iterdir()] == ["libraries"]
    sandbox.close()
    assert not folder.exists()


def _own_bytes(process: int) -> int:
    """Returns the bytes that a process shares with no other."""
    lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) << 10


_HOLDS = """
import sys, threading
from tool_server.sandbox.toolset import Sandbox
sandbox = Sandbox()
session = sandbox.open()
session.call("python", '{"code": "import select, time, os; os._exit = select.poll = os.getppid = print"}', ())
print(sandbox._zygote._process.pid, session._cell._process.pid, sandbox._base, flush=True)
code = "import select, signal; signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65)); select.select([], [], [])"
session.call("python", '{"code": "%s"}' % code, ())
"""


def test_nothing_outlives_the_server(sandbox: Sandbox) -> None:
    """The code has taken away what ends its process, and waits for good, while the server is killed.

    Its folder is removed by the next server, which leaves the folders of those that run.
    """
    server = subprocess.Popen([sys.executable, "-c", _HOLDS], stdout=subprocess.PIPE, text=True, env=environment())
    assert server.stdout
    *numbers, folder = server.stdout.readline().split()
    processes = [int(word) for word in numbers]
    assert len(processes) == 2
    Sandbox().close()
    assert Path(folder).exists()
    server.kill()
    server.communicate()
    late = time.monotonic() + 60
    while any(_runs(pid) for pid in processes):
        assert time.monotonic() < late
        time.sleep(0.05)
    Sandbox().close()
    assert not Path(folder).exists()
    assert sandbox._base.exists()


def _runs(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_it_does_not_start_where_code_cannot_be_closed_in() -> None:
    code = "from tool_server.sandbox.toolset import Sandbox as S\ntry:\n    S()\nexcept Exception as e:\n    print(e)"
    command = [sys.executable, str(WITHOUT_LANDLOCK), sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment())
    message = "a model's code cannot be closed in here: of landlock, seccomp, rlimits only seccomp, rlimits hold"
    assert done.stdout.startswith(message), done.stderr


def test_folders_of_hostile_code_are_removed(sandbox: Sandbox) -> None:
    session: Any = sandbox.open()
    run(session, "for n in range(200): os.mkdir('d'); os.chdir('d')\nos.mkdir('closed', 0o300); open('closed/x', 'w')")
    session.close()
    assert not session._folder.exists()
