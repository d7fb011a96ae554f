"""NumPy, imported when it is first used: it takes a tenth of a second, and most of a service's life has no numbers.

`from lyncean.arrays import np` stands for `import numpy as np`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Bools = NDArray[np.bool_]
    Ints = NDArray[np.signedinteger[Any]]
    Floats = NDArray[np.float64]
else:

    class _Deferred:
        def __getattr__(self, name: str) -> Any:
            value = getattr(import_module("numpy"), name)
            setattr(self, name, value)
            return value

    np = _Deferred()
    NDArray = Bools = Ints = Floats = Any

__all__ = ["Bools", "Floats", "Ints", "NDArray", "np"]
