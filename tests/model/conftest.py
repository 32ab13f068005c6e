"""A small dense world: topics with all their parts, and documents under them."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from asterism import sample_corpus
from asterism.model import svi, words
from asterism.model.state import Batch, Priors

N_TOPICS, N_DIMS, N_WORDS, N_DOCUMENTS = 6, 3, 40, 25


@pytest.fixture
def world():
    """Topics at their start, a corpus, and random document variables; every candidate is allowed."""
    corpus = sample_corpus(N_DOCUMENTS, N_TOPICS, N_WORDS, N_DIMS, mean_length=30, seed=4)
    topics = svi.start(corpus.counts, N_TOPICS, N_DIMS, Priors(0.5, 0.7, 1.3, 0.4), seed=1)
    topics = replace(topics, mean=np.linspace(-1, 1, N_TOPICS))
    kept = words.kept_for_drawing(topics.word_topic, N_WORDS, N_TOPICS)
    rng = np.random.default_rng(0)
    return SimpleNamespace(
        corpus=corpus,
        topics=topics,
        table=words.draw_table(topics, kept),
        batch=Batch.of(corpus.counts),
        weights=rng.normal(size=(N_DOCUMENTS, N_TOPICS)),
        rng=rng,
    )
