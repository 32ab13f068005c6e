"""TopicEmbeddingModel: a scikit-learn transformer. It stores, validates, delegates; the formulas are elsewhere."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar, Literal, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from .corpus.text import TextPipeline
from .engines import Engine, select_engine
from .inference.base import Learner
from .inference.memoized import MemoizedLearner, MemoizedSettings, unknown_topics
from .inference.svi import SviLearner, Update
from .model import similarity, svi
from .model.evidence import ALL_WORDS, Evidence
from .model.neighbours import Neighbours, correlation_graph, correlation_vectors, nearest_topics
from .model.start import GivenTopics, given_topics
from .model.state import Batch, Documents, Floats, LocalSettings, Priors, Topics
from .parameters import check_evidence, check_whole, given_weights
from .planning import Size, memory_needed
from .topic_model import StreamedTopicModel, batches_of

logger = logging.getLogger(__name__)

USUAL_TAU, USUAL_BETA = 1.0, 0.01
USUAL_EVIDENCE = 8.0
USUAL_WORDS_PER_TOPIC, USUAL_TOPICS_PER_WORD = 100, 10


class CorrelatedTopic(NamedTuple):
    topic: int
    correlation: float


class TopicEmbeddingModel(StreamedTopicModel):
    """Correlated topics: every topic and every document gets a vector in one space.

    Input `X` is any of: raw texts (a list, Series or array of strings), lists of tokens, or counts of words
    [documents, words] as a scipy sparse matrix, array or DataFrame. `y` is ignored everywhere.

    Parameters
    ----------
    n_topics : number of topics K, at least 2.
    n_dims : dimension M of the vectors.
    inference : "memoized", which remembers every document's last contribution and needs no step size
        (docs/inference.md), or "svi", stochastic variational inference as in the paper. `partial_fit` is always
        stochastic.
    init : where training begins: "lda" (memoized inference: sweeps of plain LDA from random draws; "svi" starts at
        random), "random" (no such sweeps), or topics to begin with, which keep their numbers: weights of words
        [n_topics, n_words], 0 or more, dense or sparse, or a fitted model over the same words. A topic without a
        weight is one that nothing is known of.
    warm_start : whether `fit` goes on from what the model has learned, with documents over the same words, instead of
        beginning anew; `max_sweeps` are then further ones.
    warm_sweeps, draw_sweeps : of memoized inference: most sweeps of plain LDA before the first sweep that counts
        (it ends where its predictions settle), and sweeps with draws before expected counts take over.
    sampler : how those sweeps of LDA draw a token's topic: "sparse" from all topics that its word or its document has,
        "alias" by a few proposals, at the same cost for any number of topics; "auto" is "alias" beyond 256 topics.
    engine : "auto" (a GPU where PyTorch sees one, else the CPU), "cpu" (compiled, all cores), "gpu" (PyTorch and
        Triton) or "reference" (NumPy, slow).
    n_threads : threads; None is one a core. The result does not depend on it.
    max_sweeps, tol, evaluate_every : training ends after `max_sweeps` passes over the documents, or when the
        held-out log-likelihood per token changes by less than `tol` between evaluations, one every
        `evaluate_every` sweeps, or has not improved in three of them. The best state is kept.
    validation_fraction : share of the documents (at most 300) that is held out of `fit` for that; where it
        gives fewer than 20 documents none is held out and all `max_sweeps` are done.
    batch_size : documents a minibatch; memoized inference takes more where they are few for the corpus.
    alpha, rho, tau, beta : the model's priors (docs/notation.md). Of tau and beta None is, for memoized inference, what
        predicts held-out documents best, found from 1 and 0.01; for "svi" the paper's 1 and 1/n_topics.
    learn_alpha, learn_tau, learn_beta : whether memoized inference goes on from there to what makes the training
        documents likeliest; `state_.priors` holds what all priors become.
    evidence : how many words a document counts for, at most, in `transform` and `search_vectors` (docs/guide.md); it
        can be changed at any time. "all" counts every word, which is the model's own posterior; words come in bursts,
        so less makes vectors that classify better. None is 8, or for "svi" "all", as in the paper.
    topics_per_document, words_per_topic, topics_per_word : the paper's K_s, V_s and s, which bound the topics that a
        token can be drawn from: a document's heaviest, those that the word is frequent in, and the word's most
        frequent. Where V_s and s are both None there is no such bound on a word's topics; "svi" and a single one of
        them take 100 and 10 for None. Soft sweeps and the counts themselves are whole.
    candidates : for very many topics, of memoized inference: how many of the topics nearest to a document it looks at
        one by one, besides those of its words; all others enter in groups (docs/inference.md). None is all, the exact
        step.
    local_solver : of stochastic inference: "adagrad" finds a document's topic weights as in the paper, "newton" solves
        embedding and weights together for the tokens' last draws, ten times or `max_local_steps` if that is less.
    n_samples, local_rate, max_local_steps, local_tol : the paper's T, Adagrad's rate, and the end of a
        document's inner loop: after so many rounds or when its topic weights change less on average.
    step_offset, step_exponent : the step size of batch t = 0, 1, ... is (step_offset + t) ** -step_exponent.
    total_documents : size of the stream for `partial_fit`; None is what has been seen so far.
    vocabulary : the words of the columns where X are counts; a DataFrame's column names by default.
    text_pipeline : how texts become counts, a `TextPipeline`; None is its defaults.
    non_integer : "error", or "round" fractional counts to the nearest whole number.
    random_state : int, generator or None. With an int, results repeat to the last bit.
    verbose : show a progress bar on standard error.

    Attributes
    ----------
    topic_embeddings_ : vectors of the topics [n_topics, n_dims].
    topic_word_ : probabilities of words in topics, sparse [n_topics, n_words]; rows sum to 1. The prior's
        smoothing is left out here and added where likelihoods are computed.
    topic_shares_ : share of all tokens in each topic.
    vocabulary_ : the words, as they are to be shown.
    history_ : one dict a sweep: seconds, documents_per_second, heldout_score, ...
    n_sweeps_, converged_ : how training ended.
    text_pipeline_ : the fitted pipeline where the input were texts or tokens, else None.
    state_ : everything that is known of the topics (`asterism.model.state.Topics`).
    """

    state_: Topics
    _state_class: ClassVar[type] = Topics
    _kind: ClassVar[str] = "TopicEmbeddingModel"
    _sizes: ClassVar[tuple[str, ...]] = ("n_topics", "n_dims")

    def __init__(
        self,
        n_topics: int = 100,
        n_dims: int = 50,
        *,
        inference: str = "memoized",
        engine: str = "auto",
        n_threads: int | None = None,
        max_sweeps: int = 60,
        tol: float = 1e-4,
        evaluate_every: int = 1,
        init: Any = "lda",
        warm_start: bool = False,
        warm_sweeps: int = 2000,
        draw_sweeps: int = 32,
        sampler: str = "auto",
        validation_fraction: float = 0.05,
        batch_size: int = 512,
        alpha: float = 0.1,
        rho: float = 0.1,
        tau: float | None = None,
        beta: float | None = None,
        learn_alpha: bool = False,
        learn_tau: bool = False,
        learn_beta: bool = False,
        evidence: float | str | None = None,
        topics_per_document: int = 50,
        words_per_topic: int | None = None,
        topics_per_word: int | None = None,
        candidates: int | None = None,
        local_solver: str = "adagrad",
        n_samples: int = 1,
        local_rate: float = 0.5,
        max_local_steps: int = 50,
        local_tol: float = 0.1,
        step_offset: float = 1.0,
        step_exponent: float = 0.9,
        total_documents: int | None = None,
        vocabulary: Any = None,
        text_pipeline: TextPipeline | None = None,
        non_integer: str = "error",
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.n_topics = n_topics
        self.n_dims = n_dims
        self.inference = inference
        self.engine = engine
        self.n_threads = n_threads
        self.max_sweeps = max_sweeps
        self.tol = tol
        self.evaluate_every = evaluate_every
        self.init = init
        self.warm_start = warm_start
        self.warm_sweeps = warm_sweeps
        self.draw_sweeps = draw_sweeps
        self.sampler = sampler
        self.validation_fraction = validation_fraction
        self.batch_size = batch_size
        self.alpha = alpha
        self.rho = rho
        self.tau = tau
        self.beta = beta
        self.learn_alpha = learn_alpha
        self.learn_tau = learn_tau
        self.learn_beta = learn_beta
        self.evidence = evidence
        self.topics_per_document = topics_per_document
        self.words_per_topic = words_per_topic
        self.topics_per_word = topics_per_word
        self.candidates = candidates
        self.local_solver = local_solver
        self.n_samples = n_samples
        self.local_rate = local_rate
        self.max_local_steps = max_local_steps
        self.local_tol = local_tol
        self.step_offset = step_offset
        self.step_exponent = step_exponent
        self.total_documents = total_documents
        self.vocabulary = vocabulary
        self.text_pipeline = text_pipeline
        self.non_integer = non_integer
        self.random_state = random_state
        self.verbose = verbose

    # --- documents --------------------------------------------------------------------------------------------

    @overload
    def transform(self, X: Any, return_cov: Literal[False] = False) -> NDArray[np.float32]: ...

    @overload
    def transform(self, X: Any, return_cov: Literal[True]) -> tuple[NDArray[np.float32], NDArray[np.float32]]: ...

    def transform(self, X: Any, return_cov: bool = False) -> Any:
        """Document embeddings [n_documents, n_dims].

        Row i is document i. A document's vector does not depend on the others, and is the prior mean, zero,
        where the document is empty or has no known word. See `evidence` for how much its words count.

        With `return_cov`, embeddings and their posterior covariances [n_documents, n_dims, n_dims]: how sure each
        vector is. They shrink with a document's words, and are the prior's where there are none.
        """
        check_is_fitted(self)
        counts = self._counts(X)
        shape = counts.shape[0], self.state_.n_dims
        result = np.empty(shape, dtype=np.float32)
        covs = np.empty((*shape, shape[1]) if return_cov else 0, dtype=np.float32)
        for rows, documents in self._inferred(counts, self._evidence(), return_cov):
            result[rows] = documents.embedding
            if documents.cov is not None:
                covs[rows] = documents.cov
        return (result, covs) if return_cov else result

    def search_vectors(self, X: Any) -> NDArray[np.float32]:
        """Vectors for retrieval [n_documents, n_dims]: the larger their inner product, the more alike two documents.

        Embeddings with lengths and directions evened out: their own inner product favours long documents and the few
        directions in which documents differ most (docs/guide.md). Index them as they are.
        """
        return similarity.search_vectors(self.transform(X), self.state_).astype(np.float32)

    # --- topics -----------------------------------------------------------------------------------------------

    @property
    def topic_embeddings_(self) -> Floats:
        topics: Topics = self._topics()
        return topics.embedding

    def correlation(self, i: int, j: int) -> float:
        """Correlation of two topics' weights under the model's covariance U U'/rho + I/tau."""
        first, second = self._checked_topic(i), self._checked_topic(j)
        if first == second:
            return 1.0
        vectors = correlation_vectors(self.state_.embedding[[first, second]], self.state_.priors)
        return float(vectors[0] @ vectors[1])

    def correlated(self, topic: int, n: int = 10) -> list[CorrelatedTopic]:
        """The n topics that occur most with this one, strongest correlation first."""
        topic = self._checked_topic(topic)
        check_whole("n", n, 0)
        found = self._nearest_topics(np.array([topic]), n)
        return [CorrelatedTopic(int(k), float(c)) for k, c in zip(found.topics[0], found.correlation[0], strict=True)]

    def correlation_graph(self, n: int = 10, threshold: float = 0.0) -> sparse.csr_matrix:
        """Which topics occur together, as a sparse symmetric matrix [k, k] of correlations above the threshold: two
        topics have an entry if one is among the other's n most correlated."""
        check_whole("n", n, 1)
        return correlation_graph(self._nearest_topics(np.arange(self._topics().n_topics), n), threshold)

    def _nearest_topics(self, topics: NDArray[np.int64], n: int) -> Neighbours:
        vectors = correlation_vectors(self._topics().embedding, self.state_.priors)
        return nearest_topics(vectors, topics, min(n, self.state_.n_topics - 1))

    # --- inside -----------------------------------------------------------------------------------------------

    def _start(self, counts: sparse.csr_matrix) -> Topics:
        if self.n_dims > self.n_topics:
            logger.warning("n_dims=%d is more than n_topics=%d can use", self.n_dims, self.n_topics)
        given = self._given_topics(counts.shape[1])
        return svi.start(counts, self.n_topics, self.n_dims, self._priors(), self._seed, given)

    def _memory(self, counts: sparse.csr_matrix) -> tuple[Size, dict[str, int]]:
        size = Size.of(counts, self.n_topics, self.n_dims)
        return size, memory_needed(size, self.inference == "memoized", self._cores())

    def _inferred(
        self, counts: sparse.csr_matrix, evidence: Evidence = ALL_WORDS, with_cov: bool = False
    ) -> Iterator[tuple[slice, Documents]]:
        engine, prepared = self._engine_and_topics(evidence)
        for rows in batches_of(counts.shape[0]):
            yield rows, evidence.in_words(engine.infer(prepared, evidence.weigh(Batch.of(counts[rows])), with_cov))

    def _engine_and_topics(self, evidence: Evidence = ALL_WORDS) -> tuple[Any, Any]:
        return self._served(evidence.in_units(self.state_), evidence)

    def _evidence(self) -> Evidence:
        check_evidence(self)
        usual = USUAL_EVIDENCE if self.inference == "memoized" else "all"
        given = usual if self.evidence is None else self.evidence
        return ALL_WORDS if given == "all" else Evidence(float(given))

    def _engine(self) -> Engine:
        return select_engine(self.engine, self._local(), self.n_threads)

    def _priors(self) -> Priors:
        usual_beta = USUAL_BETA if self.inference == "memoized" else 1 / self.n_topics
        beta = usual_beta if self.beta is None else self.beta
        return Priors(self.alpha, self.rho, USUAL_TAU if self.tau is None else self.tau, beta)

    def _priors_in_force(self) -> Priors:
        """As they are set now; what is learned stays as it was learned."""
        learned = {*self._learned(), *self._tuned()}
        return replace(self._priors(), **{name: getattr(self.state_.priors, name) for name in learned})

    def _learned(self) -> frozenset[str]:
        """Names of the priors that are learned."""
        return frozenset(name for name in ("alpha", "tau", "beta") if getattr(self, f"learn_{name}"))

    def _tuned(self) -> tuple[str, ...]:
        """Names of the priors that held-out documents choose."""
        if self.inference != "memoized":
            return ()
        return tuple(name for name in ("tau", "beta") if getattr(self, name) is None and name not in self._learned())

    def _local(self) -> LocalSettings:
        is_memoized = self.inference == "memoized"
        is_bounded = not is_memoized or self.words_per_topic is not None or self.topics_per_word is not None
        return LocalSettings(
            self.topics_per_document,
            self.words_per_topic or USUAL_WORDS_PER_TOPIC,
            (self.topics_per_word or USUAL_TOPICS_PER_WORD) if is_bounded else self.n_topics,
            self.n_samples,
            self.local_rate,
            self.max_local_steps,
            self.local_tol,
            newton=self.local_solver == "newton",
            candidates=(self.candidates or 0) if is_memoized else 0,
            collapsed=is_memoized,
        )

    def _learner(self, counts: sparse.csr_matrix, engine: Engine, goes_on: bool) -> Learner:
        topics = replace(self.state_, priors=self._priors_in_force()) if goes_on else self.state_
        if self.inference == "svi":
            return SviLearner(topics, counts, engine, self._update(), self._svi(), self._seed, self._seen)
        if not goes_on:
            topics = unknown_topics(self.n_topics, self.n_dims, counts.shape[1], self._priors())
        warm_sweeps = 0 if isinstance(self.init, str) and self.init == "random" else self.warm_sweeps
        draw_sweeps = min(self.draw_sweeps, self.max_sweeps)  # so that the last ones are averaged
        settings = MemoizedSettings(self.batch_size, warm_sweeps, draw_sweeps, self.sampler, self._learned(), goes_on)
        given = self._given_topics(counts.shape[1])
        learner = MemoizedLearner(counts, topics, engine, settings, self._seed, given)
        learner.n_batches = self._seen.batches
        return learner

    def _given_topics(self, n_words: int) -> GivenTopics | None:
        weights = given_weights(self.init, self.n_topics, n_words)
        return None if weights is None else given_topics(weights)

    def _update(self) -> Update:
        return svi.update

    @property
    def _n_features_out(self) -> int:
        return self.state_.n_dims
