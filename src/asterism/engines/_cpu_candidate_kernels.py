"""Compiled loops of the document step with candidates: see model/candidates.py.

A document's candidates are copied together, its words' topics are numbered by them, and the joint solver's parts work
on that small model as if there were no other, but for the rest that travels in `Slots`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..model.candidates import FIRST_STEPS, REMNANT
from ..model.document import PRIOR_IN_TOKENS
from ..model.random import DRAWS
from ._cpu_joint_kernels import (
    DOCUMENTS_A_BLOCK,
    LARGEST_SMALL,
    Scratch,
    Slots,
    find_forces,
    find_weights,
    invert,
    large_omega,
    length_of,
    move_embedding,
    new_scratch,
    put_down,
    small_omega,
    take_up,
)
from ._cpu_kernels import (
    Candidates,
    Corpus,
    Space,
    Table,
    largest,
    substream,
)
from ._cpu_token_kernels import redraw_tokens, spread_document
from ._jit import exp_of, kernel, part, passage

Array = Any

# In place of log 0: differences of it are numbers.
NO_MASS = -1e30


class Near(NamedTuple):
    """The fields of candidates.Neighbourhood."""

    group: Array  # [k]
    members: Array  # [k]
    starts: Array  # [g + 1]
    mass: Array  # Σ exp(m - max m) [g]
    log_mass: Array  # [g]
    mean: Array  # [g, m]
    spread: Array  # [g, m]
    topic_mass: Array  # exp(m - max m) [k]
    largest_mean: float  # max m
    word_starts: Array  # word v's frequent topics are word_starts[v]:word_starts[v + 1]
    word_topics: Array
    n_candidates: int


class Found(NamedTuple):
    """What was found of documents; document d's candidates begin at starts[d]."""

    starts: Array
    sizes: Array  # candidates [d]
    topics: Array  # their numbers
    residual: Array  # n/τ - ω
    omega: Array
    log_normaliser: Array  # ζ [d]


class Choice(NamedTuple):
    """Work space: a document's candidates, and the groups without them."""

    chosen: Array  # their numbers, ascending
    place: Array  # of each topic among them, -1 for others [k]
    touched: Array  # groups that are not as they were
    sizes: Array  # numbers of candidates and of touched groups
    mass: Array
    log_mass: Array
    mean: Array
    weight: Array  # [g]
    spread_weight: Array  # [g]
    half_square: Array  # γ²/2 [m]
    of_spread: Array  # [m]


@passage
def new_choice(near: Any, most: int) -> Any:
    n_groups, n_dims = near.mean.shape
    weights, dims = np.empty((2, n_groups), near.mean.dtype), np.empty((2, n_dims), near.mean.dtype)
    place = np.empty(near.group.size, np.int32)
    place[:] = -1
    return Choice(
        np.empty(most, np.int32),
        place,
        np.empty(n_groups + most, np.int32),
        np.zeros(2, np.int64),
        near.mass.copy(),
        near.log_mass.copy(),
        near.mean.copy(),
        weights[0],
        weights[1],
        dims[0],
        dims[1],
    )


@part
def forget(near: Any, choice: Any) -> None:
    """Make the choice empty again."""
    for i in range(choice.sizes[0]):
        choice.place[choice.chosen[i]] = -1
    for i in range(choice.sizes[1]):
        g = choice.touched[i]
        choice.mass[g], choice.log_mass[g] = near.mass[g], near.log_mass[g]
        choice.mean[g] = near.mean[g]
    choice.sizes[:] = 0


@part
def weigh_groups(gamma: Array, near: Any, choice: Any) -> None:
    """candidates.Rest's weights x_g, of what is left of the groups."""
    for i in range(gamma.size):
        choice.half_square[i] = gamma[i] * gamma[i] / 2
    np.dot(choice.mean, gamma, choice.weight)
    np.dot(near.spread, choice.half_square, choice.spread_weight)
    for g in range(choice.weight.size):
        choice.weight[g] += choice.log_mass[g] + choice.spread_weight[g]


@part
def weigh_rest(gamma: Array, near: Any, choice: Any, out: Array) -> float:
    """candidates.Rest.log_weight and, in out, its vector."""
    weigh_groups(gamma, near, choice)
    heaviest, total = largest(choice.weight), 0.0
    if heaviest < NO_MASS / 2:
        out[:] = 0
        return -np.inf
    for g in range(choice.weight.size):
        choice.weight[g] = exp_of(choice.weight[g] - heaviest)
        total += choice.weight[g]
    np.dot(choice.weight, choice.mean, out)
    np.dot(choice.weight, near.spread, choice.of_spread)
    for i in range(gamma.size):
        out[i] = (out[i] + choice.of_spread[i] * gamma[i]) / total
    return float(heaviest + np.log(total))


