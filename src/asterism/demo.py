"""The demonstration: the main job, whole, on text that every machine has."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from .corpus import load_docstrings
from .estimator import TopicEmbeddingModel
from .model import random
from .persist import check_target

TEST_SHARE = 0.1


class Demonstration(NamedTuple):
    model: TopicEmbeddingModel
    n_documents: int
    n_test: int
    perplexity: float
    folder: Path


def run_demo(n_topics: int, n_dims: int, seed: int, folder: Path) -> Demonstration:
    """Learn topics from nine tenths of the embedded corpus, score the rest, save the model."""
    check_target(folder)
    texts = load_docstrings().documents
    order = random.permutation(len(texts), seed, random.SPLIT)
    n_test = int(TEST_SHARE * len(texts))
    test, training = ([texts[i] for i in np.sort(rows)] for rows in (order[:n_test], order[n_test:]))
    model = TopicEmbeddingModel(n_topics, n_dims, warm_sweeps=200, random_state=seed, verbose=True)
    model.fit(training)
    return Demonstration(model, len(texts), n_test, model.perplexity(test), model.save(folder))
