"""Overlap of topics by hand, and where there is nothing to overlap."""

import numpy as np
import pytest
from scipy import sparse

from asterism.evaluation import overlap, topic_overlap

TOPICS = np.array([[1, 1, 0, 0], [9, 0, 0, 0], [0, 0, 1, 3], [5, 5, 0, 0]])


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix, sparse.coo_matrix])
@pytest.mark.parametrize("at_once", [1, 3, 500])
def test_by_hand(kind, at_once, monkeypatch):
    monkeypatch.setattr(overlap, "TOPICS_AT_ONCE", at_once)
    found = topic_overlap(kind(TOPICS))
    np.testing.assert_array_equal(found.topic[[0, 1, 3]], [3, 0, 0])
    np.testing.assert_allclose(found.value, [1, np.sqrt(0.5), 0, 1], atol=1e-12)


def test_it_does_not_depend_on_how_often_a_topic_is_drawn():
    scaled = topic_overlap(TOPICS * np.array([[1], [2], [3], [100]]))
    np.testing.assert_allclose(scaled.value, topic_overlap(TOPICS).value)


def test_topics_without_words_overlap_with_none():
    found = topic_overlap(np.vstack([TOPICS[:2], np.zeros((2, 4))]))
    np.testing.assert_allclose(found.value, [np.sqrt(0.5), np.sqrt(0.5), 0, 0])
    assert np.isfinite(found.value).all()


def test_a_single_topic_has_no_other():
    assert topic_overlap(TOPICS[:1]).value.tolist() == [0]
