"""Document completion: the split, and the score that is built on it."""

import numpy as np
import pytest
from scipy import sparse

from asterism import sample_corpus
from asterism.engines import select_engine
from asterism.evaluation.completion import Completion, completion_score, split_tokens
from asterism.model import svi
from asterism.model.state import LocalSettings, Priors


@pytest.fixture(scope="module")
def counts():
    return sample_corpus(60, 4, 50, mean_length=21, seed=1).counts


def test_halves_add_up_to_the_documents(counts):
    observed, scored = split_tokens(counts)
    assert abs(observed + scored - counts).sum() == 0
    lengths = np.asarray(counts.sum(axis=1)).ravel()
    np.testing.assert_array_equal(np.asarray(scored.sum(axis=1)).ravel(), lengths // 2)


def test_a_documents_split_does_not_depend_on_its_company(counts):
    together, alone = split_tokens(counts), split_tokens(counts[17])
    assert abs(together.observed[17] - alone.observed).sum() == 0


def test_the_split_is_not_by_column(counts):
    """Low and high columns are as likely to be scored."""
    _, scored = split_tokens(counts)
    low, high = scored[:, :25].sum() / counts[:, :25].sum(), scored[:, 25:].sum() / counts[:, 25:].sum()
    assert abs(low - high) < 0.1


def test_short_documents():
    matrix = sparse.csr_matrix(np.array([[0, 0], [1, 0], [1, 1]], dtype=np.int32))
    halves = split_tokens(matrix)
    np.testing.assert_array_equal(halves.scored.sum(axis=1).A1, [0, 0, 1])


def test_score_is_the_mean_log_likelihood_of_scored_tokens(counts):
    topics = svi.start(counts, 4, 2, Priors(0.1, 0.1, 1.0, 0.25), seed=0)
    engine = select_engine("cpu", LocalSettings(4, 50, 4))
    prepared, halves = engine.prepare(topics), split_tokens(counts)
    whole = completion_score(engine, prepared, halves)
    parts = [Completion(halves.observed[rows], halves.scored[rows]) for rows in (slice(0, 20), slice(20, 60))]
    total = sum(completion_score(engine, prepared, part) * part.n_scored for part in parts)
    assert whole == pytest.approx(total / halves.n_scored)
    assert -np.log(50) * 2 < whole < 0


def test_nothing_to_score_is_not_a_number():
    topics = svi.start(sparse.csr_matrix(np.eye(3, dtype=np.int32)), 2, 2, Priors(0.1, 0.1, 1.0, 0.25), seed=0)
    engine = select_engine("cpu", LocalSettings(4, 50, 4))
    halves = split_tokens(sparse.csr_matrix(np.eye(3, dtype=np.int32)))
    assert np.isnan(completion_score(engine, engine.prepare(topics), halves))
