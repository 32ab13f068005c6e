"""Words of a document weighed down."""

import numpy as np
import pytest
from scipy import sparse, special

from asterism.model import joint
from asterism.model.evidence import ALL_WORDS, Evidence
from asterism.model.state import Batch, Documents, Priors, Topics

COUNTS = sparse.csr_matrix([[3, 0, 1, 0], [0, 0, 0, 0], [1, 1, 1, 100], [0, 5, 0, 0]])


def _weights(evidence, counts):
    batch = evidence.weigh(Batch.of(counts))
    matrix = sparse.csr_matrix((batch.counts * evidence.unit, batch.words, batch.indptr), counts.shape)
    return matrix.toarray()


def test_words_are_weighed_by_the_formula():
    logs = np.where(COUNTS.toarray() > 0, 1 + np.log(np.maximum(COUNTS.toarray(), 1)), 0)
    expected = 8 * logs / (8 + logs.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(_weights(Evidence(8.0), COUNTS), expected, atol=1e-6)


@pytest.mark.parametrize("most_words", [1e-6, 0.5, 8.0, 1e6])
def test_a_document_counts_for_no_more_than_its_most(most_words):
    """However long it is; and no word is lost."""
    weights = _weights(Evidence(most_words), sparse.csr_matrix(np.full((2, 100_000), 2**31 - 1)))
    assert (weights > 0).all()
    assert (weights.sum(axis=1) <= 1.001 * most_words).all()


def test_a_document_is_weighed_alike_among_others():
    counts = sparse.random(50, 40, 0.3, format="csr", random_state=0)
    counts.data = np.ceil(9 * counts.data)
    together = Evidence(3.0).weigh(Batch.of(counts))
    for d in range(50):
        alone = Evidence(3.0).weigh(Batch.of(counts[[d]]))
        np.testing.assert_array_equal(alone.counts, together[d : d + 1].counts)


def test_all_words_are_left_as_they_are():
    batch = Batch.of(COUNTS)
    assert ALL_WORDS.weigh(batch) is batch
    assert ALL_WORDS.unit == 1


def test_counts_and_topics_in_units_have_the_optimum_and_width_of_words():
    rng = np.random.default_rng(0)
    nothing = np.zeros((3, 3))
    topics = Topics(
        rng.normal(size=(6, 3)), nothing, nothing, rng.normal(size=6), sparse.csr_matrix((4, 6)), Priors(1, 0.3, 2, 1)
    )
    evidence = Evidence(8.0)
    embedding, weights, counts = rng.normal(size=3), rng.normal(size=6), rng.random(6)
    in_units = joint.objective(embedding, weights, counts / evidence.unit, evidence.in_units(topics))
    assert evidence.unit * in_units == pytest.approx(joint.objective(embedding, weights, counts, topics))

    theta = special.softmax(weights)
    in_units, whole = evidence.in_units(topics), counts.sum()
    cov = joint.posterior_cov(theta * whole / evidence.unit / in_units.priors.tau, in_units)
    in_words = evidence.in_words(Documents(embedding, weights, cov)).cov
    np.testing.assert_allclose(in_words, joint.posterior_cov(theta * whole / topics.priors.tau, topics))
