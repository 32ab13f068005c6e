"""Memoized inference: every document's last contribution is remembered, so the topics need no step size.

Word counts are those of the tokens' last draws, exact integers: a batch takes its old draws out and puts its new ones
in. Topic embeddings follow from moments of the whole corpus, with the coupling of a and η that mean field drops
(docs/inference.md): at the mode of a document, and with H the precision of its embedding there,

    E[a a']  = γ γ' + H^-1
    E[η a']  = ξ γ' + diag(s) U H^-1,      s = τ / (τ + N θ)
    E[η_k²]  = ξ_k² + s_k / τ + s_k² u_k'H^-1 u_k

and U, m are the regression of η on (a, 1), whose residuals tell τ.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np

from . import document, joint, random
from .state import Floats, Ints, Topics
from .tokens import candidate_mass
from .words import DrawTable

# Expected counts are whole multiples of 1 / COUNT_UNIT, so that they add exactly in any order.
COUNT_UNIT = 2**16
# Learned precisions stay in sane bounds, whatever the corpus.
SMALLEST_PRECISION, LARGEST_PRECISION = 1e-3, 1e3


@dataclass(frozen=True)
class Moments:
    """Sums over documents that topic embeddings and mean follow from; a 1 is appended to every embedding."""

    weight_embedding: Floats  # Σ E[η (a, 1)'] [k, m + 1]
    embedding_outer: Floats  # Σ E[(a, 1) (a, 1)'] [m + 1, m + 1]
    weight_square: Floats  # Σ E[η²] [k]
    cov_sum: Floats  # Σ H^-1 [m, m], the part of it that is uncertainty

    def __add__(self, other: Moments) -> Moments:
        return Moments(
            self.weight_embedding + other.weight_embedding,
            self.embedding_outer + other.embedding_outer,
            self.weight_square + other.weight_square,
            self.cov_sum + other.cov_sum,
        )


@dataclass(frozen=True)
class Relaxed:
    """What a batch says about the topics after its documents have been relaxed."""

    moments: Moments
    expected: Ints | None  # without draws: expected counts aligned with the topics' word_topic, in units


# Newton steps of a document in a sweep: with draws, from its last embedding or from none; with expected counts, which
# change along the way.
STEPS_WITH_DRAWS, STEPS_FROM_NOTHING, SOFT_STEPS = 1, 6, 6


@dataclass(frozen=True)
class Relaxation:
    """How far a document is relaxed in one sweep."""

    n_top: int  # K_s
    n_steps: int  # Newton steps; expected counts are renewed in each, draws' counts stay


@dataclass(frozen=True)
class Expansion:
    """A change of coordinates of the embedding space, a <- (a - shift) T, that leaves every U a + m as it was."""

    shift: Floats
    transform: Floats

    def __call__(self, embedding: Floats) -> Floats:
        return np.asarray((embedding - self.shift) @ self.transform)


def relax_document(
    topics: Topics,
    table: DrawTable,
    words: Ints,
    counts: Ints,
    draws: Ints | None,
    embedding: Floats,
    key: tuple[int, ...],
    settings: Relaxation,
) -> tuple[Ints | None, joint.Solution]:
    """A document's next draws, γ and ξ, from its last draws and γ.

    With draws: solve γ and ξ for the draws' counts, then draw anew. Without (None): solve for expected counts, which
    are renewed every step.
    """
    if draws is None:
        topic_counts = document.expectation(table, words, counts, settings.n_top)
    else:
        drawn = np.bincount(draws, minlength=topics.n_topics).astype(np.float64)

        def topic_counts(shares: Floats, step: int) -> Floats:
            return drawn

    solution = joint.solve(topics, embedding, topic_counts, settings.n_steps)
    if draws is not None and len(draws):
        uniforms = random.uniforms(random.stream(*key, random.DRAWS, 0), np.arange(len(draws)))
        draws = document.draw_tokens(table, words, counts, solution.weights, uniforms, settings.n_top)
    return draws, solution


def expected_word_topic(table: DrawTable, words: Ints, counts: Ints, weights: Floats, out: Ints) -> None:
    """Add the tokens' responsibilities over their words' own topics to `out`, aligned with the table's pairs."""
    nothing = np.array([], dtype=np.int64)
    for word, count in zip(words, counts, strict=True):
        own = slice(table.indptr[word], table.indptr[word + 1])
        _, mass = candidate_mass(table, word, weights, nothing)
        out[own] += np.floor(COUNT_UNIT * count * mass / mass.sum() + 0.5).astype(np.int64)


