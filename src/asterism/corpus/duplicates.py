"""Near-identical documents by MinHash (Broder 1997): equal minima are as frequent as equal word sequences."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_BANDS, _ROWS = 16, 4  # two texts that agree in 0.8 of their parts meet in some band with probability 0.9998
_NEARLY_IDENTICAL = 0.8

_rng = np.random.default_rng(0)
_PLACE_FACTORS = _rng.integers(1, 2**63, 3, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
_FACTORS = _rng.integers(1, 2**63, _BANDS * _ROWS, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
_OFFSETS = _rng.integers(1, 2**63, _BANDS * _ROWS, dtype=np.uint64)


def without_near_duplicates(documents: Sequence[Sequence[str]]) -> list[int]:
    """Indices of the documents (lists of words), in order, that do not nearly repeat an earlier one.

    Nearly identical are documents that agree in about 0.8 of their sequences of three words.
    """
    codes: dict[str, int] = {}
    kept_signatures: list[NDArray[np.uint32]] = []
    kept: list[int] = []
    seen: dict[tuple[int, bytes], list[int]] = {}  # where in `kept` the documents with this band are
    for index, words in enumerate(documents):
        signature = _signature(_word_codes(words, codes))
        bands = [(band, rows.tobytes()) for band, rows in enumerate(signature.reshape(_BANDS, _ROWS))]
        candidates = {place for band in bands for place in seen.get(band, ())}
        if any((kept_signatures[place] == signature).mean() >= _NEARLY_IDENTICAL for place in candidates):
            continue
        for band in bands:
            seen.setdefault(band, []).append(len(kept))
        kept.append(index)
        kept_signatures.append(signature)
    return kept


def _word_codes(words: Sequence[str], codes: dict[str, int]) -> NDArray[np.uint64]:
    """A 64-bit code for each word, the same in every run (Python's own hash is not)."""
    for word in words:
        if word not in codes:
            digest = hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest()
            codes[word] = int.from_bytes(digest, "little")
    return np.array([codes[word] for word in words], dtype=np.uint64)


def _signature(words: NDArray[np.uint64]) -> NDArray[np.uint32]:
    """The smallest of the hashed three-word sequences under each of the hash functions, shape (64,)."""
    if len(words) < 3:
        words = np.concatenate([words, np.zeros(3 - len(words), np.uint64)])
    first, second, third = _PLACE_FACTORS
    sequences = words[:-2] * first + words[1:-1] * second + words[2:] * third
    # Multiply-shift: the upper half of the wrapped product is close to a random function of the sequence.
    hashed = (sequences[:, None] * _FACTORS + _OFFSETS) >> np.uint64(32)
    signature: NDArray[np.uint32] = hashed.min(axis=0).astype(np.uint32)
    return signature
