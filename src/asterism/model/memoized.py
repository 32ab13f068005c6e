"""Memoized inference: every document's last contribution is remembered, so the topics need no step size.

Word counts are those of the tokens' last draws, exact integers: a batch takes its old draws out and puts its new ones
in, and topic embeddings from how topics occur together (cooccurrence.py). Once expected counts take the place of draws,
embeddings follow from moments of the whole corpus, with the coupling of a and η that mean field drops
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
from scipy import special

from . import document, joint, random
from .candidates import NOTHING_LEFT, Narrow, Neighbourhood, Rest, steps_of_rounds
from .state import Floats, Ints, Topics
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
    expected: Ints  # counts aligned with the topics' word_topic, in units


# Newton steps of a document in a sweep: with draws, from its last embedding or from none; with expected counts, which
# change along the way.
STEPS_WITH_DRAWS, STEPS_FROM_NOTHING, SOFT_STEPS = 1, 6, 6


@dataclass(frozen=True)
class Relaxation:
    """How far a document is relaxed in one sweep."""

    n_top: int  # K_s
    n_steps: int  # Newton steps; expected counts are renewed in each, draws' counts stay
    tol: float = 0.0  # ... or until they gain less (joint.solve)
    is_counted: bool = True  # whether the topics have counted the document's tokens

    def counted(self, topics: Topics) -> float:
        """As of tokens.leave_itself."""
        return 1 / topics.priors.beta if self.is_counted else 0.0


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
    settings: Relaxation,
    rest: Rest = NOTHING_LEFT,
) -> joint.Solution:
    """A document's next γ and ξ, from its last γ: for the counts of its draws, or without (None) for expected counts,
    which are renewed every step."""
    if draws is None:
        how = settings.n_top, topics.priors.tau, settings.counted(topics)
        topic_counts = document.expectation(table, words, counts, *how)
    else:
        drawn = np.bincount(draws, minlength=topics.n_topics).astype(np.float64)

        def topic_counts(shares: Floats, step: int) -> Floats:
            return drawn

    return joint.solve(topics, embedding, topic_counts, settings.n_steps, settings.tol, rest)


def redraw_document(
    topics: Topics,
    table: DrawTable,
    words: Ints,
    counts: Ints,
    draws: Ints,
    embedding: Floats,
    key: tuple[int, ...],
    settings: Relaxation,
) -> tuple[Ints, Floats]:
    """A document's next draws and γ, from its last ones."""
    solution = relax_document(topics, table, words, counts, draws, embedding, settings)
    mean = document.prior_mean(solution.embedding, topics)
    weights = document.predictive_weights(mean, solution.topic_counts)
    uniforms = uniforms_of(key, len(draws))
    redrawn = document.redraw_tokens(topics, table, words, counts, draws, weights, uniforms, settings.n_top)
    return redrawn, solution.embedding


def uniforms_of(key: tuple[int, ...], n_tokens: int) -> Floats:
    """One for each token of a document."""
    return random.uniforms(random.stream(*key, random.DRAWS, 0), np.arange(n_tokens))


def relax_among_candidates(
    topics: Topics,
    table: DrawTable,
    near: Neighbourhood,
    words: Ints,
    counts: Ints,
    draws: Ints | None,
    embedding: Floats,
    settings: Relaxation,
) -> tuple[joint.Solution, Narrow]:
    """relax_document with some of the topics, chosen by its last γ."""
    for n_steps in steps_of_rounds(settings.n_steps, embedding):
        narrow = near.narrow(topics, table, words, draws, embedding)
        solution = relax_document(
            narrow.topics,
            narrow.table,
            np.arange(len(words)),
            counts,
            None if draws is None else np.searchsorted(narrow.chosen, draws),
            embedding,
            replace(settings, n_steps=n_steps),
            narrow.rest,
        )
        embedding = solution.embedding
    return solution, narrow


def redraw_among_candidates(
    topics: Topics,
    table: DrawTable,
    near: Neighbourhood,
    words: Ints,
    counts: Ints,
    draws: Ints,
    embedding: Floats,
    key: tuple[int, ...],
    settings: Relaxation,
) -> tuple[Ints, Floats]:
    """redraw_document with some of the topics, chosen by its last γ."""
    solution, narrow = relax_among_candidates(topics, table, near, words, counts, draws, embedding, settings)
    mean, log_rest = document.prior_mean(solution.embedding, narrow.topics), narrow.rest.log_weight(solution.embedding)
    weights = document.predictive_weights(mean, solution.topic_counts, log_rest)
    redrawn = document.redraw_tokens(
        narrow.topics,
        narrow.table,
        np.arange(len(words)),
        counts,
        np.searchsorted(narrow.chosen, draws),
        weights,
        uniforms_of(key, len(draws)),
        settings.n_top,
    )
    return narrow.chosen[redrawn], solution.embedding