@dataclass(frozen=True)
class Sums:
    """What documents add to the moments, before their uncertainty is coupled in; added to in place."""

    weight_embedding: Floats  # Σ ξ (γ, 1)' [k, m + 1]
    embedding_outer: Floats  # Σ (γ, 1) (γ, 1)' [m + 1, m + 1]
    weight_square: Floats  # Σ ξ² [k]
    shrinkage: Floats  # Σ s and Σ s² of s = τ / (τ + N θ) [2, k]
    cov_sum: Floats  # Σ H^-1 [m, m]


def new_sums(topics: Topics) -> Sums:
    n_topics, n_dims = topics.embedding.shape
    return Sums(
        np.zeros((n_topics, n_dims + 1)),
        np.zeros((n_dims + 1, n_dims + 1)),
        np.zeros(n_topics),
        np.zeros((2, n_topics)),
        np.zeros((n_dims, n_dims)),
    )


def add_document(solution: joint.Solution, sums: Sums) -> None:
    augmented = np.append(solution.embedding, 1)
    sums.weight_embedding[:] += np.outer(solution.weights, augmented)
    sums.embedding_outer[:] += np.outer(augmented, augmented)
    sums.weight_square[:] += solution.weights**2
    sums.shrinkage[:] += solution.shrinkage, solution.shrinkage**2
    sums.cov_sum[:] += np.linalg.inv(solution.precision)


def couple(sums: Sums, topics: Topics) -> Moments:
    """Moments from the documents' sums, with what the uncertainty of a and η contributes to them.

    One H^-1, the documents' mean, serves all of them in E[η a'] and E[η²].
    """
    shrunk, shrunk_twice = sums.shrinkage
    reach = topics.embedding @ sums.cov_sum / sums.embedding_outer[-1, -1]  # U H^-1 [k, m]
    weight_embedding, embedding_outer = sums.weight_embedding.copy(), sums.embedding_outer.copy()
    weight_embedding[:, :-1] += shrunk[:, None] * reach
    embedding_outer[:-1, :-1] += sums.cov_sum
    noise = shrunk / topics.priors.tau + shrunk_twice * np.sum(reach * topics.embedding, axis=1)
    return Moments(weight_embedding, embedding_outer, sums.weight_square + noise, sums.cov_sum)


def update(topics: Topics, total: Moments, learned: Collection[str] = ()) -> tuple[Topics, Expansion]:
    """U and m by regression, then parameter expansion: let a ~ N(shift, S), fit both, and fold them into U and m.

    Documents keep their U a + m; their embeddings must follow by the returned change of coordinates. Without the
    expansion U grows by the slow crawl of EM for factor models. The priors "tau" and "alpha" are learned if named.
    """
    priors, n_dims = topics.priors, topics.n_dims
    ridge = np.zeros(n_dims + 1)
    ridge[:-1] = priors.alpha / priors.tau
    regression = np.linalg.solve(total.embedding_outer + np.diag(ridge), total.weight_embedding.T).T
    embedding, mean = regression[:, :-1], regression[:, -1]
    n_documents = total.embedding_outer[-1, -1]
    shift = total.embedding_outer[-1, :-1] / n_documents
    spread = total.embedding_outer[:-1, :-1] / n_documents - np.outer(shift, shift)
    factor = np.linalg.cholesky(priors.rho * spread)
    back = np.linalg.inv(factor)
    cov = back @ (total.cov_sum / n_documents) @ back.T
    grown = replace(topics, embedding=embedding @ factor, mean=mean + embedding @ shift, document_cov=cov)
    if "tau" in learned:
        priors = replace(priors, tau=optimal_weight_precision(regression, total))
    if "alpha" in learned:
        priors = replace(priors, alpha=optimal_topic_precision(grown.embedding))
    return replace(grown, priors=priors), Expansion(shift, back.T)


def optimal_weight_precision(regression: Floats, total: Moments) -> float:
    """τ of highest likelihood: 1/τ is the mean of E[(η - m - u'a)²], what the regression (U, m) [k, m + 1] leaves."""
    explained = 2 * total.weight_embedding - regression @ total.embedding_outer
    left = np.sum(total.weight_square) - np.sum(regression * explained)
    n_weights = total.embedding_outer[-1, -1] * len(regression)
    return float(1 / np.clip(left / n_weights, 1 / LARGEST_PRECISION, 1 / SMALLEST_PRECISION))


def optimal_topic_precision(embedding: Floats) -> float:
    """α of highest likelihood: 1/α is the mean of u_km²."""
    return float(1 / np.clip(np.mean(embedding**2), 1 / LARGEST_PRECISION, 1 / SMALLEST_PRECISION))
