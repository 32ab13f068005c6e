"""Do the top words of a topic belong together? Measured on a reference corpus, by which words occur with which.

`top_words` [k, n] are columns of the vocabulary, a topic a row; a topic of fewer words is filled up with -1. A topic's
value does not depend on the other topics. It is nan where the topic has fewer than two words, or the reference corpus
no documents.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from ..errors import InputError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

EPSILON = 1e-12  # added to joint probabilities, as in Röder et al.: the logarithm of 0 is needed
WINDOW = 110
ENTRIES_A_BLOCK = 4_000_000  # pairs of a window and a word in it: about 100 MB at work


def npmi(top_words: ArrayLike, reference_counts: sparse.csr_matrix) -> Floats:
    """Normalised pointwise mutual information of a topic's words, averaged over its pairs of words [k].

        NPMI(i, j) = log[ (p_ij + ε) / (p_i p_j) ] / -log(p_ij + ε)

    p_ij is the share of documents that hold both words. 1: always together; 0: independent; towards -1: never
    together, and -1 where one of the words is in no document. Two words that are in every document tell nothing: 0.
    """
    words = _checked_words(top_words, reference_counts.shape[1])
    columns, places = _numbered(words)
    if not len(columns):
        return np.full(len(words), np.nan)
    present = sparse.csr_matrix(reference_counts[:, columns] > 0, dtype=np.int64)
    pairs = _pair_npmi(_Together(present.T @ present, present.shape[0]), places, of_unseen=-1.0)
    is_pair = _is_pair(words) & ~np.eye(words.shape[1], dtype=bool)
    return _mean(pairs, is_pair, axis=(1, 2), known=present.shape[0] > 0)


def c_v(top_words: ArrayLike, documents: Sequence[ArrayLike], window: int = WINDOW) -> Floats:
    """C_v of Röder, Both & Hinneburg (2015): does a word keep the company that the whole topic keeps? [k]

    `documents` are sequences of columns of the vocabulary in the order of the text; any other number (-1) is a word
    that only takes its place. Probabilities are shares of the windows of `window` tokens, moved on by one; a shorter
    document is one window. A word's vector holds its NPMI with each word of the topic, itself among them; the value
    is the mean cosine of these vectors with their sum. A word that is in no document has the zero vector, and cosine 0.

    gensim's figures are the same for short documents and lower for long ones (0.62 for 0.65 on 20Newsgroups): there a
    word that is twice in a window is forgotten when its first token leaves.
    """
    if window < 1:
        raise InputError(f"window={window}: it must hold at least one token")
    words = _checked_words(top_words)
    columns, places = _numbered(words)
    if not len(columns):
        return np.full(len(words), np.nan)
    pairs = _pair_npmi(_together_in_windows(documents, columns, window), places, of_unseen=0.0)
    vectors = np.where(_is_pair(words), pairs, 0.0)  # [k, word, context]
    whole = vectors.sum(axis=1, keepdims=True)
    length = np.linalg.norm(vectors, axis=2) * np.linalg.norm(whole, axis=2)
    cosine = _ratio((vectors * whole).sum(axis=2), length, otherwise=0.0)
    return _mean(cosine, words >= 0, axis=1, known=len(documents) > 0)


def topic_diversity(top_words: ArrayLike) -> float:
    """Share of distinct words among the top words of all topics: 1 where no word is in two topics."""
    words = _checked_words(top_words)
    words = words[words >= 0]
    return len(np.unique(words)) / len(words) if len(words) else float("nan")


class _Together(NamedTuple):
    """In how many of n documents or windows two words occur [r, r]; on the diagonal, one word."""

    counts: sparse.csr_matrix
    n: int


def _pair_npmi(together: _Together, places: Ints, of_unseen: float) -> Floats:
    """NPMI of all pairs of a topic's words [k, n, n]; 0 where there is nothing to tell."""
    n = max(together.n, 1)
    share = together.counts.diagonal()[places] / n
    rows, columns = np.broadcast_arrays(places[:, :, None], places[:, None, :])
    joint = np.asarray(together.counts[rows.flatten(), columns.flatten()]).reshape(rows.shape) / n
    independent = share[:, :, None] * share[:, None, :]
    is_seen = independent > 0
    information = np.log(joint + EPSILON) - np.log(np.where(is_seen, independent, 1.0))
    value = _ratio(information, np.where(joint < 1, -np.log(joint + EPSILON), 0.0), otherwise=0.0)
    return np.where(is_seen, value, of_unseen)


