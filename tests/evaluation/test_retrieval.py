"""Retrieval: rankings by hand, against scikit-learn, invariances, ties, odd input."""

import sys

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from asterism.errors import InputError
from asterism.evaluation import RECALL_LEVELS, retrieval
from asterism.evaluation.retrieval import _precisions


@pytest.fixture
def data():
    """Queries and documents of four labels, vaguely told by their vectors."""
    rng = np.random.default_rng(0)
    labels, wanted = rng.integers(0, 4, 130), rng.integers(0, 4, 40)
    around = rng.standard_normal((4, 5))
    return (
        around[wanted] + rng.standard_normal((40, 5)),
        wanted,
        around[labels] + rng.standard_normal((130, 5)),
        labels,
    )


def test_one_ranking_by_hand():
    """Ranked by similarity: relevant, not, relevant, not. Average precision (1 + 2/3) / 2."""
    result = retrieval([[1.0]], ["a"], [[4.0], [3.0], [2.0], [1.0]], ["a", "b", "a", "b"])
    assert result.mean_average_precision == pytest.approx((1 + 2 / 3) / 2)
    assert result.precision_at_10 == pytest.approx(2 / 4)
    expected = np.where(RECALL_LEVELS <= 0.5, 1, 2 / 3)
    np.testing.assert_allclose(result.precision_at_recall, expected)
    assert result.n_queries == 1


def test_queries_are_averaged():
    documents, labels = [[1.0, 0.0], [0.0, 1.0]], ["a", "b"]
    found_first, found_last = [1.0, 0.0], [0.0, 1.0]
    result = retrieval([found_first, found_last], ["a", "a"], documents, labels)
    assert result.mean_average_precision == pytest.approx((1 + 1 / 2) / 2)


def test_precision_at_10_looks_at_ten():
    labels = np.array(["a"] * 3 + ["b"] * 7 + ["a"] * 10)
    result = retrieval([[1.0]], ["a"], np.arange(20, 0, -1.0)[:, None], labels)
    assert result.precision_at_10 == pytest.approx(0.3)


def test_interpolation_takes_the_best_precision_from_there_on():
    """Relevant at ranks 3 and 4 of 4: precision 1/3 and 2/4."""
    precisions = _precisions(np.array([2, 3]), 4)
    np.testing.assert_allclose(precisions[2:], 0.5)


