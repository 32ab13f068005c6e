"""The start, the step sizes and the blending of Algorithm 2."""

import numpy as np
import pytest
from scipy import sparse

from asterism import sample_corpus
from asterism.model import svi, topics
from asterism.model.state import Priors, Statistics

PRIORS = Priors(0.1, 0.1, 1.0, 0.2)


def test_step_sizes_are_the_papers():
    assert [svi.step_size(t, 1.0, 0.9) for t in range(3)] == pytest.approx([1, 2**-0.9, 3**-0.9])
    assert svi.step_size(4, 10.0, 0.5) == pytest.approx(14**-0.5)


def test_start_deals_every_document_to_one_topic():
    counts = sample_corpus(50, 4, 30, seed=0).counts
    start = svi.start(counts, 7, 3, PRIORS, seed=5)
    np.testing.assert_array_equal(start.word_topic.sum(axis=1).A1, np.asarray(counts.sum(axis=0)).ravel())
    assert (start.topic_count > 0).all()


def test_start_with_more_topics_than_documents_leaves_no_topic_empty():
    counts = sample_corpus(3, 4, 30, seed=0).counts
    assert (svi.start(counts, 10, 3, PRIORS, seed=5).topic_count > 0).all()


def test_update_blends_old_and_new(world):
    state = world.topics
    statistics = Statistics(
        sparse.csr_matrix(np.ones((40, 6))), world.rng.normal(size=(6, 3)), np.eye(3), n_documents=5, n_steps=1
    )
    updated = svi.update(state, statistics, scale=4.0, step=0.25)
    new_embedding, new_cov = topics.optimal_embedding(statistics, state.document_cov, state.priors, scale=4.0)
    np.testing.assert_allclose(updated.embedding, 0.75 * state.embedding + 0.25 * new_embedding)
    np.testing.assert_allclose(updated.embedding_cov, 0.75 * state.embedding_cov + 0.25 * new_cov)
    np.testing.assert_allclose(updated.word_topic.toarray(), 0.75 * state.word_topic.toarray() + 0.25 * 4)
    expected = topics.optimal_document_cov(updated.embedding, updated.embedding_cov, state.priors)
    np.testing.assert_allclose(updated.document_cov, expected)
