"""Code that tries to get out of the sandbox, and what refuses it."""

from __future__ import annotations

from typing import Any, NamedTuple

SECRET = "hf_secret"


class Escape(NamedTuple):
    """An attempt.

    Attributes:
        code: Python code. {secret} is a file of the server's user, {other} the process of another session, {folder}
            its folder, {server} the server's process, {open} a file that everybody may read.
        refused: A piece of the result that names the refusal.
        ends: Whether the session's variables are lost.
    """

    code: str
    refused: str
    ends: bool = False

    def written(self, call: int, **places: Any) -> str:
        """Returns the code for places of a system, as the call of this number in its session."""
        return self.code.format(**places).replace("CALL", str(call))

    def wrong(self, name: str, text: str, is_error: bool, kept: str, characters: int) -> str:
        """Returns what is wrong with the results of an attempt by this name; "" if it was refused as it has to be.

        Args:
            name: What was tried.
            text: Text of the call's result, "<image>" for each image.
            is_error: Whether it is an error.
            kept: Text of `'kept' in globals()` in the next call, where `kept` was set in the one before.
            characters: Characters of text that the sandbox shows.
        """
        for expectation, well in {
            f"the refusal {self.refused!r}": self.refused in text,
            "no secret": SECRET not in text,
            "no image": "<image>" not in text or name == "flood of images",
            "a bounded text": len(text) < 2 * characters + 12_000,
            f"is_error {name not in SILENT}": is_error == (name not in SILENT),
            f"variables kept: {not self.ends}": kept == f"{not self.ends}\n",
        }.items():
            if not well:
                return f"expected {expectation}: {text[:1000]!r}, is_error {is_error}, then {kept!r}"
        return ""


_LIBC = "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n"
_REFUSED = "\nprint(os.strerror(ctypes.get_errno()) if result < 0 else 'done')"
_NOT_PERMITTED = "Operation not permitted"
_DENIED = "Permission denied"
_SEND = "frame = len(reply).to_bytes(8, 'little') + reply\n"
_CHANNEL = """
for place in range(3, 64):
    try:
        os.write(place, frame)
    except OSError:
        pass
"""

