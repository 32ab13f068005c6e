"""The training loop: batches, when it ends, what it reports; and that it finds what was planted."""

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from sklearn.base import clone
from threadpoolctl import threadpool_info

from asterism import TopicEmbeddingModel, sample_corpus
from asterism.evaluation.completion import split_tokens
from asterism.inference.svi import (
    Seen,
    SviLearner,
    SviSettings,
    consecutive_batches,
    learn_stream,
    shuffled_batches,
)
from asterism.model import svi
from asterism.training import TrainingSettings, has_settled, train

SETTINGS = TrainingSettings(max_sweeps=3, tol=0.0, evaluate_every=1)
SVI = SviSettings(batch_size=50, step_offset=2.0, step_exponent=0.5, total_documents=None)


@pytest.fixture
def start(model, counts):
    """Topics before the first batch, and an engine."""
    return svi.start(counts, 5, 3, model.state_.priors, seed=0), model._engine()


def run(start, counts, heldout, report):
    """Three sweeps of stochastic inference: the learner, and what came of it."""
    topics, engine = start
    learner = SviLearner(topics, counts, engine, svi.update, SVI, seed=0)
    return learner, train(learner, counts.shape[0], heldout, engine, SETTINGS, report)


# --- batches ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch_size", [1, 7, 120, 1000])
def test_a_sweep_sees_every_document_once(counts, batch_size):
    batches = list(shuffled_batches(counts, batch_size, seed=1, sweep=0))
    assert max(map(len, batches)) == min(batch_size, counts.shape[0])
    seen = np.concatenate([batch.documents for batch in batches])
    assert sorted(seen) == list(range(counts.shape[0]))
    assert list(seen) != sorted(seen)
    n_tokens = [batch.lengths for batch in batches]
    np.testing.assert_array_equal(np.concatenate(n_tokens), np.asarray(counts.sum(axis=1)).ravel()[seen])


def test_every_sweep_and_seed_has_an_order_of_its_own(counts):
    orders = [
        tuple(np.concatenate([b.documents for b in shuffled_batches(counts, 50, seed, sweep)]))
        for seed, sweep in [(0, 0), (0, 1), (1, 0), (1, 1)]
    ]
    assert len(set(orders)) == 4


def test_a_streams_documents_are_numbered_through(counts):
    batches = list(consecutive_batches(counts, 50, first_document=1000))
    assert [len(batch) for batch in batches] == [50, 50, 20]
    np.testing.assert_array_equal(np.concatenate([b.documents for b in batches]), np.arange(1000, 1120))


# --- the loop ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scores", "expected"),
    [([], False), ([-5.0], False), ([-5.0, -4.5], False), ([-5.0, -4.95], True), ([-4.95, -5.0], True)],
)
def test_scores_have_settled_when_the_last_two_are_close(scores, expected):
    assert has_settled(scores, tol=0.1) is expected


@pytest.mark.parametrize(
    ("scores", "expected"),
    [([-5.0, -6.0, -7.0], False), ([-5.0, -6.0, -7.0, -5.5], True), ([-5.0, -6.0, -7.0, -4.5], False)],
)
def test_scores_have_settled_when_three_were_no_better_than_the_best(scores, expected):
    assert has_settled(scores, tol=0.1) is expected


def test_nothing_settles_at_a_tolerance_of_zero():
    assert not has_settled([-5.0, -5.0], tol=0)
    assert not has_settled([-5.0, -6.0, -7.0, -8.0], tol=0)


def test_progress_is_told_after_every_batch(start, counts):
    told = []
    learner, _ = run(start, counts, None, told.append)
    assert [(p.sweep, p.documents) for p in told] == [(s, d) for s in range(3) for d in (50, 100, 120)]
    assert {(p.max_sweeps, p.n_documents, p.heldout_score) for p in told} == {(3, 120, None)}
    assert learner.n_batches == 9


def test_progress_knows_each_score_as_soon_as_it_is_there(start, counts):
    told = []
    _, trained = run(start, counts[:90], split_tokens(counts[90:]), told.append)
    scores = [record.heldout_score for record in trained.history]
    assert len(set(scores)) == 3
    # Two batches of each sweep know the score before, and then the sweep's own is told.
    shown = [progress.heldout_score for progress in told]
    assert shown == [None, None, scores[0], scores[0], scores[0], scores[1], scores[1], scores[1], scores[2]]


def test_step_sizes_fall_with_every_batch(start, counts):
    history = run(start, counts, None, lambda _: None)[1].history
    # The last batches of the sweeps are numbers 2, 5 and 8 of those that count from 0.
    np.testing.assert_allclose([record.step_size for record in history], [4**-0.5, 7**-0.5, 10**-0.5])


