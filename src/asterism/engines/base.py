"""The protocol every engine follows; the training loop, estimator and evaluation know nothing else of it."""

from __future__ import annotations

from typing import Any, Protocol

from scipy import sparse

from ..model.lda import WordWeights
from ..model.memoized import Relaxed
from ..model.state import Batch, Documents, Floats, Ints, Statistics, Topics
from ..model.walks import Side


class Inferred(Protocol):
    """What any model infers of documents."""

    @property
    def weights(self) -> Floats:
        """Topic weights, whose softmax is a document's proportions [d, k]."""


class TopicEngine(Protocol):
    """What training and evaluation ask of an engine, whatever the model. Answers about a batch are pure functions of
    (topics, batch, seed, sweep), for any number of threads."""

    name: str

    def prepare(self, topics: Any) -> Any:
        """What this engine needs of the topics, in its own form; made once each time the topics change."""

    def statistics(self, prepared: Any, batch: Batch, seed: int, sweep: int) -> Any:
        """Infer the batch's documents, and sum up what that says about the topics; `n_steps` counts local rounds."""

    def infer(self, prepared: Any, batch: Batch) -> Inferred:
        """Documents under fixed topics; nothing random, each document on its own."""

    def log_likelihood(self, prepared: Any, weights: Floats, batch: Batch) -> Floats:
        """Σ_n log Σ_k softmax(weights)_k E[φ_k,w_n] of each document [d]."""


class Engine(TopicEngine, Protocol):
    """Of the topic embedding model."""

    def prepare(self, topics: Topics) -> Any: ...

    def statistics(self, prepared: Any, batch: Batch, seed: int, sweep: int) -> Statistics:
        """Draw the batch's tokens and infer its documents, and sum up what that says about the topics."""

    def draw_lda(self, words: WordWeights, batch: Batch, draws: Ints, alpha: Floats, seed: int, sweep: int) -> Floats:
        """New draws of the batch's tokens by plain LDA, in place of the last ones. Returns Σ log p(token | all other
        draws) of each document [d]."""

    def walk(self, side: Side, walks: Ints, inverse_total: Floats) -> Ints:
        """Visit every group of tokens of one side: walks.visit, in place. Returns how many tokens each topic has after
        it [k]."""

    def count(self, starts: Ints, order: Ints, topics: Ints, n_topics: int) -> sparse.csr_matrix:
        """How often groups of tokens have each topic [g, k]; tokens of group g are order[starts[g] : starts[g + 1]]."""

    def relax(
        self, prepared: Any, batch: Batch, draws: Ints | None, embedding: Floats, n_steps: int, seed: int, sweep: int
    ) -> Relaxed:
        """Go on with documents from their last draws and embeddings (which are overwritten) by some Newton steps: what
        memoized inference learns from a batch. Without draws, expected counts take their place."""

    def infer(self, prepared: Any, batch: Batch, with_cov: bool = False) -> Documents:
        """Embeddings and topic weights under fixed topics, and covariances of embeddings if they are asked for; nothing
        random, each document on its own."""

    def log_likelihood(self, prepared: Any, weights: Floats, batch: Batch) -> Floats:
        """Σ_n log Σ_k softmax(ξ_d)_k E[φ_k,w_n] of each document [d]."""
