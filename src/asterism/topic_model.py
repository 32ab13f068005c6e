"""The contract of all topic models: what they share as scikit-learn estimators. A model adds its state and formulas."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse, special
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from . import persist
from .documents import ReadsDocuments
from .engines.base import TopicEngine
from .engines.select import available_cores
from .errors import InputError
from .evaluation.completion import Completion, completion_score, split_tokens
from .inference.base import Learner
from .inference.svi import NOTHING_SEEN, Seen, SviSettings, Update, consecutive_batches, learn_stream
from .model import random
from .model.state import Batch, Floats
from .parameters import check_parameters, check_whole
from .planning import Plan, Size, available_memory, is_long, sweep_seconds
from .progress import progress_bar, show
from .training import SweepRecord, TrainingSettings, train

logger = logging.getLogger(__name__)

MOST_HELDOUT, FEWEST_HELDOUT = 300, 20
DOCUMENTS_A_BATCH = 512

Model = TypeVar("Model", bound="TopicModel")


class WordProbability(NamedTuple):
    word: str
    probability: float


class TopicModel(ReadsDocuments, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Fits, serves, saves and loads. A model defines the methods that raise NotImplementedError and `_state_class`, and
    has at least the parameters that are declared here; `state_` is an instance of `_state_class` (state.CountedWords).
    """

    n_topics: int
    engine: str
    n_threads: int | None
    max_sweeps: int
    tol: float
    evaluate_every: int
    warm_start: bool
    validation_fraction: float
    batch_size: int
    random_state: Any
    verbose: bool

    _state_class: ClassVar[type]
    _kind: ClassVar[str]  # as saved models call it
    _sizes: ClassVar[tuple[str, ...]] = ("n_topics",)  # parameters that a fit cannot go on without

    state_: Any
    history_: list[dict[str, Any]]
    _seed: int
    _seen: Seen  # where step sizes and random numbers go on
    _serving: dict[Any, tuple[Any, Any]]  # engines with these topics, by settings

    # --- of each model ----------------------------------------------------------------------------------------

    def _start(self, counts: sparse.csr_matrix) -> Any:
        """The state before the first batch."""
        raise NotImplementedError

    def _local(self) -> Any:
        """How a document's own variables are found: hashable, with all that the engine depends on."""
        raise NotImplementedError

    def _engine(self) -> Any:
        raise NotImplementedError

    def _learner(self, counts: sparse.csr_matrix, engine: Any, goes_on: bool) -> Learner:
        raise NotImplementedError

    def _memory(self, counts: sparse.csr_matrix) -> tuple[Size, dict[str, int]]:
        """Sizes, and bytes at the peak of each phase of training."""
        raise NotImplementedError

    def _tuned(self) -> tuple[str, ...]:
        """Names of the priors that held-out documents choose."""
        return ()

    # --- learning ---------------------------------------------------------------------------------------------

    def fit(self: Model, X: Any, y: Any = None) -> Model:
        """Learn topics from documents, anew unless `warm_start` says otherwise."""
        check_parameters(self)
        with self._unchanged_on_failure():
            goes_on = self.warm_start and hasattr(self, "state_")
            if goes_on:
                self._check_sizes()
            counts = self._more_counts(X) if goes_on else self._first_counts(X)
            if not goes_on:
                self._begin(counts)
            engine = self._engine()
            self._announce(counts, engine, goes_on)
            heldout, rows = self._hold_out(counts)
            with progress_bar(self.verbose) as report:
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
        fresh: TopicModel = clone(self)
        counts = fresh._first_counts(X)
        fresh._begin(counts)
        return fresh._with_seconds(fresh._planned(counts), counts, fresh._engine())

    # --- documents --------------------------------------------------------------------------------------------

    def topic_proportions(self, X: Any, top: int | None = None) -> Any:
        """Shares of topics in documents [n_documents, n_topics]; rows sum to 1.

        With `top`, a sparse matrix of each document's `top` largest shares as they are.
        """
        check_is_fitted(self)
        if top is not None:
            check_whole("top", top, 1)
        counts = self._counts(X)
        engine, prepared = self._engine_and_topics()
        blocks = []
        for rows in batches_of(counts.shape[0]):
            shares = special.softmax(engine.infer(prepared, Batch.of(counts[rows])).weights, axis=1)
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

    # --- files ------------------------------------------------------------------------------------------------

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write the model into a folder of its own; an older model there is replaced when all is written."""
        check_is_fitted(self)
        return persist.save_model(self, folder)

    @classmethod
    def load(cls: type[Model], folder: str | os.PathLike[str]) -> Model:
        """Read a model that `save` wrote."""
        return persist.load_model(cls, folder)

    # --- inside -----------------------------------------------------------------------------------------------

    def _begin(self, counts: sparse.csr_matrix) -> None:
        """Set the state before the first batch."""
        if self.n_topics > counts.shape[0]:
            logger.warning(
                "n_topics=%d is more than the %d document(s): some topics will be alike",
                self.n_topics,
                counts.shape[0],
            )
        self._seed = random.seed_of(self.random_state)
        self.state_ = self._start(counts)
        self.history_ = []
        self.n_sweeps_, self.converged_ = 0, False
        self._seen = NOTHING_SEEN
        self._serving = {}

    def _check_sizes(self) -> None:
        for name in self._sizes:
            learned = getattr(self.state_, name)
            if getattr(self, name) != learned:
                raise InputError(
                    f"warm_start goes on from {name}={learned}; {name}={getattr(self, name)} needs a new fit"
                )

    def _planned(self, counts: sparse.csr_matrix) -> Plan:
        return Plan(*self._memory(counts), available_memory())

    def _with_seconds(self, plan: Plan, counts: sparse.csr_matrix, engine: Any) -> Plan:
        """The plan with seconds a sweep, found by trying a few documents."""
        learner_of = lambda some: self._learner(some, engine, False)  # noqa: E731
        return replace(plan, seconds=sweep_seconds(counts, self.n_topics, learner_of))

    def _announce(self, counts: sparse.csr_matrix, engine: Any, goes_on: bool) -> None:
        """Say what training will need, or refuse it; where a trial takes long beside training, without seconds."""
        planned = self._planned(counts)
        if not planned.fits:
            raise InputError(f"{planned}: fewer topics, or fewer documents and words, need less")
        if is_long(counts.shape[0], self.n_topics) and not goes_on:
            planned = self._with_seconds(planned, counts, engine)
        logger.info("%s", planned)
        show(str(planned), self.verbose)

    def _hold_out(self, counts: sparse.csr_matrix) -> tuple[Completion | None, NDArray[np.int64]]:
        """Documents to watch convergence on, and the rows that are left to learn from."""
        order = random.permutation(counts.shape[0], self._seed, random.SPLIT)
        n = min(MOST_HELDOUT, int(self.validation_fraction * counts.shape[0]))
        halves = split_tokens(counts[order[:n]])
        if n < FEWEST_HELDOUT or not halves.n_scored:
            return None, np.arange(counts.shape[0])
        return halves, np.sort(order[n:])

    def _training(self) -> TrainingSettings:
        return TrainingSettings(self.max_sweeps, self.tol, self.evaluate_every, self._tuned())

    def _engine_and_topics(self) -> tuple[TopicEngine, Any]:
        """The engine and the topics in its form, kept from call to call: preparing costs more than a document."""
        return self._served(self.state_)

    def _served(self, state: Any, *key: Any) -> tuple[TopicEngine, Any]:
        """An engine and this state in its form; what else the state depends on is the key."""
        settings = (self.engine, self.n_threads, self._local(), *key)
        if settings not in self._serving:
            engine = self._engine()
            self._serving[settings] = engine, engine.prepare(state)
        return self._serving[settings]

    def _cores(self) -> int:
        return self.n_threads or available_cores()

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

    def _topics(self) -> Any:
        check_is_fitted(self)
        return self.state_

    def _checked_topic(self, topic: int) -> int:
        check_is_fitted(self)
        check_whole("topic", topic)
        if not 0 <= topic < self.state_.n_topics:
            raise InputError(f"topic {topic} does not exist; topics are 0 to {self.state_.n_topics - 1}")
        return int(topic)

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {**state, "_serving": {}} if "_serving" in state else state


class StreamedTopicModel(TopicModel):
    """A model that can learn from a stream of documents, each seen once."""

    step_offset: float
    step_exponent: float
    total_documents: int | None

    def _update(self) -> Update:
        """How a batch moves the topics."""
        raise NotImplementedError

    def partial_fit(self: StreamedModel, X: Any, y: Any = None) -> StreamedModel:
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
                self.state_, batches, self._engine(), self._update(), settings, self._seed, self._seen
            )
        self._serving = {}
        return self

    def _svi(self) -> SviSettings:
        return SviSettings(self.batch_size, self.step_offset, self.step_exponent, self.total_documents)


StreamedModel = TypeVar("StreamedModel", bound=StreamedTopicModel)


def batches_of(n_documents: int) -> Iterator[slice]:
    for first in range(0, n_documents, DOCUMENTS_A_BATCH):
        yield slice(first, min(first + DOCUMENTS_A_BATCH, n_documents))


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
