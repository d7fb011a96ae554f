"""A program that sends itself a signal as soon as its port is to be read."""

from __future__ import annotations

SIGNALLED = """
import importlib, os, signal, sys
from lyncean.rpc import serve
write = serve.write_port
def write_and_end(file, port):
    write(file, port)
    os.kill(os.getpid(), signal.SIGTERM)
serve.write_port = write_and_end
sys.argv = sys.argv[1:]
importlib.import_module(sys.argv[0].replace("-", "_") + ".cli").main()
"""