def infer_among_candidates(
    topics: Topics, table: DrawTable, near: Neighbourhood, words: Ints, counts: Ints, n_top: int
) -> tuple[Floats, Floats, Floats]:
    """document.infer_document with candidates; other topics keep the weight that the embedding gives them."""
    nothing = np.zeros(topics.n_dims)
    settings = Relaxation(n_top, document.INFER_STEPS, document.INFER_TOL, is_counted=False)
    solution, narrow = relax_among_candidates(topics, table, near, words, counts, None, nothing, settings)
    mean, drawn = document.prior_mean(solution.embedding, topics), np.zeros(topics.n_topics)
    weights = mean.copy()
    weights[narrow.chosen], drawn[narrow.chosen] = solution.weights, solution.topic_counts
    omega = special.softmax(weights) * drawn.sum() / topics.priors.tau
    return solution.embedding, document.predictive_weights(mean, drawn), omega


def expected_word_topic(
    table: DrawTable, words: Ints, counts: Ints, solution: joint.Solution, tau: float, counted: float, out: Ints
) -> None:
    """Add the tokens' responsibilities over their words' own topics to `out`, aligned with the table's pairs."""
    nothing, omega = np.array([], dtype=np.int64), 1 / solution.shrinkage - 1
    for word, count in zip(words, counts, strict=True):
        own = slice(table.indptr[word], table.indptr[word + 1])
        _, mass = document.expected_mass(table, word, solution.weights, nothing, omega, tau, counted)
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


@dataclass(frozen=True)
class ResidualSums:
    """What documents add where most topics are not looked at: sums of r = ξ - m - U γ = n/τ - ω, which is next to
    nothing for those. All else follows from γ. Added to in place."""

    residual_embedding: Floats  # Σ r (γ, 1)' [k, m + 1]
    residual_square: Floats  # Σ r² [k]
    unshrunk: Floats  # Σ (1 - s) and Σ (1 - s²) [2, k]
    embedding_outer: Floats  # Σ (γ, 1) (γ, 1)' [m + 1, m + 1]
    cov_sum: Floats  # Σ H^-1 [m, m]


def new_residual_sums(topics: Topics) -> ResidualSums:
    zeros = new_sums(topics)
    return ResidualSums(
        zeros.weight_embedding, zeros.weight_square, zeros.shrinkage, zeros.embedding_outer, zeros.cov_sum
    )


def add_candidates(narrow: Narrow, solution: joint.Solution, sums: ResidualSums) -> None:
    """A document and its candidates."""
    augmented = np.append(solution.embedding, 1)
    residual = solution.weights - narrow.topics.mean - narrow.topics.embedding @ solution.embedding
    _add_residuals(narrow.chosen, residual, solution.shrinkage, augmented, 1.0, sums)
    sums.embedding_outer[:] += np.outer(augmented, augmented)
    sums.cov_sum[:] += np.linalg.inv(solution.precision)


def add_others(
    topics: Topics, narrow: Narrow, solution: joint.Solution, n_tokens: int, times: float, sums: ResidualSums
) -> None:
    """The topics that were no candidates of a document, which stands for so many documents: their r is -ω."""
    others = np.setdiff1d(np.arange(topics.n_topics), narrow.chosen)
    mean = topics.mean[others] + topics.embedding[others] @ solution.embedding
    log_normaliser = np.logaddexp(special.logsumexp(solution.weights), narrow.rest.log_weight(solution.embedding))  # ζ
    omega = special.wrightomega(mean + np.log(n_tokens / topics.priors.tau) - log_normaliser)
    _add_residuals(others, -omega, 1 / (1 + omega), np.append(solution.embedding, 1), times, sums)


def _add_residuals(
    topics: Ints, residual: Floats, shrinkage: Floats, augmented: Floats, times: float, sums: ResidualSums
) -> None:
    sums.residual_embedding[topics] += times * np.outer(residual, augmented)
    sums.residual_square[topics] += times * residual**2
    sums.unshrunk[:, topics] += times * (1 - np.stack([shrinkage, shrinkage**2]))


def whole_sums(sums: ResidualSums, topics: Topics) -> Sums:
    """Sums of ξ = (U, m) (γ, 1) + r."""
    line = np.column_stack([topics.embedding, topics.mean])
    prior, n_documents = line @ sums.embedding_outer, sums.embedding_outer[-1, -1]
    return Sums(
        prior + sums.residual_embedding,
        sums.embedding_outer,
        np.sum(line * (prior + 2 * sums.residual_embedding), axis=1) + sums.residual_square,
        n_documents - sums.unshrunk,
        sums.cov_sum,
    )


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
