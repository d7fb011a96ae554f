"""What holds for all tests."""

from __future__ import annotations

from hypothesis import settings

# How long an example takes on a busy machine says nothing of the code: no test asserts on time.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
