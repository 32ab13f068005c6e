"""The one place for compiler flags of the CPU kernels.

Kernels are compiled on first use and kept on disk. They release the GIL and know nothing of threads: the engine
hands each thread its own block of documents. No fast-math: the order of additions is the program's, so results
do not depend on the width of the machine's vectors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., object])
# Its annotations leave out options that it has.
njit: Any = numba.njit


def kernel(function: F) -> F:
    """Compile what the engine calls; with NUMBA_DISABLE_JIT=1 the function stays Python."""
    return cast(F, njit(cache=True, nogil=True, error_model="numpy", no_cfunc_wrapper=True)(function))


def part(function: F) -> F:
    """Compile what only kernels call: it needs no door from Python and is kept with its callers."""
    return cast(F, njit(error_model="numpy", no_cfunc_wrapper=True, no_cpython_wrapper=True)(function))
