"""A document among very many topics: it looks at some of them one by one, at all others in groups.

Topics of a document differ from those it has nothing to do with by orders of magnitude, so most topics matter to it
only through Σ_k exp(m_k + u_k'γ), what they take together from the others. Topics are put into groups of near vectors,
and a group's sum is that of a normal distribution of vectors,

    x_g(γ) = log Σ_{k in g} exp(m_k + u_k'γ) ≈ log_mass_g + ū_g'γ + Σ_m spread_gm γ_m² / 2.

Candidates, looked at one by one, are the topics of the groups that weigh most at the document's last γ, the topics of
its tokens, and the most frequent topics of its words; they are taken out of their groups. What is left acts on the
joint solver as one more topic, whose weight log Σ_g exp x_g and vector (its gradient) follow γ.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse, special

from . import random
from .state import Floats, Ints, Topics
from .words import DrawTable, ranks_in_rows

# Groups: so many times the root of the number of topics, by so many rounds of Lloyd's algorithm; none has more topics
# than so many times the average.
GROUPS_PER_ROOT, ROUNDS, LARGEST_GROUP = 2.0, 5, 2.0
TOPICS_A_TIME = 8192
# Candidates of a word: its most frequent topics.
TOPICS_OF_A_WORD = 8
# A group with less than this share of its mass left is taken for empty.
REMNANT = 0.01
# Steps of a document from γ = 0, before candidates are chosen again at the γ that these have found.
FIRST_STEPS = 4
# Of so many documents one, in turns, tells the topics how much it has of those that are not its candidates.
TURNS, FEWEST_SPEAKERS = 16, 64


class Groups(NamedTuple):
    """Topics in groups, and each group as a normal distribution of vectors."""

    group: Ints  # of each topic [k]
    members: Ints  # topics in the order of their groups [k]
    starts: Ints  # group g's members are starts[g]:starts[g + 1]
    log_mass: Floats  # log Σ exp m_k [g]
    mean: Floats  # ū [g, m]
    spread: Floats  # variances of the dimensions [g, m]


class Rest(NamedTuple):
    """What is left of the groups without a document's candidates."""

    log_mass: Floats
    mean: Floats
    spread: Floats
    scatter: Floats | None = None  # of all topics in the average document, for the curvature [m, m]

    def log_weight(self, embedding: Floats) -> float:
        """log Σ_g exp x_g(γ)."""
        return float(special.logsumexp(self._weights(embedding))) if len(self.log_mass) else -np.inf

    def vector(self, embedding: Floats) -> Floats:
        """Its gradient in γ [m]."""
        if not len(self.log_mass):
            return np.zeros_like(embedding)
        share = special.softmax(self._weights(embedding))
        return np.asarray(share @ (self.mean + self.spread * embedding))

    def _weights(self, embedding: Floats) -> Floats:
        return np.asarray(self.log_mass + self.mean @ embedding + self.spread @ embedding**2 / 2)


NOTHING_LEFT = Rest(np.empty(0), np.empty((0, 0)), np.empty((0, 0)))


def group_topics(topics: Topics) -> Groups:
    """Groups of near topic vectors, by k-means from topics drawn at random, the same for the same topics."""
    n_groups = min(topics.n_topics, int(np.ceil(GROUPS_PER_ROOT * topics.n_topics**0.5)))
    embedding = topics.embedding.astype(np.float32)
    centres = embedding[random.permutation(topics.n_topics, 0, random.SHUFFLE)[:n_groups]]
    group = _nearest(embedding, centres)
    for _ in range(ROUNDS):
        members = _membership(group, n_groups)
        size = np.bincount(group, minlength=n_groups)[:, None]
        centres = np.where(size > 0, members @ embedding / np.maximum(size, 1), centres).astype(np.float32)
        group = _nearest(embedding, centres)
    group = _cut_large(group, embedding, n_groups)
    n_groups = int(group.max()) + 1
    mass = np.exp(topics.mean - topics.mean.max())
    weighted = _membership(group, n_groups) @ sparse.diags(mass)
    total = np.asarray(weighted.sum(axis=1))
    is_there = total.ravel() > 0
    mean = weighted @ topics.embedding / np.where(is_there[:, None], total, 1)
    spread = weighted @ (topics.embedding - mean[group]) ** 2 / np.where(is_there[:, None], total, 1)
    log_mass = np.log(total.ravel(), where=is_there, out=np.full(n_groups, -np.inf)) + topics.mean.max()
    starts = np.concatenate([[0], np.cumsum(np.bincount(group, minlength=n_groups))])
    return Groups(group, np.argsort(group, kind="stable"), starts, log_mass, mean, spread)


def _nearest(embedding: Floats, centres: Floats) -> Ints:
    lengths = np.sum(centres**2, axis=1) / 2
    blocks = range(0, len(embedding), TOPICS_A_TIME)
    return np.concatenate(
        [np.argmax(embedding[first : first + TOPICS_A_TIME] @ centres.T - lengths, axis=1) for first in blocks]
    )


