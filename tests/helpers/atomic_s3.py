"""moto's server with writes that are atomic, as S3's are: moto's own compares the version, and writes later.

Two conditional writes at once may both succeed there, so that one is lost without a word.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

from moto import server
from moto.s3.responses import S3Response

_LOCK = threading.Lock()
_put_object = S3Response.put_object


def put_object(self: S3Response) -> Any:
    """Writes an object; its body has been read by now, so that no slow client holds the others up."""
    with _LOCK:
        return _put_object(self)


if __name__ == "__main__":
    S3Response.put_object = put_object
    server.main(sys.argv[1:])
