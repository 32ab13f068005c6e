"""A given start: draws and counts that follow weights of words in topics."""

import numpy as np
from scipy import sparse

from asterism.model.start import SMOOTHING, draw_by_word, given_topics, replace_known

# Topic 1 is one that nothing is known of; no topic was given word 3; topics 0 and 2 weigh 4 in the mean.
WEIGHTS = np.array([[2.0, 1, 0, 0], [0, 0, 0, 0], [0, 2, 3, 0]])
REST = 4 / 4 * np.array([SMOOTHING, 1, SMOOTHING])


def test_draws_follow_the_weights_of_their_word():
    given = given_topics(sparse.csr_matrix(WEIGHTS))
    np.testing.assert_allclose(given.rest, REST)
    uniforms = (np.arange(10_000) + 0.5) / 10_000
    for word in range(4):
        drawn = np.bincount(draw_by_word(given, np.full(10_000, word), uniforms), minlength=3) / 10_000
        expected = WEIGHTS[:, word] + REST
        np.testing.assert_allclose(drawn, expected / expected.sum(), atol=2e-4)


def test_words_of_a_text_are_drawn_each_by_its_own_weights():
    given = given_topics(sparse.csr_matrix(WEIGHTS))
    words, uniforms = np.array([3, 0, 2, 1, 0]), np.array([0.5, 0.1, 0.1, 0.99, 0.0])
    alone = [draw_by_word(given, words[i : i + 1], uniforms[i : i + 1])[0] for i in range(5)]
    np.testing.assert_array_equal(draw_by_word(given, words, uniforms), alone)


def test_scale_does_not_matter_and_nothing_given_is_uniform():
    uniforms, words = np.linspace(0, 0.999, 50), np.arange(50) % 4
    small, large = (draw_by_word(given_topics(sparse.csr_matrix(c * WEIGHTS)), words, uniforms) for c in (1e-6, 1e6))
    np.testing.assert_array_equal(small, large)
    nothing = draw_by_word(given_topics(sparse.csr_matrix((3, 4))), words, uniforms)
    np.testing.assert_array_equal(nothing, (uniforms * 3).astype(int))


def test_known_topics_replace_a_random_starts_and_the_number_of_tokens_stays():
    start = sparse.csr_matrix(np.arange(12.0).reshape(4, 3))
    replaced = replace_known(start, given_topics(sparse.csr_matrix(WEIGHTS))).toarray()
    np.testing.assert_array_equal(replaced[:, 1], start.toarray()[:, 1])
    np.testing.assert_allclose(replaced[:, [0, 2]], WEIGHTS.T[:, [0, 2]] * start[:, [0, 2]].sum() / WEIGHTS.sum())
    nothing = replace_known(start, given_topics(sparse.csr_matrix((3, 4))))
    np.testing.assert_array_equal(nothing.toarray(), start.toarray())
