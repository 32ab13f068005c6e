"""Drawn corpora have the structure that was planted."""

import numpy as np
import pytest

from asterism import sample_corpus


@pytest.fixture(scope="module")
def corpus():
    return sample_corpus(3000, 4, 30, 2, mean_length=200, tau=4.0, seed=1)


def test_shapes_and_lengths(corpus):
    assert corpus.counts.shape == (3000, 30)
    assert corpus.counts.dtype == np.int32
    assert corpus.counts.sum() / 3000 == pytest.approx(200, rel=0.02)
    np.testing.assert_allclose(corpus.proportions.sum(axis=1), 1)


def test_weights_have_the_planted_covariance(corpus):
    np.testing.assert_allclose(np.cov(corpus.weights.T), corpus.weight_cov, atol=0.25)
    np.testing.assert_allclose(np.corrcoef(corpus.weights.T), corpus.weight_correlation, atol=0.06)


def test_words_follow_proportions_and_topics(corpus):
    expected = corpus.proportions.mean(axis=0) @ corpus.topic_word
    observed = np.asarray(corpus.counts.sum(axis=0)).ravel() / corpus.counts.sum()
    np.testing.assert_allclose(observed, expected, atol=0.01)


def test_what_is_given_is_planted_and_seeds_matter():
    embedding, words = np.eye(3), np.full((3, 5), 0.2)
    drawn = sample_corpus(10, 3, 5, topic_embedding=embedding, topic_word=words, seed=2)
    assert drawn.topic_embedding is embedding
    assert drawn.topic_word is words
    again = sample_corpus(10, 3, 5, topic_embedding=embedding, topic_word=words, seed=2)
    other = sample_corpus(10, 3, 5, topic_embedding=embedding, topic_word=words, seed=3)
    assert (drawn.counts != again.counts).nnz == 0
    assert (drawn.counts != other.counts).nnz > 0