@part
def add_candidate(k: int, space: Any, near: Any, choice: Any) -> None:
    """A candidate that is in no opened group: it leaves its group."""
    if choice.place[k] >= 0:
        return
    n, g, own = choice.sizes[0], near.group[k], near.topic_mass[k]
    choice.place[k], choice.chosen[n] = n, k
    choice.sizes[0] = n + 1
    left = choice.mass[g] - own
    choice.touched[choice.sizes[1]] = g
    choice.sizes[1] += 1
    if left > REMNANT * near.mass[g]:
        u, mean = space.embedding[k], choice.mean[g]
        keep, share = mean.dtype.type(choice.mass[g] / left), mean.dtype.type(own / left)
        for i in range(mean.size):
            mean[i] = keep * mean[i] - share * u[i]
        choice.mass[g], choice.log_mass[g] = left, np.log(left) + near.largest_mean
    else:  # what more is taken out of it does not matter
        choice.mass[g], choice.log_mass[g] = left, NO_MASS


@part
def choose(d: int, gamma: Array, corpus: Any, draws: Array, space: Any, near: Any, choice: Any) -> int:
    """candidates.choose and candidates.without; returns the number of candidates."""
    forget(near, choice)
    weigh_groups(gamma, near, choice)
    n = 0
    while n < near.n_candidates:
        heaviest = 0
        for g in range(1, choice.weight.size):
            if choice.weight[g] > choice.weight[heaviest]:
                heaviest = g
        if choice.weight[heaviest] < NO_MASS / 2:
            break
        choice.weight[heaviest], choice.mass[heaviest], choice.log_mass[heaviest] = NO_MASS, 0.0, NO_MASS
        choice.touched[choice.sizes[1]] = heaviest
        choice.sizes[1] += 1
        for i in range(near.starts[heaviest], near.starts[heaviest + 1]):
            choice.chosen[n], choice.place[near.members[i]] = near.members[i], n
            n += 1
    choice.sizes[0] = n
    first, last = corpus.indptr[d], corpus.indptr[d + 1]
    if draws.size:
        for token in range(corpus.token_offsets[first], corpus.token_offsets[last]):
            add_candidate(draws[token], space, near, choice)
    for entry in range(first, last):
        for i in range(near.word_starts[corpus.words[entry]], near.word_starts[corpus.words[entry] + 1]):
            add_candidate(near.word_topics[i], space, near, choice)
    n = choice.sizes[0]
    chosen = choice.chosen[:n]
    chosen.sort()
    for i in range(n):
        choice.place[chosen[i]] = i
    return int(n)


class Pairs(NamedTuple):
    """Work space: a document's own table."""

    starts: Array
    topics: Array
    weights: Array
    rest: Array
    origin: Array  # of each pair in the whole table
    words: Array
    offsets: Array


@part
def list_pairs(d: int, corpus: Any, table: Any, choice: Any, pairs: Any) -> None:
    """candidates.own_table."""
    n, first = 0, corpus.indptr[d]
    for i in range(choice.sizes[0]):
        pairs.rest[i] = table.rest[choice.chosen[i]]
    for entry in range(first, corpus.indptr[d + 1]):
        word = corpus.words[entry]
        pairs.words[entry - first], pairs.starts[entry - first] = entry - first, n
        pairs.offsets[entry - first] = corpus.token_offsets[entry] - corpus.token_offsets[first]
        for i in range(table.indptr[word], table.indptr[word + 1]):
            place = choice.place[table.topics[i]]
            if place >= 0:
                pairs.topics[n], pairs.weights[n], pairs.origin[n] = place, table.weights[i], i
                n += 1
    n_entries = corpus.indptr[d + 1] - first
    pairs.starts[n_entries] = n
    pairs.offsets[n_entries] = corpus.token_offsets[corpus.indptr[d + 1]] - corpus.token_offsets[first]


@part
def most_of_a_document(first: int, last: int, corpus: Any, table: Any) -> Any:
    """Entries and pairs of word and topic that a document has, at most."""
    entries, pairs = 0, 0
    for d in range(first, last):
        entries, n = max(entries, corpus.indptr[d + 1] - corpus.indptr[d]), 0
        for entry in range(corpus.indptr[d], corpus.indptr[d + 1]):
            n += table.indptr[corpus.words[entry] + 1] - table.indptr[corpus.words[entry]]
        pairs = max(pairs, n)
    return entries, pairs


