"""Are documents with the same label found first? Each query ranks all documents by similarity of vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InputError

Floats = NDArray[np.floating[Any]]
Similarity = Callable[[Floats, Floats], Floats]  # of queries [q, m] and documents [d, m]: [q, d], larger is closer

RECALL_LEVELS = np.linspace(0, 1, 21)
TOP = 10
SCORES_A_BLOCK = 4_000_000


class Retrieval(NamedTuple):
    mean_average_precision: float
    precision_at_10: float
    precision_at_recall: NDArray[
        np.float64
    ]  # interpolated, at RECALL_LEVELS: the best precision at this recall or more
    n_queries: int  # that have something to find


def retrieval(
    query_vectors: ArrayLike,
    query_labels: ArrayLike,
    document_vectors: ArrayLike,
    document_labels: ArrayLike,
    similarity: str | Similarity = "inner",
) -> Retrieval:
    """Precision of the ranking of documents for each query, averaged over queries.

    A document is relevant where it has the query's label. Queries whose label no document has are left out; if none is
    left, the measures are nan. `similarity` is "inner", "cosine" (0 for a vector of zeros), or a function of vectors
    [q, m] and [d, m]. Documents of equal similarity rank in an order that is random, but always the same and unrelated
    to their labels. Of fewer than ten documents, precision at 10 is that of all.
    """
    queries, wanted = _checked(query_vectors, query_labels, "query")
    documents, labels = _checked(document_vectors, document_labels, "document")
    if queries.shape[1] != documents.shape[1]:
        raise InputError(f"queries have {queries.shape[1]} dimensions, documents {documents.shape[1]}")
    _, numbers = np.unique(np.concatenate([wanted, labels]), return_inverse=True)  # quicker to compare than names
    wanted, labels = numbers[: len(wanted)], numbers[len(wanted) :]
    shuffled = np.random.default_rng(0).permutation(len(documents))
    documents, labels = documents[shuffled], labels[shuffled]
    findable = np.isin(wanted, labels)
    queries, wanted = queries[findable], wanted[findable]
    if not len(queries):
        return Retrieval(np.nan, np.nan, np.full(len(RECALL_LEVELS), np.nan), 0)
    measures = np.array(
        [_precisions(ranks, len(labels)) for ranks in _ranks(queries, wanted, documents, labels, similarity)]
    )
    average, at_top, *at_recall = measures.mean(axis=0)
    return Retrieval(float(average), float(at_top), np.array(at_recall), len(queries))


def _ranks(
    queries: Floats, wanted: NDArray[Any], documents: Floats, labels: NDArray[Any], similarity: str | Similarity
) -> Iterator[NDArray[np.intp]]:
    """The ranks, from 0, of each query's relevant documents; scores are held for a block of queries at a time."""
    queries, documents, function = _resolved(queries, documents, similarity)
    size = max(1, SCORES_A_BLOCK // len(documents))
    for first in range(0, len(queries), size):
        rows = slice(first, first + size)
        scores = np.asarray(function(queries[rows], documents))
        if scores.shape != (len(queries[rows]), len(documents)) or np.isnan(scores).any():
            raise InputError("similarity must give a number for every query and document")
        for order, label in zip(np.argsort(-scores, axis=1, kind="stable"), wanted[rows], strict=True):
            yield np.flatnonzero(labels[order] == label)


def _precisions(ranks: NDArray[np.intp], n_documents: int) -> NDArray[np.float64]:
    """Average precision, precision at 10, and the interpolated precisions of one query."""
    n = len(ranks)
    precision = np.arange(1, n + 1) / (ranks + 1)
    best_from_here = np.maximum.accumulate(precision[::-1])[::-1]
    at_level = np.maximum(np.ceil(RECALL_LEVELS * n - 1e-9).astype(int), 1) - 1  # 0.15 * 20 is a little over 3
    at_top = np.mean(ranks < TOP) * n / min(TOP, n_documents)
    return np.concatenate([[precision.mean(), at_top], best_from_here[at_level]])


def _resolved(queries: Floats, documents: Floats, similarity: str | Similarity) -> tuple[Floats, Floats, Similarity]:
    if callable(similarity):
        return queries, documents, similarity
    if similarity == "cosine":
        queries, documents = _unit(queries), _unit(documents)
    elif similarity != "inner":
        raise InputError(f'similarity={similarity!r}: it must be "inner", "cosine" or a function')
    return queries, documents, lambda some, all_: some @ all_.T


def _unit(vectors: Floats) -> Floats:
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(length > 0, length, 1))


def _checked(vectors: ArrayLike, labels: ArrayLike, name: str) -> tuple[Floats, NDArray[Any]]:
    checked, checked_labels = np.asarray(vectors), np.asarray(labels)
    if checked.ndim != 2 or checked_labels.shape != checked.shape[:1]:
        raise InputError(f"{name}_vectors must be [documents, dimensions], with a label for each document")
    if not np.isfinite(checked).all():
        raise InputError(f"{name}_vectors hold nan or infinity")
    return checked, checked_labels
