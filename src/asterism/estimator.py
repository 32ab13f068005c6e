"""TopicEmbeddingModel: a scikit-learn transformer. It stores, validates, delegates; the formulas are elsewhere."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray
from scipy import sparse, special
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from . import persist
from .corpus.counts import checked_counts, is_documents, readable_twice
from .corpus.text import TextPipeline
from .engines import Engine, select_engine
from .engines.select import available_cores
from .errors import InputError
from .evaluation.completion import Completion, completion_score, split_tokens
from .inference.base import Learner
from .inference.memoized import MemoizedLearner, MemoizedSettings, unknown_topics
from .inference.svi import NOTHING_SEEN, Seen, SviLearner, SviSettings, consecutive_batches, learn_stream
from .model import random, similarity, svi
from .model.evidence import ALL_WORDS, Evidence
from .model.neighbours import Neighbours, correlation_graph, correlation_vectors, nearest_topics
from .model.start import GivenTopics, given_topics
from .model.state import Batch, Documents, Floats, LocalSettings, Priors, Topics
from .parameters import check_evidence, check_parameters, check_whole, given_weights
from .planning import Plan, Size, available_memory, memory_needed, sweep_seconds
from .progress import progress_bar
from .training import SweepRecord, TrainingSettings, train

logger = logging.getLogger(__name__)

MOST_HELDOUT, FEWEST_HELDOUT = 300, 20
USUAL_TAU, USUAL_BETA = 1.0, 0.01
USUAL_EVIDENCE = 8.0
DOCUMENTS_A_BATCH = 512


class WordProbability(NamedTuple):
    word: str
    probability: float


class CorrelatedTopic(NamedTuple):
    topic: int
    correlation: float


class TopicEmbeddingModel(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
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
    topics_per_document, words_per_topic, topics_per_word : the paper's K_s, V_s and s, which bound the
        candidate topics of a token; memoized inference uses K_s alone.
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
    history_: list[dict[str, Any]]
    text_pipeline_: TextPipeline | None
    _seen: Seen  # where step sizes and random numbers go on
    _serving: dict[Any, tuple[Engine, Any]]  # engines with these topics, by settings

    def __init__(
        self,
        n_topics: int = 100,
        n_dims: int = 50,
        *,
        inference: str = "memoized",
        engine: str = "auto",
        n_threads: int | None = None,
        max_sweeps: int = 40,
        tol: float = 1e-4,
        evaluate_every: int = 1,
        init: Any = "lda",
        warm_start: bool = False,
        warm_sweeps: int = 1000,
        draw_sweeps: int = 16,
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
        words_per_topic: int = 100,
        topics_per_word: int = 10,
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

    # --- learning -------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None) -> TopicEmbeddingModel:
        """Learn topics from documents, anew unless `warm_start` says otherwise."""
        check_parameters(self)
        with self._unchanged_on_failure():
            goes_on = self.warm_start and hasattr(self, "state_")
            counts = self._more_counts(X) if goes_on else self._first_counts(X)
            if not goes_on:
                self._begin(counts)
            self._check_memory(counts)
            heldout, rows = self._hold_out(counts)
            with progress_bar(self.verbose) as report:
                engine = self._engine()
                learner = self._learner(counts[rows], engine, goes_on)
                trained = train(learner, len(rows), heldout, engine, self._training(), report)
        self.state_ = trained.topics
        self.history_ = [*self.history_, *_renumbered(trained.history, self.history_)]
        self.n_sweeps_, self.converged_ = len(self.history_), trained.converged
        self._seen = Seen(self.n_sweeps_, learner.n_batches, max(self._seen.documents, len(rows)))
        self._serving = {}
        return self

    def plan(self, X: Any) -> Plan:
        """What `fit(X)` will need: memory, and seconds a sweep, found by trying a few documents. Learns nothing."""
        check_parameters(self)
        fresh: TopicEmbeddingModel = clone(self)
        counts = fresh._first_counts(X)
        fresh._begin(counts)
        engine = fresh._engine()
        seconds = sweep_seconds(counts, self.n_topics, lambda some: fresh._learner(some, engine, goes_on=False))
        return replace(fresh._planned(counts), seconds=seconds)

    def partial_fit(self, X: Any, y: Any = None) -> TopicEmbeddingModel:
        """Learn from more documents, each seen once; the first call fixes the vocabulary.

        Goes on from where `fit`, `load` or the last call left off. Words not in the vocabulary are ignored.
        """
        check_parameters(self)
        with self._unchanged_on_failure():
            if hasattr(self, "state_"):
                counts = self._counts(X)
            else:
                counts = self._first_counts(X)
                self._begin(counts)
            settings = self._svi()
            batches = consecutive_batches(counts, settings.batch_size, self._seen.documents)
            self.state_, self._seen = learn_stream(
                self.state_, batches, self._engine(), settings, self._seed, self._seen
            )
        self._serving = {}
        return self

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

    def topic_proportions(self, X: Any, top: int | None = None) -> Any:
        """Shares of topics in documents [n_documents, n_topics]; rows sum to 1.

        With `top`, a sparse matrix of each document's `top` largest shares as they are.
        """
        check_is_fitted(self)
        if top is not None:
            check_whole("top", top, 1)
        blocks = []
        for _, documents in self._inferred(self._counts(X)):
            shares = special.softmax(documents.weights, axis=1)
            blocks.append(shares if top is None else _largest_in_rows(shares, top))
        return np.concatenate(blocks) if top is None else sparse.vstack(blocks, format="csr")

    def score(self, X: Any, y: Any = None) -> float:
        """Held-out log-likelihood per token by document completion: half of each document's tokens are used
        to infer its topics, the other half is scored. Documents of a single known word do not count."""
        check_is_fitted(self)
        halves = split_tokens(self._counts(X))
        if not halves.n_scored:
            raise InputError("no document has two known words, so none can be scored")
        return completion_score(*self._engine_and_topics(), halves)

    def perplexity(self, X: Any) -> float:
        """exp(-score(X)): document completion, lower is better."""
        return math.exp(-self.score(X))

    # --- topics -----------------------------------------------------------------------------------------------

    @property
    def topic_embeddings_(self) -> Floats:
        return self._topics().embedding

    @property
    def topic_word_(self) -> sparse.csr_matrix:
        total = np.maximum(self._topics().topic_count, np.finfo(float).tiny)
        return sparse.csr_matrix(sparse.diags(1 / total) @ self.state_.topic_word)

    @property
    def topic_shares_(self) -> Floats:
        counted = self._topics().topic_count
        return np.asarray(counted / max(counted.sum(), np.finfo(float).tiny))

    def top_words(self, topic: int, n: int = 10) -> list[WordProbability]:
        """The n most probable words of a topic, with their probabilities."""
        topic = self._checked_topic(topic)
        check_whole("n", n, 0)
        counts = self.state_.topic_word[topic]
        order = np.lexsort((counts.indices, -counts.data))[:n]
        share = counts.data / max(counts.data.sum(), np.finfo(float).tiny)
        return [WordProbability(str(self.vocabulary_[counts.indices[i]]), float(share[i])) for i in order]

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

    # --- files ------------------------------------------------------------------------------------------------

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write the model into a folder of its own; an older model there is replaced when all is written."""
        check_is_fitted(self)
        return persist.save_model(self, folder)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> TopicEmbeddingModel:
        """Read a model that `save` wrote."""
        return persist.load_model(cls, folder)

    # --- input ------------------------------------------------------------------------------------------------

    def _first_counts(self, X: Any) -> sparse.csr_matrix:
        """Training documents as counts; sets the vocabulary."""
        X = readable_twice(X)
        if is_documents(X):
            pipeline = TextPipeline() if self.text_pipeline is None else clone(self.text_pipeline)
            counts = pipeline.fit_transform(X)
            self.text_pipeline_, self.vocabulary_ = pipeline, np.array(pipeline.words_, dtype=object)
            self.n_features_in_ = counts.shape[1]
            self.__dict__.pop("feature_names_in_", None)  # of an earlier fit
            return counts
        self.text_pipeline_ = None
        counts = self._checked_matrix(X, reset=True)
        self.vocabulary_ = self._given_vocabulary(counts.shape[1])
        if not counts.nnz:
            raise InputError(f"all {counts.shape[0]} documents are empty: there is nothing to learn from")
        return counts

    def _more_counts(self, X: Any) -> sparse.csr_matrix:
        """Training documents to go on with, over the model's vocabulary."""
        for name, learned in (("n_topics", self.state_.n_topics), ("n_dims", self.state_.n_dims)):
            if getattr(self, name) != learned:
                raise InputError(
                    f"warm_start goes on from {name}={learned}; {name}={getattr(self, name)} needs a new fit"
                )
        try:
            counts = self._counts(X)
        except InputError:
            raise
        except ValueError as error:  # of scikit-learn's checks
            raise InputError(f"warm_start goes on over the same words: {str(error).splitlines()[0]}") from error
        if not counts.nnz:
            raise InputError(
                f"none of the {counts.shape[0]} documents has a known word: there is nothing to learn from"
            )
        return counts

    def _counts(self, X: Any) -> sparse.csr_matrix:
        """Documents as counts over the model's vocabulary."""
        X = readable_twice(X)
        if not is_documents(X):
            return self._checked_matrix(X, reset=False)
        if self.text_pipeline_ is None:
            raise InputError("this model was fitted on counts and cannot read texts; pass counts")
        return self.text_pipeline_.transform(X)

    def _checked_matrix(self, X: Any, reset: bool) -> sparse.csr_matrix:
        checked = validate_data(self, X, reset=reset, accept_sparse=["csr", "csc", "coo"], ensure_all_finite=False)
        return checked_counts(checked, self.non_integer)

    def _given_vocabulary(self, n_words: int) -> NDArray[np.object_]:
        words = self.vocabulary if self.vocabulary is not None else getattr(self, "feature_names_in_", None)
        if words is None:
            words = [f"word_{v}" for v in range(n_words)]
        if len(words) != n_words:
            raise InputError(f"the vocabulary has {len(words)} words but X has {n_words} columns")
        return np.array([str(word) for word in words], dtype=object)

    # --- inside -----------------------------------------------------------------------------------------------

    def _begin(self, counts: sparse.csr_matrix) -> None:
        """Set the state before the first batch."""
        if self.n_topics > counts.shape[0]:
            logger.warning(
                "n_topics=%d is more than the %d document(s): some topics will be alike",
                self.n_topics,
                counts.shape[0],
            )
        if self.n_dims > self.n_topics:
            logger.warning("n_dims=%d is more than n_topics=%d can use", self.n_dims, self.n_topics)
        self._seed = random.seed_of(self.random_state)
        given = self._given_topics(counts.shape[1])
        self.state_ = svi.start(counts, self.n_topics, self.n_dims, self._priors(), self._seed, given)
        self.history_ = []
        self.n_sweeps_, self.converged_ = 0, False
        self._seen = NOTHING_SEEN
        self._serving = {}

    def _planned(self, counts: sparse.csr_matrix) -> Plan:
        size = Size.of(counts, self.n_topics, self.n_dims)
        n_threads = self.n_threads or available_cores()
        return Plan(size, memory_needed(size, self.inference == "memoized", n_threads), available_memory())

    def _check_memory(self, counts: sparse.csr_matrix) -> None:
        planned = self._planned(counts)
        logger.info("%s", planned)
        if not planned.fits:
            raise InputError(f"{planned}: fewer topics, or fewer documents and words, need less")

    def _hold_out(self, counts: sparse.csr_matrix) -> tuple[Completion | None, NDArray[np.int64]]:
        """Documents to watch convergence on, and the rows that are left to learn from."""
        order = random.permutation(counts.shape[0], self._seed, random.SPLIT)
        n = min(MOST_HELDOUT, int(self.validation_fraction * counts.shape[0]))
        halves = split_tokens(counts[order[:n]])
        if n < FEWEST_HELDOUT or not halves.n_scored:
            return None, np.arange(counts.shape[0])
        return halves, np.sort(order[n:])

    def _inferred(
        self, counts: sparse.csr_matrix, evidence: Evidence = ALL_WORDS, with_cov: bool = False
    ) -> Iterator[tuple[slice, Documents]]:
        engine, prepared = self._engine_and_topics(evidence)
        for first in range(0, counts.shape[0], DOCUMENTS_A_BATCH):
            rows = slice(first, min(first + DOCUMENTS_A_BATCH, counts.shape[0]))
            yield rows, evidence.in_words(engine.infer(prepared, evidence.weigh(Batch.of(counts[rows])), with_cov))

    def _engine_and_topics(self, evidence: Evidence = ALL_WORDS) -> tuple[Engine, Any]:
        """The engine and the topics in its form, kept from call to call: preparing costs more than a document."""
        key = (self.engine, self.n_threads, self._local(), evidence)
        if key not in self._serving:
            engine = self._engine()
            self._serving[key] = engine, engine.prepare(evidence.in_units(self.state_))
        return self._serving[key]

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
        everything = max(self.n_topics, getattr(self, "n_features_in_", 1))
        return LocalSettings(
            self.topics_per_document,
            everything if is_memoized else self.words_per_topic,
            everything if is_memoized else self.topics_per_word,
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
            return SviLearner(topics, counts, engine, self._svi(), self._seed, self._seen)
        if not goes_on:
            topics = unknown_topics(self.n_topics, self.n_dims, counts.shape[1], self._priors())
        warm_sweeps = 0 if isinstance(self.init, str) and self.init == "random" else self.warm_sweeps
        settings = MemoizedSettings(
            self.batch_size, warm_sweeps, self.draw_sweeps, self.sampler, self._learned(), goes_on
        )
        given = self._given_topics(counts.shape[1])
        learner = MemoizedLearner(counts, topics, engine, settings, self._seed, given)
        learner.n_batches = self._seen.batches
        return learner

    def _given_topics(self, n_words: int) -> GivenTopics | None:
        weights = given_weights(self.init, self.n_topics, n_words)
        return None if weights is None else given_topics(weights)

    def _svi(self) -> SviSettings:
        return SviSettings(self.batch_size, self.step_offset, self.step_exponent, self.total_documents)

    def _training(self) -> TrainingSettings:
        return TrainingSettings(self.max_sweeps, self.tol, self.evaluate_every, self._tuned())

    @contextmanager
    def _unchanged_on_failure(self) -> Iterator[None]:
        """Bad input or Ctrl-C leaves the model as it was, not half of a new one."""
        before = dict(vars(self))
        try:
            yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _topics(self) -> Topics:
        check_is_fitted(self)
        return self.state_

    def _checked_topic(self, topic: int) -> int:
        check_is_fitted(self)
        check_whole("topic", topic)
        if not 0 <= topic < self.state_.n_topics:
            raise InputError(f"topic {topic} does not exist; topics are 0 to {self.state_.n_topics - 1}")
        return int(topic)

    @property
    def _n_features_out(self) -> int:
        return self.state_.n_dims

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {**state, "_serving": {}} if "_serving" in state else state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        tags.input_tags.string = True
        tags.transformer_tags.preserves_dtype = []
        return tags


def _renumbered(records: list[SweepRecord], history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Records of further sweeps, their numbers and seconds counted on from the history so far."""
    sweeps, seconds = (history[-1]["sweep"], history[-1]["seconds"]) if history else (0, 0.0)
    further = (replace(record, sweep=sweeps + record.sweep, seconds=seconds + record.seconds) for record in records)
    return [asdict(record) for record in further]


def _largest_in_rows(values: Floats, n: int) -> sparse.csr_matrix:
    """The n largest entries of each row as they are; ties go to the lower column."""
    n = min(n, values.shape[1])
    columns = np.sort(np.argsort(-values, axis=1, kind="stable")[:, :n], axis=1)
    data = np.take_along_axis(values, columns, axis=1)
    indptr = np.arange(0, columns.size + 1, n)
    return sparse.csr_matrix((data.ravel(), columns.ravel(), indptr), shape=values.shape)