class Room(NamedTuple):
    """Work space of a document's small model: of its slot, by dimension, and by candidate."""

    number: Array
    value: Array
    of_dims: Array
    move: Array
    factor: Array
    of_topics: Array
    sums: Array
    marks: Array
    rows: Array  # the candidates' vectors
    heavy: Array
    heap: Array
    bounds: Array  # of its entries


@passage
def new_room(most: int, n_top: int, space: Any) -> Any:
    n_dims, real = space.embedding.shape[1], space.embedding.dtype
    return Room(
        np.zeros((3, 1), np.int64),
        np.zeros((5, 1), np.float64),
        np.zeros((5, 1, n_dims), real),
        np.zeros((1, n_dims), np.float64),
        np.zeros((1, n_dims, n_dims), np.float64),
        np.empty((9, most), real),
        np.empty((2, most), np.float64),
        np.empty((2, most), np.bool_),
        np.empty((most, n_dims), real),
        np.empty(most, np.int32),
        np.empty(n_top, np.int32),
        np.zeros(2, np.int64),
    )


@passage
def new_pairs(first: int, last: int, corpus: Any, table: Any, most: int) -> Any:
    real = table.weights.dtype
    n_entries, n_pairs = most_of_a_document(first, last, corpus, table)
    return Pairs(
        np.zeros(n_entries + 1, np.int64),
        np.empty(n_pairs, np.int32),
        np.empty(n_pairs, real),
        np.empty(most, real),
        np.empty(n_pairs, np.int64),
        np.zeros(n_entries, np.int32),
        np.zeros(n_entries + 1, np.int64),
    )


@passage
def small_space(space: Any, choice: Any, room: Any) -> Any:
    """The candidates alone."""
    n = choice.sizes[0]
    U, mean = room.rows[:n], room.of_topics[3][:n]
    for i in range(n):
        U[i] = space.embedding[choice.chosen[i]]
        mean[i] = space.mean[choice.chosen[i]]
    return Space(U, U.T, space.tiles, mean, space.gain, space.precision, space.scatter, space.tau)


@passage
def small_corpus(d: int, corpus: Any, pairs: Any, room: Any) -> Any:
    """The document alone."""
    first, last = corpus.indptr[d], corpus.indptr[d + 1]
    room.bounds[1] = last - first
    return Corpus(room.bounds, pairs.words, corpus.counts[first:last], pairs.offsets)


@passage
def small_slots(n: int, room: Any) -> Any:
    number, value, of_dims = room.number, room.value, room.of_dims
    value[3] = -np.inf
    return Slots(
        number[0],
        number[1],
        number[2],
        value[0],
        value[1],
        value[2],
        value[3],
        value[4],
        of_dims[0],
        room.move,
        of_dims[1],
        of_dims[2],
        of_dims[3],
        of_dims[4],
        room.factor,
        room.of_topics[0][:n].reshape((1, n)),
        room.of_topics[1][:n].reshape((1, n)),
        room.of_topics[2][:n].reshape((1, n)),
        room.marks[0][:n].reshape((1, n)),
    )


@passage
def small_scratch(n: int, scratch: Any, room: Any) -> Any:
    before = room.of_topics[5][:n]
    return Scratch(room.of_topics[4][:n], room.heavy, room.sums[0], before, scratch.rows, scratch.H, scratch.rhs)


