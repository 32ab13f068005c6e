"""Priors that held-out documents choose."""

import math

import numpy as np
import pytest

from asterism import TopicEmbeddingModel, sample_corpus
from asterism.inference import tuning
from asterism.inference.memoized import unknown_topics
from asterism.model.state import Priors

TOPICS = unknown_topics(3, 2, 5, Priors(0.1, 0.1, 1.0, 0.01))


def peak_at(**wanted):
    """A score that falls by 1 for every factor of e that a prior is away from what is wanted."""
    return lambda topics: -sum(abs(math.log(getattr(topics.priors, name) / x)) for name, x in wanted.items())


@pytest.mark.parametrize("tau", [0.2, 1.0, 7.0])
@pytest.mark.parametrize("beta", [0.002, 0.3])
def test_the_best_values_are_found_to_a_step(tau, beta):
    score = peak_at(tau=tau, beta=beta)
    topics, found = tuning.tuned(TOPICS, ("tau", "beta"), score)
    assert abs(math.log(topics.priors.tau / tau)) <= math.log(tuning.STEP) / 2 + 1e-9
    assert abs(math.log(topics.priors.beta / beta)) <= math.log(tuning.STEP) / 2 + 1e-9
    assert found == score(topics)
    assert topics.embedding is TOPICS.embedding


def test_what_is_not_named_stays():
    topics, found = tuning.tuned(TOPICS, (), peak_at(tau=5.0))
    assert topics is TOPICS
    assert found == pytest.approx(-math.log(5))


def test_small_gains_lead_nowhere():
    step = math.log(tuning.STEP)
    too_little, enough = (0.9 * tuning.GAINS["tau"] / step, 1.1 * tuning.GAINS["tau"] / step)
    for slope, is_moved in ((too_little, False), (enough, True)):
        topics, _ = tuning.tuned(TOPICS, ("tau",), lambda topics, slope=slope: -slope * math.log(topics.priors.tau))
        assert (topics.priors.tau < 1) == is_moved


@pytest.mark.parametrize("direction", [-1, 1])
def test_values_stay_in_bounds(direction):
    topics, _ = tuning.tuned(TOPICS, ("tau", "beta"), lambda topics: direction * math.log(topics.priors.tau))
    low, high = tuning.BOUNDS["tau"]
    assert low <= topics.priors.tau <= high
    assert max(low / topics.priors.tau, topics.priors.tau / high) > 1 / tuning.STEP
    assert topics.priors.beta == TOPICS.priors.beta


@pytest.fixture(scope="module")
def short_documents():
    """Many topics, twenty words a document, weights that scatter widely around what embeddings predict."""
    return sample_corpus(3000, 40, 400, 3, mean_length=20, tau=0.1, beta=0.02, seed=2).counts


def fitted(documents, **settings):
    usual = {"warm_sweeps": 60, "draw_sweeps": 4, "max_sweeps": 6, "random_state": 0}
    return TopicEmbeddingModel(40, 3, **{**usual, **settings}).fit(documents)


def test_a_model_finds_its_priors_and_predicts_better(short_documents, tmp_path):
    train, test = short_documents[:2500], short_documents[2500:]
    found, given = fitted(train), fitted(train, tau=1.0, beta=0.01)
    assert found.state_.priors.tau < 1
    assert (given.state_.priors.tau, given.state_.priors.beta) == (1.0, 0.01)
    assert found.score(test) > given.score(test) + tuning.GAINS["tau"]
    loaded = TopicEmbeddingModel.load(found.save(tmp_path / "model"))
    assert loaded.state_.priors == found.state_.priors
    assert loaded.score(test) == found.score(test)
    tau = loaded.state_.priors.tau
    loaded.set_params(warm_start=True, max_sweeps=1).fit(train)
    assert abs(np.log(loaded.state_.priors.tau / tau)) < 1  # goes on from there, not from 1


def test_without_held_out_documents_priors_are_the_usual(short_documents):
    priors = fitted(short_documents[:100], validation_fraction=0, max_sweeps=2).state_.priors
    assert (priors.tau, priors.beta) == (1.0, 0.01)


def test_the_paper_s_inference_keeps_the_paper_s_priors(short_documents):
    priors = fitted(short_documents[:500], inference="svi", max_sweeps=1).state_.priors
    assert (priors.tau, priors.beta) == (1.0, 1 / 40)
