"""The protocol every engine follows; the training loop, estimator and evaluation know nothing else of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from scipy import sparse

from ..model.lda import WordWeights
from ..model.memoized import Expansion, Relaxed
from ..model.random import Streams
from ..model.start import GivenTopics
from ..model.state import Batch, Documents, Floats, Ints, Priors, Statistics, Topics
from ..model.walks import Side


class Memory(Protocol):
    """What a learner remembers of documents and tokens, in the engine's own arrays: it slices them and gives them back.
    memory.py has them in NumPy."""

    def corpus(self, counts: sparse.csr_matrix, order: Ints) -> Batch:
        """Documents in this order, held."""

    def no_embeddings(self, n_documents: int, n_dims: int) -> Floats:
        """Zeros [d, m]."""

    def move(self, embedding: Floats, expansion: Expansion) -> None:
        """embedding[:] = expansion(embedding)."""

    def first_draws(self, batch: Batch, n_topics: int, given: GivenTopics | None, seed: int, trial: int) -> Ints:
        """Any topic for any token, or by the words of the given topics."""

    def joined(self, arrays: Sequence[Ints]) -> Ints:
        """One after the other."""

    def copy(self, array: Ints) -> Ints: ...

    def copies(self, draws: Ints, n: int) -> Ints:
        """Each token's topic so many times [token, n]."""

    def tokens_by_document(self, batch: Batch) -> tuple[Ints, Ints]:
        """Starts and order of `walks.Side`."""

    def tokens_by_word(self, batch: Batch) -> tuple[Ints, Ints]:
        """Starts and order of `walks.Side`; a word's tokens are in the order of documents."""

    def streams(self, groups: Ints, *key: int) -> Streams:
        """random.stream(*key, groups)."""

    def count_words(self, batch: Batch, draws: Ints, n_topics: int) -> sparse.csr_matrix:
        """How often each word was drawn as each topic [v, k]."""

    def exchange(self, word_topic: sparse.csr_matrix, batch: Batch, old: Ints, new: Ints) -> sparse.csr_matrix:
        """Counts with a batch's old draws taken out and its new ones put in."""

    def renewed(self, batch: Batch, draws: Ints, word_topic: sparse.csr_matrix, seed: int) -> Ints:
        """The batch's draws, whose counts are word_topic, with topics renewed (model/renewal.py)."""

    def dense_counts(self, word_topic: sparse.csr_matrix) -> Ints | None:
        """As a NumPy array that LDA keeps up to date by itself, where that pays."""

    def every_pair(self, topics: Topics) -> WordWeights:
        """For draw_lda, of all pairs that were counted."""

    def given(self, word_topic: sparse.csr_matrix) -> GivenTopics:
        """start.given_topics of counts [v, k]."""

    def in_tokens(self, word_topic: sparse.csr_matrix, expected: Ints) -> sparse.csr_matrix:
        """Expected counts, which are in units, in place of the counts."""

    def with_every_pair(self, word_topic: sparse.csr_matrix) -> sparse.csr_matrix:
        """The same counts with every pair listed, zeros too, where that is not too many: expectations then weigh every
        topic for every word, and drop by themselves what comes to nothing."""

    def optimal_alpha(self, document_topic: sparse.csr_matrix, alpha: Floats) -> Floats:
        """lda.optimal_alpha."""

    def optimal_concentration(self, topics: Topics) -> float:
        """words.optimal_concentration."""

    def embed_topics(
        self, document_topic: sparse.csr_matrix, n_dims: int, priors: Priors, seed: int
    ) -> tuple[Floats, Floats]:
        """cooccurrence.embed_topics."""

    def fetch(self, topics: Topics) -> Topics:
        """Topics with their counts as a scipy matrix."""


class Inferred(Protocol):
    """What any model infers of documents."""

    @property
    def weights(self) -> Floats:
        """Topic weights, whose softmax is a document's proportions, those of its tokens to come [d, k]."""


class TopicEngine(Protocol):
    """What training and evaluation ask of an engine, whatever the model. Answers about a batch are pure functions of
    (topics, batch, seed, sweep), for any number of threads."""

    name: str

    def hold(self, batch: Batch) -> Batch:
        """The batch where the engine computes. What methods return of a held batch is held, too."""

    def prepare(self, topics: Any) -> Any:
        """What this engine needs of the topics, in its own form; made once each time the topics change."""

    def statistics(self, prepared: Any, batch: Batch, seed: int, sweep: int) -> Any:
        """Infer the batch's documents, and sum up what that says about the topics; `n_steps` counts local rounds."""

    def infer(self, prepared: Any, batch: Batch) -> Inferred:
        """Documents under fixed topics; nothing random, each document on its own."""

    def log_likelihood(self, prepared: Any, weights: Floats, batch: Batch) -> Floats:
        """Σ_n log Σ_k softmax(weights)_k E[φ_k,w_n] of each document [d]."""


class Engine(Memory, TopicEngine, Protocol):
    """Of the topic embedding model."""

    def prepare(self, topics: Topics, whole: bool = False) -> Any:
        """See above; `whole`, with all pairs of word and topic, however few are kept for drawing. Expected counts are
        aligned with these."""

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

    def redraw(
        self, prepared: Any, batch: Batch, draws: Ints, embedding: Floats, n_steps: int, seed: int, sweep: int
    ) -> None:
        """Some Newton steps of each document for its last draws, then new draws of its tokens, each given all others.
        Draws and embeddings are overwritten."""

    def relax(
        self, prepared: Any, batch: Batch, embedding: Floats, n_steps: int, sweep: int, is_counted: bool = True
    ) -> Relaxed:
        """Some Newton steps of each document for expected counts, from its last embedding, which is overwritten: what
        memoized inference learns from a batch. `is_counted`: whether the topics have counted these tokens."""

    def infer(self, prepared: Any, batch: Batch, with_cov: bool = False) -> Documents:
        """Embeddings and topic weights under fixed topics, and covariances of embeddings if they are asked for; nothing
        random, each document on its own."""

    def log_likelihood(self, prepared: Any, weights: Floats, batch: Batch) -> Floats:
        """Σ_n log Σ_k softmax(ξ_d)_k E[φ_k,w_n] of each document [d]."""
