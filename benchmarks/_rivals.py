"""Rival topic models behind one contract: counts in, topic proportions and topic-word probabilities out.

Every rival gets the same counts, as bags of column numbers, so its topic-word probabilities can be put back into our
columns. Documents without words are not shown to it. A word that it dropped would get `FLOOR`; none of them drops any
here, since every column occurs in the training documents. Topic-word probabilities are each library's own posterior
mean, with the smoothing it was trained with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Floats = NDArray[np.floating[Any]]
Counts = sparse.csr_matrix

FLOOR = 1e-12
GIBBS_SWEEPS = 1000
# One state of a sampler is a noisy estimate of a document's topics: averaging 20 chains lowers LDA's completion
# perplexity by 6 %, and 20 more by another two thousandths. tomotopy's `infer` draws the same numbers at every call, so
# chains differ only where documents share a call and come in another order. A hundred short documents among eleven
# thousand change the topics too little to matter, and one copy of the topics serves them all.
INFERENCE_CHAINS, INFERENCE_SWEEPS, TOGETHER = 20, 30, 100
CTM_CHAINS = 5  # 20 would take an hour a seed, twice as long as its training
# Small batches serve scikit-learn badly on short documents: at 100 topics 128 documents (its default), 512 and 2,048
# gave 1880, 1609 and 1500 on part of the test set; the tenth and twentieth pass differ by less than a hundredth.
ONLINE_PASSES, ONLINE_BATCH = 20, 2048


class Rival(NamedTuple):
    """A trained model: what it says of documents with words, and of words."""

    proportions: Callable[[Counts], Floats]  # [d, k]
    topic_word: Floats  # [k, v], rows sum to 1


def tomotopy_lda(counts: Counts, n_topics: int, seed: int, n_threads: int) -> Rival:
    """Collapsed Gibbs sampling; the library's defaults, which optimise alpha every 10 sweeps."""
    import tomotopy

    return _tomotopy(tomotopy.LDAModel(k=n_topics, seed=seed), counts, n_threads)


def tomotopy_ctm(counts: Counts, n_topics: int, seed: int, n_threads: int) -> Rival:
    """Gibbs sampling of the correlated topic model; the library's defaults."""
    import tomotopy

    return _tomotopy(tomotopy.CTModel(k=n_topics, seed=seed), counts, n_threads, CTM_CHAINS)


def _tomotopy(model: Any, counts: Counts, n_threads: int, n_chains: int = INFERENCE_CHAINS) -> Rival:
    add_documents(model, counts)
    model.train(GIBBS_SWEEPS, workers=n_threads)
    return of_tomotopy(model, counts.shape[1], n_threads, n_chains)


def add_documents(model: Any, counts: Counts) -> None:
    for words in bags(counts):
        model.add_doc(words)


def of_tomotopy(model: Any, n_words: int, n_threads: int, n_chains: int = INFERENCE_CHAINS) -> Rival:
    """What a model of tomotopy's says, as far as it has been trained."""

    def chain(documents: Counts, number: int) -> Floats:
        order = np.random.default_rng(number).permutation(documents.shape[0])
        result = np.empty((len(order), model.k))
        for rows in np.array_split(order, -(-len(order) // TOGETHER)):
            made = [model.make_doc(words) for words in bags(documents[rows])]
            result[rows] = model.infer(made, iterations=INFERENCE_SWEEPS, workers=n_threads, together=True)[0]
        return result

    def proportions(documents: Counts) -> Floats:
        return sum(chain(documents, number) for number in range(n_chains)) / n_chains

    topic_word = np.array([model.get_topic_word_dist(k) for k in range(model.k)])
    return Rival(proportions, _in_our_columns(topic_word, model.used_vocabs, n_words))


def topica_ctm(counts: Counts, n_topics: int, seed: int, n_threads: int) -> Rival:
    """Variational EM with a full covariance, to the library's own convergence."""
    import topica

    model = topica.CTM(n_topics, seed=seed)
    # The covariances of documents are of no use here and would take D K² numbers.
    model.fit(list(bags(counts)), keep_eta_cov=False, num_threads=n_threads)
    topic_word = _in_our_columns(np.asarray(model.topic_word), model.vocabulary, counts.shape[1])
    return Rival(lambda documents: np.asarray(model.transform(list(bags(documents)))), topic_word)


def sklearn_lda(counts: Counts, n_topics: int, seed: int, n_threads: int) -> Rival:
    """Online variational Bayes, until perplexity moves no more."""
    from sklearn.decomposition import LatentDirichletAllocation

    model = LatentDirichletAllocation(
        n_topics,
        learning_method="online",
        max_iter=ONLINE_PASSES,
        batch_size=ONLINE_BATCH,
        n_jobs=n_threads,
        random_state=seed,
    ).fit(counts)
    return Rival(model.transform, model.components_ / model.components_.sum(axis=1, keepdims=True))


RIVALS: dict[str, Callable[[Counts, int, int, int], Rival]] = {
    "topica-ctm": topica_ctm,
    "tomotopy-lda": tomotopy_lda,
    "sklearn-lda": sklearn_lda,
    "tomotopy-ctm": tomotopy_ctm,
}


def bags(counts: Counts) -> Iterator[list[str]]:
    """Each document as a list of its tokens' column numbers, written out."""
    names = np.arange(counts.shape[1]).astype(str)
    for d in range(counts.shape[0]):
        entries = slice(counts.indptr[d], counts.indptr[d + 1])
        yield np.repeat(names[counts.indices[entries]], counts.data[entries]).tolist()


def _in_our_columns(topic_word: Floats, names: Sequence[str], n_words: int) -> Floats:
    """Columns named by their number put where they belong; rows sum to 1."""
    placed = np.full((len(topic_word), n_words), FLOOR)
    placed[:, [int(name) for name in names]] = np.maximum(topic_word, FLOOR)
    return placed / placed.sum(axis=1, keepdims=True)
