"""Removes from an environment what no image needs: `slim.py /opt/lyncean [PACKAGE ...]`, and packages by name.

What goes is for those who build upon a package or test it, and what Arrow has for other file systems and its own
protocol. Licenses stay. Bytecode is made, since on a read-only root it could not be made later: without the time of its
source, so that the same sources give the same bytes. tests/deploy imports every module of a service in its image.
"""

import compileall
import py_compile
import shutil
import sys
from itertools import chain
from pathlib import Path

FOLDERS = ("tests", "include")
FILES = ("*.pyi", "*.pxd", "*.pyx", "*.pxi", "*.h", "*.hpp", "*.cuh", "*.a", "*.cmake")
INSTALLERS = (
    "pip",
    "pip-*",
    "setuptools",
    "setuptools-*",
    "pkg_resources",
    "_distutils_hack",
    "distutils-precedence.pth",
)
ARROW = ("*_flight*", "*_s3fs*", "libarrow_s3*")

environment = Path(sys.argv[1])
(packages,) = environment.glob("lib/python3*/site-packages")
arrow = packages / "pyarrow"
found = chain(
    (path for name in (*FOLDERS, *FILES) for path in packages.rglob(name) if ".dist-info" not in str(path)),
    (path for name in INSTALLERS for path in packages.glob(name)),
    (path for name in ARROW for path in arrow.glob(name)),
    # The wheel holds each of these three times; programs ask for `lib….so.VERSION`.
    (path for path in arrow.glob("libarrow_python*.so*") if path.name.partition(".so")[2].count(".") != 1),
    environment.glob("bin/pip*"),
    # An image has one service, whose command is its entry point.
    (packages / name for name in sys.argv[2:]),
    (environment / "bin" / name.replace("_", "-") for name in sys.argv[2:]),
)
for path in list(found):
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
root = str(environment).removesuffix("/opt/lyncean")
compileall.compile_dir(
    packages, quiet=2, stripdir=root or None, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH
)