@pytest.mark.parametrize("n", [1, 3, 20, 100, 565])
def test_recall_levels_fall_on_the_right_document(n):
    ranks = np.arange(n) * 2  # precision falls with every document found
    precision = np.arange(1, n + 1) / (ranks + 1)
    needed = [max(1, -(-level * n // 20)) for level in range(21)]
    np.testing.assert_allclose(_precisions(ranks, 5 * n)[2:], precision[np.array(needed) - 1])


def test_mean_average_precision_is_scikit_learns(data):
    queries, wanted, documents, labels = data
    theirs = [
        average_precision_score(labels == label, documents @ query)
        for query, label in zip(queries, wanted, strict=True)
    ]
    assert retrieval(*data).mean_average_precision == pytest.approx(np.mean(theirs))


def test_perfect_and_hopeless_rankings():
    labels = np.repeat([0, 1], 15)
    vectors = np.where(labels == 0, 1.0, -1.0)[:, None]
    perfect = retrieval(vectors, labels, vectors, labels)
    assert perfect[:2] == (1, 1)
    np.testing.assert_array_equal(perfect.precision_at_recall, 1)
    assert retrieval(-vectors, labels, vectors, labels).precision_at_10 == 0


def same(one, other):
    assert one.mean_average_precision == pytest.approx(other.mean_average_precision)
    assert one.precision_at_10 == pytest.approx(other.precision_at_10)
    np.testing.assert_allclose(one.precision_at_recall, other.precision_at_recall)
    assert one.n_queries == other.n_queries


def test_order_of_documents_and_queries_does_not_matter(data):
    queries, wanted, documents, labels = data
    same(retrieval(queries[::-1], wanted[::-1], documents[::-1], labels[::-1]), retrieval(*data))


def test_names_of_labels_do_not_matter(data):
    queries, wanted, documents, labels = data
    names = np.array(["rose", "lily", "oak", "fern"])
    same(retrieval(queries, names[wanted], documents, names[labels]), retrieval(*data))


def test_blocks_do_not_matter(data, monkeypatch):
    whole = retrieval(*data)
    module = sys.modules["asterism.evaluation.retrieval"]  # in the package the name is the function's
    monkeypatch.setattr(module, "SCORES_A_BLOCK", 300)
    same(retrieval(*data), whole)


def test_cosine_does_not_see_lengths(data):
    queries, wanted, documents, labels = data
    lengths = np.random.default_rng(1).uniform(0.1, 10, (130, 1))
    stretched = queries, wanted, documents * lengths, labels
    same(retrieval(*stretched, similarity="cosine"), retrieval(*data, similarity="cosine"))
    assert retrieval(*stretched).mean_average_precision != pytest.approx(retrieval(*data).mean_average_precision)


def test_a_function_as_similarity(data):
    same(retrieval(*data, similarity=lambda queries, documents: 2 * queries @ documents.T + 1), retrieval(*data))
    distance = retrieval(*data, similarity=lambda q, d: -np.linalg.norm(q[:, None] - d, axis=2))
    assert 0 < distance.mean_average_precision < 1


def test_ties_are_broken_without_regard_to_labels_and_always_alike():
    """Documents sorted by label, all alike: the first label must not win."""
    labels = np.repeat(np.arange(4), 250)
    nothing = np.zeros((4, 3)), np.arange(4), np.zeros((1000, 3)), labels
    for similarity in ("inner", "cosine"):
        result = retrieval(*nothing, similarity=similarity)
        assert result.mean_average_precision == pytest.approx(0.25, abs=0.03)
        assert repr(result) == repr(retrieval(*nothing, similarity=similarity))


def test_queries_with_nothing_to_find_are_left_out(data):
    queries, wanted, documents, labels = data
    more = np.concatenate([queries, queries[:3]]), np.concatenate([wanted, [9, 9, 9]]), documents, labels
    same(retrieval(*more), retrieval(*data))
    nothing = retrieval(queries, np.full(40, 9), documents, labels)
    assert np.isnan(nothing[:2]).all()
    assert np.isnan(nothing.precision_at_recall).all()
    assert nothing.n_queries == 0


def test_no_documents_and_no_queries(data):
    queries, wanted, documents, labels = data
    assert np.isnan(retrieval(queries, wanted, documents[:0], labels[:0]).mean_average_precision)
    assert np.isnan(retrieval(queries[:0], wanted[:0], documents, labels).mean_average_precision)


def test_single_precision_and_lists_are_fine(data):
    queries, wanted, documents, labels = data
    lists = [values.tolist() for values in data]
    same(retrieval(*lists), retrieval(*data))
    single = retrieval(queries.astype(np.float32), wanted, documents.astype(np.float32), labels)
    assert single.mean_average_precision == pytest.approx(retrieval(*data).mean_average_precision, abs=1e-3)


def test_bad_input_is_refused(data):
    queries, wanted, documents, labels = data
    with pytest.raises(InputError, match='"inner", "cosine"'):
        retrieval(*data, similarity="hellinger")
    with pytest.raises(InputError, match="dimensions"):
        retrieval(queries[:, :2], wanted, documents, labels)
    with pytest.raises(InputError, match="query_vectors"):
        retrieval(queries, wanted[:-1], documents, labels)
    with pytest.raises(InputError, match="document_vectors hold nan"):
        retrieval(queries, wanted, np.full_like(documents, np.nan), labels)
    with pytest.raises(InputError, match="every query and document"):
        retrieval(*data, similarity=lambda some, _: some)
