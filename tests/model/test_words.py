"""The words of topics: expectations, and which pairs are kept for drawing."""

import numpy as np
import pytest
from scipy import sparse, special

from asterism.model import words
from asterism.model.state import count_draws


def test_kept_pairs_are_the_topics_top_words_and_the_words_top_topics():
    word_topic = sparse.csr_matrix(np.array([[9.0, 1, 0], [8, 2, 0], [7, 3, 1], [0, 4, 2]]))
    kept = words.kept_for_drawing(word_topic, words_per_topic=2, topics_per_word=1)
    matrix = word_topic.copy()
    matrix.data = kept.astype(float)
    expected = [[1, 0, 0], [1, 0, 0], [1, 1, 1], [0, 1, 1]]  # row 2 keeps its top topic 0 beyond V_s
    np.testing.assert_array_equal(matrix.toarray(), expected)


def test_every_word_that_was_counted_keeps_its_topics():
    rng = np.random.default_rng(0)
    word_topic = sparse.random_array((50, 20), density=0.3, rng=rng, format="csr")
    kept = words.kept_for_drawing(sparse.csr_matrix(word_topic), 1, 3)
    per_word = np.add.reduceat(kept, word_topic.indptr[:-1])
    counted = np.diff(word_topic.indptr)
    assert (per_word[counted > 0] >= np.minimum(3, counted[counted > 0])).all()


def test_draw_table_holds_the_exponentials_of_expected_logs(world):
    state = world.topics
    concentration = state.word_topic.toarray() + state.priors.beta
    expected = np.exp(special.psi(concentration) - special.psi(concentration.sum(axis=0)))
    table = world.table
    for word in range(40):
        own = slice(table.indptr[word], table.indptr[word + 1])
        np.testing.assert_allclose(table.weights[own], expected[word, table.topics[own]])
    unseen = np.exp(special.psi(state.priors.beta) - special.psi(concentration.sum(axis=0)))
    np.testing.assert_allclose(table.rest, unseen)


def test_word_probabilities_are_distributions(world):
    np.testing.assert_allclose(words.word_probabilities(world.topics).sum(axis=1), 1)


def test_likelihood_is_that_of_the_mixture(world):
    weights = world.weights[0]
    mixture = special.softmax(weights) @ words.word_probabilities(world.topics)
    value = words.log_likelihood(world.topics, weights, np.array([3, 5]), np.array([2, 1]))
    assert value == pytest.approx(2 * np.log(mixture[3]) + np.log(mixture[5]))


def test_counted_draws_hold_every_token_once():
    rng = np.random.default_rng(0)
    drawn_words, topics = rng.integers(0, 7, 500), rng.integers(0, 5, 500)
    counts = count_draws(drawn_words, topics, 9, 5)
    expected = np.zeros((9, 5), dtype=int)
    np.add.at(expected, (drawn_words, topics), 1)
    np.testing.assert_array_equal(counts.toarray(), expected)