def _cut_large(group: Ints, embedding: Floats, n_groups: int) -> Ints:
    """Groups that are too large in pieces, across the dimension in which their topics differ most: topics that little
    is known of have much the same vector, and whoever opened their group would look at all of them."""
    most, group = int(np.ceil(LARGEST_GROUP * len(group) / n_groups)), group.copy()
    starts = np.cumsum(np.bincount(group, minlength=n_groups))[:-1]
    for members in np.split(np.argsort(group, kind="stable"), starts):
        if len(members) > most:
            vectors = embedding[members]
            across = np.argsort(vectors[:, np.argmax(vectors.var(axis=0))], kind="stable")
            for piece in np.array_split(members[across], -(-len(members) // most))[1:]:
                group[piece] = n_groups
                n_groups += 1
    return group


def _membership(group: Ints, n_groups: int) -> sparse.csr_matrix:
    """Ones where a topic is in a group [g, k]."""
    n_topics = len(group)
    return sparse.csr_matrix((np.ones(n_topics), (group, np.arange(n_topics))), shape=(n_groups, n_topics))


def choose(groups: Groups, embedding: Floats, own: Ints, n_candidates: int) -> NDArray[np.int64]:
    """Candidates in ascending order: groups that weigh most, until they have `n_candidates` topics, and `own`."""
    whole = Rest(groups.log_mass, groups.mean, groups.spread)
    order = np.argsort(-whole._weights(embedding), kind="stable")
    sizes = np.diff(groups.starts)[order]
    opened = order[np.cumsum(sizes) - sizes < n_candidates]
    near = [groups.members[groups.starts[g] : groups.starts[g + 1]] for g in opened]
    return np.unique(np.concatenate([own, *near]).astype(np.int64))


def without(groups: Groups, chosen: NDArray[np.int64], topics: Topics) -> Rest:
    """The groups with the chosen topics taken out; spreads stay what they were."""
    largest = topics.mean.max()
    mass, before = np.exp(groups.log_mass - largest), np.exp(groups.log_mass - largest)
    taken = np.exp(topics.mean[chosen] - largest)
    pull = mass[:, None] * groups.mean
    np.subtract.at(mass, groups.group[chosen], taken)
    np.subtract.at(pull, groups.group[chosen], taken[:, None] * topics.embedding[chosen])
    left = (mass > REMNANT * before) & (before > 0)
    return Rest(
        np.log(mass[left]) + largest, pull[left] / mass[left, None], groups.spread[left], topics.embedding_scatter
    )


class Narrow(NamedTuple):
    """What a document sees of the model: its candidates, numbered anew, its words as rows of a table, the rest."""

    chosen: NDArray[np.int64]  # the candidates' numbers in the model, ascending
    topics: Topics  # embedding and mean of the candidates alone
    table: DrawTable
    rest: Rest


class Neighbourhood(NamedTuple):
    """What documents find their candidates by."""

    groups: Groups
    frequent: sparse.csr_matrix  # a word's most frequent topics [v, k], as entries
    n_candidates: int  # topics of opened groups

    def narrow(self, topics: Topics, table: DrawTable, words: Ints, draws: Ints | None, embedding: Floats) -> Narrow:
        own = self.frequent[words].indices if draws is None else np.append(self.frequent[words].indices, draws)
        chosen = choose(self.groups, embedding, own, self.n_candidates)
        some = replace(topics, embedding=topics.embedding[chosen], mean=topics.mean[chosen])
        return Narrow(chosen, some, own_table(table, words, chosen), without(self.groups, chosen, topics))


def neighbourhood(topics: Topics, n_candidates: int) -> Neighbourhood:
    return Neighbourhood(group_topics(topics), frequent_topics(topics.word_topic), n_candidates)


def frequent_topics(word_topic: sparse.csr_matrix) -> sparse.csr_matrix:
    """The entries that are a word's TOPICS_OF_A_WORD largest."""
    pairs = word_topic.tocoo()
    kept = ranks_in_rows(pairs.row, pairs.col, pairs.data) < TOPICS_OF_A_WORD
    return sparse.csr_matrix((pairs.data[kept], (pairs.row[kept], pairs.col[kept])), shape=word_topic.shape)


def own_table(table: DrawTable, words: Ints, chosen: NDArray[np.int64]) -> DrawTable:
    """The table's rows of some words, with the chosen topics alone."""
    lengths = np.diff(table.indptr)[words]
    entry = np.repeat(np.arange(len(words)), lengths)
    pair = np.arange(lengths.sum()) + np.repeat(table.indptr[words] - (np.cumsum(lengths) - lengths), lengths)
    kept = np.isin(table.topics[pair], chosen)
    indptr = np.searchsorted(entry[kept], np.arange(len(words) + 1))
    topics = np.searchsorted(chosen, table.topics[pair[kept]]).astype(np.int32)
    return DrawTable(indptr, topics, table.weights[pair[kept]], table.rest[chosen])


def steps_of_rounds(n_steps: int, embedding: Floats) -> list[int]:
    """Candidates are chosen once; of a document that nothing is known of, again after FIRST_STEPS."""
    knows_nothing = n_steps > FIRST_STEPS and not embedding.any()
    return [FIRST_STEPS, n_steps - FIRST_STEPS] if knows_nothing else [n_steps]


def take_turns(n_documents: int, sweep: int) -> NDArray[np.bool_]:
    """Which documents of a batch speak of all topics in this sweep: one in TURNS, or all where they are few."""
    n_turns = max(1, min(TURNS, n_documents // FEWEST_SPEAKERS))
    return np.asarray((np.arange(n_documents) + sweep) % n_turns == 0)