def test_a_stream_counts_on_from_what_was_seen(start, counts):
    topics, engine = start
    batches = list(consecutive_batches(counts, 50, 0))
    _, seen = learn_stream(topics, batches, engine, svi.update, SVI, 0, Seen(2, 7, 300))
    assert seen == Seen(2, 10, 420)


def test_a_streams_size_scales_what_a_batch_counts_for(make, counts):
    """The first step, of size 1, makes the topics hold as many tokens as the whole stream is expected to."""
    some = make(total_documents=None, batch_size=40).partial_fit(counts[:40])
    many = make(total_documents=4000, batch_size=40).partial_fit(counts[:40])
    assert some.state_.topic_count.sum() == pytest.approx(counts[:40].sum())
    assert many.state_.topic_count.sum() == pytest.approx(100 * counts[:40].sum())


def test_blas_has_one_thread_while_training_and_its_own_again_after(start, counts):
    def blas_threads():
        return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}

    before, during = blas_threads(), []
    run(start, counts, None, lambda _: during.append(blas_threads()))
    assert all(threads == {1} for threads in during)
    assert blas_threads() == before


# --- recovery ---------------------------------------------------------------------------------------------------


def plant_two_groups(seed):
    """Six topics: 0-2 occur together and 3-5 do, and documents of one group avoid the other."""
    rng = np.random.default_rng(seed)
    group = np.repeat([1.0, -1.0], 3)
    embedding = np.column_stack([group, np.zeros(6)]) + 0.3 * rng.normal(size=(6, 2))
    return sample_corpus(800, 6, 200, mean_length=120, rho=1, tau=1, beta=0.03, topic_embedding=embedding, seed=seed)


def compare_with_planted(model, planted):
    """Cosines of the best-matching topics' words; learned and planted correlation of each pair of topics."""
    learned = model.topic_word_.toarray()
    norms = np.linalg.norm(planted.topic_word, axis=1)[:, None] * np.linalg.norm(learned, axis=1)
    cosine = planted.topic_word @ learned.T / norms
    rows, match = linear_sum_assignment(-cosine)
    first, second = np.triu_indices(6, 1)
    correlation = [model.correlation(match[i], match[j]) for i, j in zip(first, second, strict=True)]
    return cosine[rows, match], np.array(correlation), planted.weight_correlation[first, second]


@pytest.mark.parametrize("seed", [0, 1, 3])
def test_planted_topics_and_correlations_are_recovered(seed):
    """Small batches and steps that fall slowly: the paper's own steps leave topics mixed at this size."""
    planted = plant_two_groups(seed)
    model = TopicEmbeddingModel(
        6,
        2,
        inference="svi",
        alpha=1.0,
        rho=1.0,
        batch_size=32,
        step_offset=10,
        step_exponent=0.5,
        max_sweeps=20,
        tol=0,
        random_state=seed,
    ).fit(planted.counts)
    start = clone(model).set_params(max_sweeps=1).fit(planted.counts)
    start.state_ = svi.start(planted.counts, 6, 2, model.state_.priors, seed)

    cosine, correlation, expected = compare_with_planted(start, planted)
    is_within = np.equal.outer([0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 1])[np.triu_indices(6, 1)]
    assert cosine.mean() < 0.55
    assert np.corrcoef(correlation, expected)[0, 1] < 0.6
    assert correlation[is_within].min() < correlation[~is_within].max() - 0.5

    cosine, correlation, expected = compare_with_planted(model, planted)
    assert cosine.mean() > 0.95
    assert cosine.min() > 0.85
    assert np.corrcoef(correlation, expected)[0, 1] > 0.85
    assert correlation[is_within].min() > correlation[~is_within].max()
    assert correlation[is_within].mean() > correlation[~is_within].mean() + 0.15


def test_newton_steps_predict_at_least_as_well_as_the_papers_adagrad():
    planted = plant_two_groups(0)
    heldout = sample_corpus(
        200, 6, 200, mean_length=120, topic_embedding=planted.topic_embedding, topic_word=planted.topic_word, seed=7
    )
    usual = TopicEmbeddingModel(6, 2, inference="svi", batch_size=64, max_sweeps=10, tol=0, random_state=0)
    scores = {
        solver: clone(usual).set_params(local_solver=solver).fit(planted.counts).score(heldout.counts)
        for solver in ("adagrad", "newton")
    }
    assert scores["newton"] > scores["adagrad"]


@pytest.mark.parametrize("inference", ["svi", "memoized"])
def test_the_solver_is_that_of_a_stream_too(make, counts, inference):
    usual = make(inference=inference)
    by_solver = [clone(usual).set_params(local_solver=solver).partial_fit(counts) for solver in ("adagrad", "newton")]
    assert not np.allclose(*(model.topic_embeddings_ for model in by_solver))
    assert np.isfinite(by_solver[1].score(counts))
