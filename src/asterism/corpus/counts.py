"""Matrices of counts in: checked, with the first culprit named, as sparse whole numbers."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ..errors import InputError

logger = logging.getLogger(__name__)

LARGEST_COUNT = 2**31 - 1


def checked_counts(X: Any, non_integer: str = "error") -> sparse.csr_matrix:
    """Non-negative whole counts [d, v] as sorted CSR of int32 without stored zeros.

    X is a numeric array or sparse matrix of two dimensions. Fractions are an error, or rounded to the nearest
    whole number where `non_integer` is "round".
    """
    counts = sparse.csr_matrix(X)
    if not counts.has_canonical_format:
        counts = counts.copy()
        counts.sum_duplicates()
    _refuse(counts, ~np.isfinite(counts.data), "is not a finite number")
    _refuse(counts, counts.data < 0, "is negative: entries are counts of words", "Negative values in data: ")
    if non_integer == "round":
        counts = counts.copy()
        counts.data = np.rint(counts.data)
    else:
        hint = 'is not a whole number: entries are counts of words (non_integer="round" rounds them)'
        _refuse(counts, counts.data != np.rint(counts.data), hint)
    _refuse(counts, counts.data > LARGEST_COUNT, f"is larger than {LARGEST_COUNT}")
    whole = counts.astype(np.int32)
    whole.eliminate_zeros()
    return whole


def _refuse(counts: sparse.csr_matrix, bad: NDArray[np.bool_], why: str, prefix: str = "") -> None:
    """Raise an error that names the first bad entry, if there is one."""
    if not bad.any():
        return
    entry = int(np.argmax(bad))
    row = int(np.searchsorted(counts.indptr, entry, side="right")) - 1
    value = counts.data[entry]
    # scikit-learn's own words for it, so that its conventions hold.
    shown = "NaN" if np.isnan(value) else value
    more = f" ({int(bad.sum())} such entries)" if bad.sum() > 1 else ""
    raise InputError(f"{prefix}X[{row}, {counts.indices[entry]}] = {shown} {why}{more}")


def readable_twice(X: Any) -> Any:
    """X, as a list if it is a generator: telling texts from numbers would take its first document away."""
    if isinstance(X, Iterator):
        X = list(X)
    if isinstance(X, list | tuple) and not X:
        raise InputError("there are no documents")
    return X


def is_documents(X: Any) -> bool:
    """Whether X is a sequence of texts or token lists rather than a matrix of numbers."""
    if sparse.issparse(X) or getattr(X, "ndim", 1) != 1 or not isinstance(X, Iterable):
        return False
    if isinstance(X, str | bytes | dict):
        return True  # and refused by who reads documents, in better words
    return any(_is_document(item) for item in X) or all(isinstance(item, list) and not item for item in X)


def _is_document(item: Any) -> bool:
    """None and bytes are no documents either, but meant as some."""
    if isinstance(item, list | tuple):
        return any(isinstance(token, str) for token in item)
    return item is None or isinstance(item, str | bytes) or getattr(item, "dtype", np.dtype(float)).kind in "US"


def over_vocabulary(counts: sparse.csr_matrix, words: list[str], wanted: list[str]) -> sparse.csr_matrix:
    """Counts [d, len(wanted)] with the columns of the wanted words; other words are left out and logged."""
    if words == wanted:
        return counts
    column = {word: v for v, word in enumerate(wanted)}
    if len(column) < len(wanted):
        twice = next(word for v, word in enumerate(wanted) if column[word] != v)
        raise InputError(f"the model's vocabulary has {twice!r} twice: columns cannot be matched by words")
    found = np.array([column.get(word, -1) for word in words], dtype=np.int64)
    known = np.flatnonzero(found >= 0)
    if not len(known):
        raise InputError("none of the corpus's words is in the model's vocabulary")
    if len(known) < len(words):
        logger.warning("%d of %d words are not in the model's vocabulary", len(words) - len(known), len(words))
    shape = (len(known), len(wanted))
    place = sparse.csr_matrix((np.ones(len(known), np.int32), (np.arange(len(known)), found[known])), shape)
    return sparse.csr_matrix(counts[:, known] @ place)