def _together_in_windows(documents: Sequence[ArrayLike], columns: Ints, window: int) -> _Together:
    counts = sparse.csr_matrix((len(columns), len(columns)), dtype=np.int64)
    n_windows = 0
    for block in _blocks(documents, window):
        present = _windows_of(block, columns, window)
        counts = counts + present.T @ present
        n_windows += present.shape[0]
    return _Together(sparse.csr_matrix(counts), n_windows)


def _blocks(documents: Sequence[ArrayLike], window: int) -> Iterator[list[Ints]]:
    """Consecutive documents, a bounded number of tokens at a time."""
    block: list[Ints] = []
    n_entries = 0
    for document in documents:
        block.append(np.asarray(document, dtype=np.int64).ravel())
        n_entries += len(block[-1]) * min(len(block[-1]), window)
        if n_entries >= ENTRIES_A_BLOCK:
            yield block
            block, n_entries = [], 0
    if block:
        yield block


def _windows_of(documents: list[Ints], columns: Ints, window: int) -> sparse.csr_matrix:
    """Which window holds which word [window, r], 1 or 0."""
    lengths = np.array([len(document) for document in documents])
    n_windows = np.maximum(lengths - window + 1, 1)
    first_window = np.cumsum(n_windows) - n_windows
    document = np.repeat(np.arange(len(documents)), lengths)
    position = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    tokens = np.concatenate(documents)
    word = np.searchsorted(columns, tokens)
    kept = np.append(columns, -1)[word] == tokens
    document, position, word = document[kept], position[kept], word[kept]
    # The windows that hold a token begin at most window - 1 tokens before it.
    first = np.maximum(position - window + 1, 0)
    n_held = np.minimum(position, n_windows[document] - 1) - first + 1
    begins = np.cumsum(n_held) - n_held
    rows = np.arange(n_held.sum()) + np.repeat(first_window[document] + first - begins, n_held)
    entries = np.ones(len(rows), dtype=np.int64), (rows, np.repeat(word, n_held))
    present = sparse.csr_matrix(entries, shape=(int(n_windows.sum()), len(columns)))
    present.sum_duplicates()
    present.data[:] = 1  # a word that is in a window twice is in it
    return present


def _checked_words(top_words: ArrayLike, n_words: int | None = None) -> Ints:
    words: NDArray[Any] = np.asarray(top_words)
    if words.ndim != 2 or not (words.size == 0 or np.issubdtype(words.dtype, np.integer)):
        raise InputError("top_words must be whole numbers [topics, words]: columns of the vocabulary, or -1")
    if words.size and (words.min() < -1 or (n_words is not None and words.max() >= n_words)):
        raise InputError(f"top_words must be -1 or columns of the vocabulary, 0 to {n_words and n_words - 1}")
    ordered = np.sort(words, axis=1)
    twice = ((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)).any(axis=1)
    if twice.any():
        raise InputError(f"topic {int(twice.argmax())} has a word twice among its top words")
    return words.astype(np.int64)


def _numbered(words: Ints) -> tuple[Ints, Ints]:
    """The distinct words in increasing order, and the number of each word among them; any for missing words."""
    columns = np.unique(words[words >= 0])
    return columns, np.minimum(np.searchsorted(columns, words), len(columns) - 1)


def _is_pair(words: Ints) -> NDArray[np.bool_]:
    present = words >= 0
    return np.asarray(present[:, :, None] & present[:, None, :])


def _mean(values: Floats, kept: NDArray[np.bool_], axis: int | tuple[int, ...], known: bool) -> Floats:
    """Mean over the kept values; nan for a topic of one word."""
    n_kept = kept.sum(axis=axis)
    enough = n_kept >= 2  # two words, or the pair that they make in either order
    return _ratio(np.where(kept, values, 0.0).sum(axis=axis), np.where(enough & known, n_kept, 0), otherwise=np.nan)


def _ratio(above: Floats, below: NDArray[Any], otherwise: float) -> Floats:
    result: Floats = np.full(np.shape(above), otherwise)
    np.divide(above, below, out=result, where=below != 0)
    return result
