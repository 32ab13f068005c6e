"""Walks of tokens: see model/walks.py."""

import numpy as np

from asterism.model import random
from asterism.model.alias import AliasTable
from asterism.model.walks import visit


def test_a_visit_refuses_what_it_finds_impossible_and_takes_what_it_finds_certain():
    prior = np.array([1e-9, 1e-9, 1e-9])
    # Of four tokens three have topic 0, one has topic 1: for each token, the others decide.
    walks = np.array([[0, 1], [0, 2], [0, 0], [1, 0]])
    after = visit(walks, prior, AliasTable.of(prior), np.ones(3), random.stream(1))
    np.testing.assert_array_equal(after[[1, 2, 3], 0], [0, 0, 0])
    np.testing.assert_array_equal(after[:, 0] == 1, [after[0, 0] == 1, False, False, False])


def test_proposals_come_from_the_other_tokens_or_the_prior():
    prior = np.array([0.5, 3.0, 0.0, 0.5])
    walks = np.zeros((5, 4001), dtype=np.int64)
    after = visit(walks, prior, AliasTable.of(prior), np.ones(4), random.stream(2))
    shares = np.bincount(after[0, 1:], minlength=4) / 4000
    np.testing.assert_allclose(shares, np.array([4.5, 3, 0, 0.5]) / 8, atol=0.03)


def test_visits_in_turn_leave_the_conditional_as_it_is():
    """One token among others that stay: its topics follow the product of both sides' factors."""
    document, word = np.array([3.0, 1.0, 0.0]), np.array([1.0, 2.0, 5.0])  # counts of the others
    alpha, beta, inverse_total = np.full(3, 0.5), np.full(3, 0.2), np.array([1.0, 0.5, 0.25])
    sides = [
        (np.repeat(np.arange(3), counts.astype(int)), prior) for counts, prior in ((document, alpha), (word, beta))
    ]
    token, seen = np.array([0, 0, 0]), []
    for step in range(6000):
        others, prior = sides[step % 2]
        group = np.vstack([token, np.column_stack([others] * 3)])  # what the others propose is what they have
        token = visit(group, prior, AliasTable.of(prior), inverse_total, random.stream(3, step))[0]
        seen.append(token[0])
    expected = (document + alpha) * (word + beta) * inverse_total
    np.testing.assert_allclose(np.bincount(seen, minlength=3) / len(seen), expected / expected.sum(), atol=0.03)
