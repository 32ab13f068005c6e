"""Are there two topics that say the same?"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

TOPICS_AT_ONCE = 500


class Overlap(NamedTuple):
    """For each topic the one that is most like it by words."""

    topic: NDArray[np.int64]  # [k]
    value: NDArray[np.float64]  # [k]


def topic_overlap(topic_word: Any) -> Overlap:
    """The topic with the most similar words and the two distributions' overlap Σ_v √(φ_kv φ_lv), the Bhattacharyya
    coefficient: 1 for the same words with the same probabilities, 0 for no word in common.

    `topic_word` [k, v], sparse or an array, are counts or probabilities. A topic without words overlaps with none.
    """
    words = sparse.csr_matrix(topic_word, dtype=np.float64, copy=True)
    total = np.asarray(words.sum(axis=1)).ravel()
    words.data = np.sqrt(words.data / np.repeat(total, np.diff(words.indptr)))
    n_topics, by_word = words.shape[0], words.T.tocsr()
    topic, value = np.zeros(n_topics, dtype=np.int64), np.zeros(n_topics)
    for first in range(0, n_topics, TOPICS_AT_ONCE):
        common = (words[first : first + TOPICS_AT_ONCE] @ by_word).toarray()
        row = np.arange(len(common))
        common[row, first + row] = -1.0
        topic[first + row] = common.argmax(axis=1)
        value[first + row] = np.maximum(common.max(axis=1), 0.0)
    return Overlap(topic, value)
