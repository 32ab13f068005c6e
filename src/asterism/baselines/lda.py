"""LDA by stochastic variational inference (Hoffman et al. 2013) as a scikit-learn transformer."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ..corpus.text import TextPipeline
from ..engines.base import TopicEngine
from ..engines.select import select_dirichlet_engine
from ..inference.base import Learner
from ..inference.svi import SviLearner, Update
from ..model import dirichlet
from ..model.dirichlet import DirichletPriors, DirichletSettings, DirichletTopics
from ..planning import Size, lda_memory_needed
from ..topic_model import StreamedTopicModel

USUAL_ROUNDS, USUAL_ROUNDS_OF_DRAWS = 100, 20


class LDA(StreamedTopicModel):
    """Latent Dirichlet allocation: topics that occur in documents independently of each other.

    What `TopicEmbeddingModel` is compared with: the same input, the same questions, the same score. Stochastic
    variational inference, in two kinds:

    - dense (the default): a token belongs to all topics in part. A document costs K U numbers a round, for its U
      different words; the topics are an array [n_words, n_topics].
    - `sparse=True`: a token belongs to one topic, drawn from the candidates that `TopicEmbeddingModel(inference="svi")`
      has: its document's K_s topics and its word's own. Learning from a document of N tokens costs
      N (K_s + max(K V_s / n_words, s)) numbers a round, and nothing for each of the K topics (inferring one
      does, as the answer has K numbers); the topics are a sparse matrix.

    Parameters
    ----------
    n_topics : number of topics K, at least 2.
    alpha, beta : concentrations of a document's topics and a topic's words; None is 1/n_topics.
    sparse : see above.
    topics_per_document, words_per_topic, topics_per_word : K_s, V_s and s of `sparse`.
    max_local_steps, local_tol : the end of a document's inner loop: after so many rounds or when its counts of topics
        change by less than this a token. None is 100 rounds, or 20 draws of every token.
    step_offset, step_exponent : the step size of batch t = 0, 1, ... is (step_offset + t) ** -step_exponent.
    batch_size : documents a minibatch.
    engine, n_threads, max_sweeps, tol, evaluate_every, warm_start, validation_fraction, total_documents, vocabulary,
        text_pipeline, non_integer, random_state, verbose : as of `TopicEmbeddingModel`.

    Attributes
    ----------
    topic_word_ : probabilities of words in topics, sparse [n_topics, n_words], without the prior's smoothing.
    topic_shares_, vocabulary_, history_, n_sweeps_, converged_, text_pipeline_ : as of `TopicEmbeddingModel`.
    state_ : everything that is known of the topics (`asterism.model.dirichlet.DirichletTopics`).
    """

    state_: DirichletTopics
    _state_class: ClassVar[type] = DirichletTopics
    _kind: ClassVar[str] = "LDA"

    def __init__(
        self,
        n_topics: int = 100,
        *,
        alpha: float | None = None,
        beta: float | None = None,
        sparse: bool = False,
        topics_per_document: int = 50,
        words_per_topic: int = 100,
        topics_per_word: int = 10,
        max_local_steps: int | None = None,
        local_tol: float = 1e-3,
        step_offset: float = 10.0,
        step_exponent: float = 0.7,
        batch_size: int = 512,
        engine: str = "auto",
        n_threads: int | None = None,
        max_sweeps: int = 40,
        tol: float = 1e-4,
        evaluate_every: int = 1,
        warm_start: bool = False,
        validation_fraction: float = 0.05,
        total_documents: int | None = None,
        vocabulary: Any = None,
        text_pipeline: TextPipeline | None = None,
        non_integer: str = "error",
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.n_topics = n_topics
        self.alpha = alpha
        self.beta = beta
        self.sparse = sparse
        self.topics_per_document = topics_per_document
        self.words_per_topic = words_per_topic
        self.topics_per_word = topics_per_word
        self.max_local_steps = max_local_steps
        self.local_tol = local_tol
        self.step_offset = step_offset
        self.step_exponent = step_exponent
        self.batch_size = batch_size
        self.engine = engine
        self.n_threads = n_threads
        self.max_sweeps = max_sweeps
        self.tol = tol
        self.evaluate_every = evaluate_every
        self.warm_start = warm_start
        self.validation_fraction = validation_fraction
        self.total_documents = total_documents
        self.vocabulary = vocabulary
        self.text_pipeline = text_pipeline
        self.non_integer = non_integer
        self.random_state = random_state
        self.verbose = verbose

    def transform(self, X: Any) -> NDArray[np.float32]:
        """Shares of topics in documents [n_documents, n_topics]; rows sum to 1, and are equal for a document that is
        empty or has no known word."""
        return np.asarray(self.topic_proportions(X), dtype=np.float32)

    def _start(self, counts: sparse.csr_matrix) -> DirichletTopics:
        usual = 1 / self.n_topics
        priors = DirichletPriors(usual if self.alpha is None else self.alpha, usual if self.beta is None else self.beta)
        return dirichlet.start(counts, self.n_topics, priors, self._seed, self.sparse)

    def _memory(self, counts: sparse.csr_matrix) -> tuple[Size, dict[str, int]]:
        size = Size.of(counts, self.n_topics, n_dims=0)
        return size, lda_memory_needed(size, self.batch_size, self.sparse)

    def _local(self) -> DirichletSettings:
        is_sparse = self.state_.is_sparse
        usual = USUAL_ROUNDS_OF_DRAWS if is_sparse else USUAL_ROUNDS
        return DirichletSettings(
            self.topics_per_document,
            self.words_per_topic,
            self.topics_per_word,
            usual if self.max_local_steps is None else self.max_local_steps,
            self.local_tol,
        )

    def _engine(self) -> TopicEngine:
        return select_dirichlet_engine(self.engine, self._local(), self.n_threads)

    def _update(self) -> Update:
        return dirichlet.update

    def _learner(self, counts: sparse.csr_matrix, engine: TopicEngine, goes_on: bool) -> Learner:
        return SviLearner(self.state_, counts, engine, self._update(), self._svi(), self._seed, self._seen)

    @property
    def _n_features_out(self) -> int:
        return int(self.state_.n_topics)
