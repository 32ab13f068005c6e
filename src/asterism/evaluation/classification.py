"""How much of a document's label its vector tells: a linear support vector machine."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InputError

PENALTIES = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)  # the C's that are tried
FOLD = 5  # one in so many training documents is set aside to choose C


class Classification(NamedTuple):
    accuracy: float
    C: float


def linear_svm_accuracy(
    train_vectors: ArrayLike, train_labels: ArrayLike, test_vectors: ArrayLike, test_labels: ArrayLike, seed: int = 0
) -> Classification:
    """Accuracy on the test documents of a linear SVM that was trained on the others.

    All vectors are divided by one number, the root mean square length of a training vector, so that the same C's suit
    embeddings and proportions: the result does not depend on the unit of the vectors. C is what classifies a fifth of
    the training documents best after training on the rest, the smallest of equals; then all are used. The fifth is
    drawn by `seed` from every label; where no label has five documents, C is 1.
    """
    labels, expected = np.asarray(train_labels), np.asarray(test_labels)
    train, test = _checked(train_vectors, labels, "train"), _checked(test_vectors, expected, "test")
    if len(np.unique(labels)) < 2:
        raise InputError("the training documents all have one label: there is nothing to learn")
    length = np.sqrt(np.mean(np.sum(train**2, axis=1))) or 1.0
    train, test = train / length, test / length
    C = _best_penalty(train, labels, seed)
    return Classification(_accuracy(train, labels, test, expected, C), C)


def _best_penalty(vectors: NDArray[np.float64], labels: NDArray[Any], seed: int) -> float:
    aside = _validation(labels, seed)
    if not aside.any():
        return 1.0
    accuracies = [_accuracy(vectors[~aside], labels[~aside], vectors[aside], labels[aside], C) for C in PENALTIES]
    return PENALTIES[int(np.argmax(accuracies))]


def _validation(labels: NDArray[Any], seed: int) -> NDArray[np.bool_]:
    """Every fifth document of each label, in random order."""
    order = np.random.default_rng(seed).permutation(len(labels))
    _, number, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    by_label = order[np.argsort(number[order], kind="stable")]
    rank = np.arange(len(labels)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    aside = np.zeros(len(labels), dtype=bool)
    aside[by_label] = rank % FOLD == FOLD - 1
    return aside


def _accuracy(
    train: NDArray[np.float64], labels: NDArray[Any], test: NDArray[np.float64], expected: NDArray[Any], C: float
) -> float:
    from sklearn.svm import LinearSVC

    # The primal problem is solved without random numbers.
    machine = LinearSVC(C=C, dual=False, max_iter=10_000).fit(train, labels)
    return float(np.mean(machine.predict(test) == expected))


def _checked(vectors: ArrayLike, labels: NDArray[Any], name: str) -> NDArray[np.float64]:
    checked = np.asarray(vectors, dtype=np.float64)
    if checked.ndim != 2 or labels.shape != checked.shape[:1] or not len(checked):
        raise InputError(f"{name}_vectors must be [documents, dimensions], with a label for each document")
    if not np.isfinite(checked).all():
        raise InputError(f"{name}_vectors hold nan or infinity")
    return checked
