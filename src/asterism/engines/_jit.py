"""The one place for compiler flags of the CPU kernels.

Kernels are compiled on first use and kept on disk. They release the GIL and know nothing of threads: the engine
hands each thread its own block of documents. Only in reductions is the order of additions the compiler's: like those of
a matrix product their last bits can depend on the machine's vectors, but not on threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba.extending import overload

F = TypeVar("F", bound=Callable[..., object])
# Its annotations leave out options that it has.
njit: Any = numba.njit


def kernel(function: F) -> F:
    """Compile what the engine calls; with NUMBA_DISABLE_JIT=1 the function stays Python."""
    return cast(F, njit(cache=True, nogil=True, error_model="numpy", no_cfunc_wrapper=True)(function))


def part(function: F) -> F:
    """Compile what only kernels call: it needs no door from Python and is kept with its callers."""
    return cast(F, njit(error_model="numpy", no_cfunc_wrapper=True, no_cpython_wrapper=True)(function))


def passage(function: F) -> F:
    """A part that one kernel calls once: put into it as it stands, since what is compiled by itself first and in its
    caller again takes twice as long."""
    return cast(F, njit(inline="always", error_model="numpy")(function))


def reduction(function: F) -> F:
    """Compile a part whose sums may be formed in any order, so that they run as wide as the machine's vectors."""
    options = {"error_model": "numpy", "no_cfunc_wrapper": True, "no_cpython_wrapper": True}
    return cast(F, njit(fastmath={"reassoc", "contract", "nsz"}, **options)(function))


def like(value: float, x: Any) -> Any:
    """A constant in the precision of x, so that arithmetic stays in it."""
    return value


@overload(like)
def _compiled_like(value: Any, x: Any) -> Any:
    real = np.float32 if x == numba.types.float32 else np.float64

    def constant(value: Any, x: Any) -> Any:
        return real(value)

    return constant


def exp_of(x: Any) -> Any:
    """exp(x), right to a bit or two; in single precision without a call, so that loops of it become vector code."""
    return np.exp(x)


@overload(exp_of)
def _compiled_exp_of(x: Any) -> Any:
    if x != numba.types.float32:

        def exp_any(x: Any) -> Any:
            return np.exp(x)

        return exp_any
    f32, i32 = np.float32, np.int32
    log2_e, ln2_high, ln2_low = f32(1.44269504), f32(0.693359375), f32(-2.12194440e-4)
    # exp on [-ln2/2, ln2/2]: 1 + r + r² (c5 + r (c4 + ...)), Cephes' coefficients.
    c0, c1, c2 = f32(1.9875691500e-4), f32(1.3981999507e-3), f32(8.3334519073e-3)
    c3, c4, c5 = f32(4.1665795894e-2), f32(1.6666665459e-1), f32(5.0000001201e-1)
    low, high, half, one = f32(-87.0), f32(88.0), f32(0.5), f32(1.0)
    bias, mantissa_bits = i32(127), i32(23)

    def exp_float32(x: Any) -> Any:
        x = min(max(x, low), high)
        power = np.floor(x * log2_e + half)
        r = (x - power * ln2_high) - power * ln2_low
        tail = ((((c0 * r + c1) * r + c2) * r + c3) * r + c4) * r + c5
        # 2^power, written into the bits of the exponent.
        return (tail * (r * r) + r + one) * i32((i32(power) + bias) << mantissa_bits).view(f32)

    return exp_float32


def log_of(x: Any) -> Any:
    """log(x) of a normal positive number, likewise."""
    return np.log(x)


@overload(log_of)
def _compiled_log_of(x: Any) -> Any:
    if x != numba.types.float32:

        def log_any(x: Any) -> Any:
            return np.log(x)

        return log_any
    f32, i32 = np.float32, np.int32
    ln2_high, ln2_low, half, one = f32(0.693359375), f32(-2.12194440e-4), f32(0.5), f32(1.0)
    root_half, mantissa, exponent_of_half = f32(0.707106781), i32(0x007FFFFF), i32(0x3F000000)
    # log(1 + r) on [√½ - 1, √2 - 1]: r - r²/2 + r³ (c8 + r (c7 + ...)), Cephes' coefficients.
    c0, c1, c2 = f32(7.0376836292e-2), f32(-1.1514610310e-1), f32(1.1676998740e-1)
    c3, c4, c5 = f32(-1.2420140846e-1), f32(1.4249322787e-1), f32(-1.6668057665e-1)
    c6, c7, c8 = f32(2.0000714765e-1), f32(-2.4999993993e-1), f32(3.3333331174e-1)

    def log_float32(x: Any) -> Any:
        bits = f32(x).view(i32)
        power = f32((bits >> i32(23)) - i32(126))
        m = i32((bits & mantissa) | exponent_of_half).view(f32)  # x = m 2^power with m in [½, 1)
        is_low = m < root_half
        r = (m + m - one) if is_low else (m - one)
        power = (power - one) if is_low else power
        high = ((((c0 * r + c1) * r + c2) * r + c3) * r + c4) * r + c5
        tail = ((high * r + c6) * r + c7) * r + c8
        s = r * r
        return (r * s * tail + power * ln2_low - half * s) + r + power * ln2_high

    return log_float32


def sin_pi_of(x: Any) -> Any:
    """sin(π x) for x in [-1, 1], likewise."""
    return np.sin(np.pi * x)


@overload(sin_pi_of)
def _compiled_sin_pi_of(x: Any) -> Any:
    if x != numba.types.float32:

        def sin_any(x: Any) -> Any:
            return np.sin(np.pi * x)

        return sin_any
    f32 = np.float32
    half, one = f32(0.5), f32(1.0)
    # sin(π y) / y on [-½, ½] as a polynomial in y², by least squares.
    c0, c1, c2, c3, c4 = f32(3.14159264), f32(-5.167710084), f32(2.550077523), f32(-0.5982912856), f32(0.07765766031)

    def sin_float32(x: Any) -> Any:
        y = (one - x) if x > half else x
        y = (-one - x) if x < -half else y
        s = y * y
        return y * ((((c4 * s + c3) * s + c2) * s + c1) * s + c0)

    return sin_float32
