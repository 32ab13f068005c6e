"""Shared by all tests: a small planted corpus, a model fitted to it, texts with two subjects."""

import os
from pathlib import Path

import numpy as np
import pytest

from asterism import TopicEmbeddingModel, sample_corpus

SKY = ["galaxy", "star", "planet", "orbit", "telescope", "comet", "nebula", "moon", "light", "dust"]
CELL = ["protein", "cell", "enzyme", "gene", "tissue", "membrane", "virus", "antibody", "light", "dust"]


@pytest.fixture(scope="session")
def data_folder():
    """The shared corpora, which are not on every machine."""
    folder = Path(os.environ.get("ASTERISM_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no shared data in {folder}")
    return folder


@pytest.fixture(scope="session")
def planted():
    """A corpus drawn from the model: 120 documents, 60 words, 5 topics, 3 dimensions."""
    return sample_corpus(120, 5, 60, 3, mean_length=40, seed=3)


@pytest.fixture(scope="session")
def counts(planted):
    return planted.counts


@pytest.fixture(scope="session")
def make():
    """Build a small, quick, seeded model; keywords override."""

    def make_model(**parameters):
        small = {"n_topics": 5, "n_dims": 3, "inference": "svi", "max_sweeps": 2, "batch_size": 32, "random_state": 0}
        return TopicEmbeddingModel(**{**small, **parameters})

    return make_model


@pytest.fixture(scope="session")
def model(make, counts):
    """Fitted once and shared: tests must not change it."""
    return make().fit(counts)


@pytest.fixture(scope="session")
def texts():
    """Sixty short texts, about the sky or about cells."""
    rng = np.random.default_rng(0)
    return [" ".join(rng.choice(CELL if i % 2 else SKY, 12)) + "." for i in range(60)]


@pytest.fixture(scope="session")
def text_model(make, texts):
    """Fitted on raw strings, once and shared: tests must not change it."""
    return make(n_topics=3, n_dims=2).fit(texts)