ESCAPES = {
    "password file": Escape("open('/etc/passwd').read()", _DENIED),
    "secret of the server": Escape("open('{secret}').read()", _DENIED),
    "secret by another path": Escape("open('/proc/self/root{secret}').read()", _DENIED),
    "write outside": Escape("open('{open}', 'w').write('x')", _DENIED),
    "new file outside": Escape("open('/tmp/lyncean-escape', 'w')", _DENIED),
    "list the root": Escape("os.listdir('/')", _DENIED),
    "list the other sessions": Escape("os.listdir('..')", _DENIED),
    "file of another session": Escape("open('{folder}/mine.txt').read()", _DENIED),
    "folder of another session": Escape("os.listdir('{folder}')", _DENIED),
    "symbolic link": Escape("os.symlink('{secret}', 'link'); open('link').read()", _DENIED),
    "symbolic link to a folder": Escape("os.symlink('/', 'all'); os.listdir('all/etc')", _DENIED),
    "image that is a link": Escape("os.symlink('{folder}/mine.png', 'seen.png'); print('seen.png')", "seen.png\n"),
    "hard link": Escape("os.link('{secret}', 'hard'); open('hard').read()", "Error"),
    "rename from outside": Escape("os.rename('{secret}', 'taken')", "Error"),
    "change a mode outside": Escape("os.chmod('{secret}', 0o777); open('{secret}').read()", _DENIED),
    "change an owner outside": Escape("os.chown('{secret}', 1, 1)", _NOT_PERMITTED),
    "device node": Escape("os.mknod('disk', 0o60600, os.makedev(8, 0)); open('disk', 'rb').read(1)", "Error"),
    "working folder": Escape("os.chdir('/etc'); open('passwd').read()", _DENIED),
    "watch for others' files": Escape(_LIBC + "result = libc.inotify_init1(0)" + _REFUSED, _NOT_PERMITTED),
    "own environment in /proc": Escape("open('/proc/self/environ').read()", _DENIED),
    "environment of the server": Escape("open('/proc/{server}/environ').read()", _DENIED),
    "memory of another session": Escape("open('/proc/{other}/mem', 'rb')", _DENIED),
    "own memory in /proc": Escape("open('/proc/self/mem', 'r+b')", _DENIED),
    "trace another session": Escape(_LIBC + "result = libc.ptrace(16, {other}, 0, 0)" + _REFUSED, _NOT_PERMITTED),
    "read another's memory": Escape(
        _LIBC + "result = libc.process_vm_readv({other}, 0, 0, 0, 0, 0)" + _REFUSED, _NOT_PERMITTED
    ),
    "TCP": Escape("import socket; socket.create_connection(('127.0.0.1', 80))", _NOT_PERMITTED),
    "UDP": Escape("import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM)", _NOT_PERMITTED),
    "names of hosts": Escape("import socket; socket.gethostbyname('example.com')", "gaierror"),
    "fetch a page": Escape("import urllib.request as r; r.urlopen('http://169.254.169.254/')", "URLError"),
    "docker's socket": Escape(
        "import socket; socket.socket(socket.AF_UNIX).connect('/var/run/docker.sock')", _NOT_PERMITTED
    ),
    "kernel's sockets": Escape("import socket; socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)", _NOT_PERMITTED),
    "fork": Escape("while True: os.fork()", "Resource temporarily unavailable"),
    "program": Escape("import subprocess; subprocess.run(['/bin/sh', '-c', 'id'])", "Error"),
    "other program in place": Escape("os.execv('/bin/sh', ['sh'])", "Error"),
    "processes of a pool": Escape("import multiprocessing as m; m.Pool(2)", "Error"),
    "threads": Escape("import threading\nwhile True: threading.Thread(target=input).start()", "can't start new thread"),
    "signal to the server": Escape("os.kill({server}, 15)", _NOT_PERMITTED),
    "signal to another session": Escape("os.kill({other}, 9)", _NOT_PERMITTED),
    "signal to all": Escape("os.kill(-1, 9)", _NOT_PERMITTED),
    "signal to itself": Escape("os.kill(os.getpid(), 9)", _NOT_PERMITTED),
    "memory": Escape("x = bytearray(4 << 30)", "MemoryError"),
    "memory in small pieces": Escape("x = []\nwhile True: x.append(bytearray(1 << 20))", "MemoryError"),
    "shared memory": Escape("import mmap; mmap.mmap(-1, 1 << 30)", _NOT_PERMITTED),
    "file in memory": Escape("os.memfd_create('x')", _NOT_PERMITTED),
    "memory of System V": Escape(_LIBC + "result = libc.shmget(1, 4096, 0o1666)" + _REFUSED, _NOT_PERMITTED),
    "queue of System V": Escape(_LIBC + "result = libc.msgget(1, 0o1666)" + _REFUSED, _NOT_PERMITTED),
    "tables of pages": Escape("import mmap as m; m.mmap(-1, 1 << 40, m.MAP_PRIVATE, m.PROT_READ)", "allocate memory"),
    "raised limit": Escape(
        "import resource; resource.setrlimit(resource.RLIMIT_DATA, (-1, -1))", "not allowed to raise maximum limit"
    ),
    "other namespaces": Escape(_LIBC + "result = libc.unshare(0x10000000)" + _REFUSED, _NOT_PERMITTED),
    "changed filter": Escape(_LIBC + "result = libc.prctl(1, 0, 0, 0, 0)" + _REFUSED, _NOT_PERMITTED),
    "endless loop": Escape("while True: pass", "TimeoutError", ends=True),
    "loop that ignores its end": Escape(
        "import signal; signal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass", "TimeoutError", ends=True
    ),
    "endless wait": Escape("import signal; signal.pause()", "TimeoutError", ends=True),
    "expression that backtracks": Escape("re.match('(a+)+$', 'a' * 40 + 'b')", "TimeoutError", ends=True),
    "flood of text": Escape("for _ in range(10**5): print('x' * 100)", "more characters are not shown"),
    "flood of images": Escape("for _ in range(99): display(Image.new('L', (9, 9)))", "97 more images are not shown"),
    "large image": Escape("display(Image.new('L', (9000, 9000)))", "an image of 9000 x 9000 is not shown"),
    "bomb of an image": Escape("Image.new('L', (100_000, 100_000)).load()", "MemoryError"),
    "long error": Escape("raise ValueError('x' * 10**7)", "[...]"),
    "large file": Escape("f = open('large', 'wb')\nwhile True: f.write(bytes(1 << 20))", "File too large"),
    "many files": Escape("for n in range(10**6): open(f'{{n}}.txt', 'w').close()", "OSError", ends=True),
    "full disk": Escape("for n in range(10**6): open(f'{{n}}', 'wb').write(bytes(4 << 20))", "OSError", ends=True),
    "files without a name": Escape("os.open('.', os.O_TMPFILE | os.O_RDWR)", "not supported"),
    "removed and still written": Escape("f = open('gone', 'wb'); os.unlink('gone')", _DENIED),
    "end of the process": Escape("os._exit(3)", "its process ended with 3", ends=True),
    "exit": Escape("import sys; print('so far'); sys.exit(3)", "SystemExit: 3"),
    "crash": Escape("import ctypes; ctypes.string_at(8)", "SIGSEGV", ends=True),
    "endless recursion": Escape("import sys; sys.setrecursionlimit(10**9)\ndef f(): f()\nf()", "", ends=True),
    "reply to its own call": Escape(
        "reply = b'{{\"value\": {{\"call\": 0, \"pieces\": [], \"error\": \"\"}}}}'\n" + _SEND + _CHANNEL,
        "what it sent is not", ends=True,
    ),
    "reply to the next call": Escape(
        "import json\nreply = json.dumps(dict(value=dict(call=CALL, pieces=[], error=''))).encode()\n"
        + _SEND + "frame += frame\n" + _CHANNEL,
        "what it sent is not", ends=True,
    ),
    "endless reply": Escape(
        "frame = (1 << 40).to_bytes(8, 'little')\n" + _CHANNEL, "what it sent is not", ends=True
    ),
    "reply byte by byte": Escape(
        "import select\nframe = (9999).to_bytes(8, 'little')\nwhile True:\n"
        + _CHANNEL.replace("\n", "\n    ") + "\n    frame = b' '; select.select([], [], [], 0.05)",
        "TimeoutError", ends=True,
    ),
    "images that are none": Escape(
        "import tool_server.sandbox.inside as i, sys\n"
        "i._reply.__code__ = (lambda pieces, error, number, folder: "
        "{{'call': number, 'pieces': [('image', 'AAAA')], 'error': ''}}).__code__",
        "what it sent is not", ends=True,
    ),
    "more parts than allowed": Escape(
        "import tool_server.sandbox.screen as s\n"
        "s.Screen.pieces.__code__ = (lambda self: [('text', 'x')] * 99).__code__",
        "what it sent is", ends=True,
    ),
    "more images than allowed": Escape(
        "import tool_server.sandbox.screen as s\n"
        "s.Screen.pieces.__code__ = (lambda self: [self._pieces[0]] * 50).__code__\ndisplay(Image.new('L', (9, 9)))",
        "what it sent is", ends=True,
    ),
    "closed channel": Escape("os.closerange(3, 64)", "the process was ended", ends=True),
    "closed channel, still running": Escape(
        "import signal; os.closerange(3, 64); signal.pause()", "the process was ended", ends=True
    ),
    "broken interpreter": Escape("import json; json.dumps = None; json.JSONEncoder.encode = None", "", ends=True),
}  # fmt: skip
"""Name -> the code of the attempt."""
SILENT = {
    "image that is a link", "watch for others' files", "trace another session", "read another's memory",
    "memory of System V", "queue of System V", "other namespaces", "changed filter", "flood of text", "flood of images",
    "large image",
}  # fmt: skip
"""Attempts after which the code goes on, and says what it was told."""