@kernel
def relax_among_candidates(
    first: int,
    last: int,
    corpus: Any,
    table: Any,
    space: Any,
    near: Any,
    n_top: int,
    n_steps: int,
    tol: float,
    beta: float,
    counted: float,
    streams: Array,
    draws: Array,
    gammas: Array,
    found: Any,
    covs: Array,
    expected: Array,
) -> None:
    """memoized.relax_among_candidates for documents first:last; γ and draws are overwritten.

    Without draws (an empty array) the counts are expectations, which are added to `expected` if there is room for them.
    """
    n_dims = space.embedding.shape[1]
    inverses = np.empty((len(covs) and (last - first) * n_dims, n_dims), np.float64)
    most = 1
    for d in range(first, last):
        most = max(most, found.starts[d + 1] - found.starts[d])
    choice, scratch, is_soft = new_choice(near, most), new_scratch(space), draws.size == 0
    pairs, room = new_pairs(first, last, corpus, table, most), new_room(most, n_top, space)
    for d in range(first, last):
        at, n_tokens = found.starts[d], length_of(d, corpus)
        first_token = corpus.token_offsets[corpus.indptr[d]]
        own = draws[first_token : first_token + (0 if is_soft else int(n_tokens))]
        gamma = gammas[d : d + 1]
        n_rounds = 2 if n_steps > FIRST_STEPS and not gamma.any() else 1
        for turn in range(n_rounds):
            n_left = n_steps if n_rounds == 1 else (FIRST_STEPS if turn == 0 else n_steps - FIRST_STEPS)
            n = choose(d, gammas[d], corpus, draws, space, near, choice)
            list_pairs(d, corpus, table, choice, pairs)
            small, document = small_space(space, choice, room), small_corpus(d, corpus, pairs, room)
            own_table = Table(pairs.starts, pairs.topics, pairs.weights, pairs.rest[:n])
            slots, work = small_slots(n, room), small_scratch(n, scratch, room)
            of_topics, scale = room.of_topics, room.of_topics[6][:n]
            candidates = Candidates(
                room.heap[: min(n_top, n)], room.marks[1][:n], scale, of_topics[7][:n], room.sums[1]
            )
            for token in range(own.size):
                own[token] = choice.place[own[token]]
            take_up(0, 0, n_left, document, small, own, gamma, slots)
            while slots.document[0] >= 0:
                np.dot(small.embedding, slots.embedding[0], slots.mean[0])
                slots.log_rest[0] = weigh_rest(slots.embedding[0], near, choice, slots.rest[0])
                find_weights(0, 0, document, own_table, small, is_soft, counted, slots, work, candidates)
                if slots.is_last[0] == 1:
                    break
                find_forces(1, small, slots)
                move_embedding(0, n_tokens, tol, small, slots, work)
                slots.step[0] += 1
                if slots.step[0] >= n_left:
                    slots.is_last[0] = 1
            for i in range(n):
                found.topics[at + i] = choice.chosen[i]
                found.residual[at + i] = slots.counts[0, i] / space.tau - slots.omega[0, i]
                found.omega[at + i] = slots.omega[0, i]
            found.sizes[d], found.log_normaliser[d] = n, slots.log_normaliser[0]
            xi, shrinkage = of_topics[5][:n].reshape((1, n)), of_topics[8][:n].reshape((1, n))
            put_down(0, 0, n_tokens, small, 0.0 if is_soft else PRIOR_IN_TOKENS, gamma, xi, shrinkage, slots)
            if turn < n_rounds - 1:
                for token in range(own.size):
                    own[token] = choice.chosen[own[token]]
        if covs.size:
            invert(room.factor[0], inverses[(d - first) * n_dims : (d - first + 1) * n_dims])
        if not is_soft:
            stream = substream(substream(streams[d], DRAWS), 0)
            redraw_tokens(0, document, own_table, beta, xi[0], stream, candidates, own)
            for token in range(own.size):
                own[token] = choice.chosen[own[token]]
        elif expected.size:
            omega, origin = room.of_topics[4][:n], pairs.origin
            shares = xi[0], shrinkage[0], origin, candidates, work, omega
            spread_document(0, document, own_table, space.tau, counted, *shares, expected)
    if covs.size:
        np.dot(inverses.T, inverses, covs[first // DOCUMENTS_A_BLOCK])


@kernel
def add_residuals(
    first: int, last: int, gammas: Array, found: Any, residual_embedding: Array, square: Array, unshrunk: Array
) -> None:
    """memoized.add_candidates for topics first:last: documents in their order, whoever adds."""
    n_dims = gammas.shape[1]
    for d in range(len(gammas)):
        for i in range(found.starts[d], found.starts[d] + found.sizes[d]):
            k = found.topics[i]
            if first <= k < last:
                r, row = float(found.residual[i]), residual_embedding[k]
                for m in range(n_dims):
                    row[m] += r * gammas[d, m]
                row[n_dims] += r
                square[k] += r * r
                s = 1 / (1 + float(found.omega[i]))
                unshrunk[0, k] += 1 - s
                unshrunk[1, k] += 1 - s * s


@kernel
def weigh_others(
    first: int, last: int, documents: Array, shift: Array, space: Any, gammas: Array, found: Any, out: Array
) -> None:
    """ω of the topics that are no candidates of some documents, given their γ and log(N/τ) - ζ; 0 for candidates."""
    rows, most = out[first:last], out.dtype.type(LARGEST_SMALL)
    np.dot(gammas[first:last], space.embedding_by_dim, rows)
    for i in range(first, last):
        row, by = out[i], shift[i]
        for k in range(row.size):
            row[k] += space.mean[k] + by
        if largest(row) < most:
            for k in range(row.size):
                row[k] = small_omega(exp_of(row[k]))
        else:
            for k in range(row.size):
                row[k] = small_omega(exp_of(row[k])) if row[k] < most else large_omega(row[k])
        start = found.starts[documents[i]]
        for j in range(start, start + found.sizes[documents[i]]):
            row[found.topics[j]] = 0
