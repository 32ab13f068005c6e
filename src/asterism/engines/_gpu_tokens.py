"""Tokens of many documents at once, in torch: model/tokens.py, and document.redraw_tokens.

A word's own topics are a row of pairs (document's word, topic), all rows end to end. A document's weights of topics are
given as shares to any factor: θ, ω or exp(ξ - max ξ).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from ..model.joint import renews_curvature
from ..model.tokens import LEAST_SHARE, LEAVINGS
from . import _gpu_random as random
from ._gpu_corpus import DeviceBatch, documents_of_entries, sums_by
from ._gpu_room import Room
from ._gpu_rows import Rows, heaviest, pick, row_sums, rows_of, running_shares

Tensor = Any
# A word of which a document has next to nothing still has topics.
SMALLEST_SHARE = 1e-37


class Table(NamedTuple):
    """words.DrawTable on the device."""

    indptr: Tensor
    topics: Tensor
    weights: Tensor
    rest: Tensor
    beta: float

    @property
    def n_topics(self) -> int:
        return len(self.rest)


class Weighed(NamedTuple):
    """Some documents' topics, weighed for drawing [d, k]."""

    scale: Tensor  # shares
    rest_of_top: Tensor  # mass of the top bucket, 0 for all other topics
    top_total: Tensor  # its sum [d]


def weigh(shares: Tensor, is_top: Tensor, table: Table) -> Weighed:
    """tokens.candidate_mass, the part shared by a document's words."""
    scale = shares.clamp_min(SMALLEST_SHARE)
    rest_of_top = torch.where(is_top, scale * table.rest, 0)
    return Weighed(scale, rest_of_top, rest_of_top.sum(dim=1, dtype=torch.float64))


class Own(NamedTuple):
    """Entries' own topics: the pairs of each entry are a row."""

    rows: Rows
    pair: Tensor  # place in the table
    topic: Tensor
    cell: Tensor  # document * topics + topic


def own_topics(words: Tensor, document: Tensor, table: Table) -> Own:
    starts = table.indptr[words]
    rows = rows_of(table.indptr[words + 1] - starts)
    pair = starts[rows.row] + rows.place
    topic = table.topics[pair].long()
    return Own(rows, pair, topic, document[rows.row] * table.n_topics + topic)


def own_mass(own: Own, weighed: Weighed, table: Table) -> tuple[Tensor, Tensor]:
    """tokens.candidate_mass, the own bucket: of each pair, and each entry's sum in float64."""
    mass = weighed.scale.view(-1)[own.cell] * table.weights[own.pair] - weighed.rest_of_top.view(-1)[own.cell]
    mass = mass.clamp_min(0)
    return mass, row_sums(mass.to(torch.float64), own.rows)


# --- draws ----------------------------------------------------------------------------------------------------------


class Tokens(NamedTuple):
    """Tokens of some entries."""

    entry: Tensor  # numbered from the first of them
    document: Tensor
    place: Tensor  # in the document


def share_left(omega: Tensor, leaving: Tensor | float) -> Tensor:
    """tokens.share_left, by Newton's method for log(ω'/ω), as a part of the CPU's kernels does it."""
    y = -leaving / (1 + omega)
    for _ in range(3):
        e = torch.exp(y)
        y = y - (omega * (e - 1) + y + leaving) / (omega * e + 1)
    return torch.exp(y)


def leave_itself(
    own: Own, mass: Tensor, total: Tensor, omega: Weighed, table: Table, tau: float, counted: float
) -> Tensor:
    """tokens.leave_itself: the own bucket's mass of each pair once a token of it has left, given each entry's total."""
    in_top, of_pair = omega.rest_of_top.view(-1)[own.cell], omega.scale.view(-1)[own.cell]
    whole = mass + in_top
    (pair,) = torch.nonzero(whole > LEAST_SHARE * tau * total[own.rows.row], as_tuple=True)
    row, floor, all_of_it, of_topic = own.rows.row[pair], in_top[pair], whole[pair], of_pair[pair]
    of_prior = table.rest[own.topic[pair]] / table.weights[own.pair[pair]]
    left, now = all_of_it, total
    for _ in range(LEAVINGS):
        share = left / now[row].to(left.dtype)
        of_counts = torch.maximum(1 - share * of_prior * counted, of_prior)
        left = torch.maximum(floor, all_of_it * share_left(of_topic, share / tau) * of_counts)
        now = total.index_add(0, row, (left - all_of_it).to(torch.float64))
    return mass.index_copy(0, pair, left - floor)


def draw(
    batch: DeviceBatch, first: int, last: int, weighed: Weighed, table: Table, streams: Tensor, before: Tensor | None
) -> Tensor:
    """Topics of the tokens of entries first:last, from each document's stream [d]: document.draw_tokens, or with what
    their tokens had `before` document.redraw_tokens."""
    tokens, of_document = tokens_of_entries(batch, first, last)
    own = own_topics(batch.words[first:last].long(), of_document, table)
    mass, own_total = own_mass(own, weighed, table)
    line = running_shares(mass, own.rows, own_total)
    uniforms = random.uniforms(streams[tokens.document], tokens.place)
    own_of, top_of = own_total[tokens.entry], weighed.top_total[tokens.document]
    gap = end = torch.zeros_like(own_of)
    if before is not None:
        end, gap = _own_gap(batch, first, tokens, own, mass, line, own_total, weighed, table, before)
    target = uniforms * (own_of + top_of - gap)
    target = torch.where(target < end, target, target + gap)
    drawn = tokens.document.new_zeros(len(target))
    is_own = target < own_of
    row = tokens.entry[is_own]
    share = target[is_own] / own_of[is_own]
    drawn[is_own] = own.topic[pick(line, own.rows.starts, row, share)] if len(row) else drawn[is_own]
    drawn[~is_own] = _pick_top(weighed, tokens.document[~is_own], (target - own_of)[~is_own])
    return drawn


def tokens_of_entries(batch: DeviceBatch, first: int, last: int) -> tuple[Tokens, Tensor]:
    """Tokens of some entries, numbered from the first of them, and the entries' documents."""
    of_document = torch.searchsorted(
        batch.indptr, torch.arange(first, last, device=batch.indptr.device), right=True
    ).sub(1)
    entry = rows_of(batch.counts[first:last])
    document = of_document[entry.row]
    place = batch.token_offsets[first:last][entry.row] + entry.place - batch.document_offsets[document]
    return Tokens(entry.row, document, place), of_document


def _own_gap(
    batch: DeviceBatch,
    first: int,
    tokens: Tokens,
    own: Own,
    mass: Tensor,
    line: Tensor,
    own_total: Tensor,
    weighed: Weighed,
    table: Table,
    topic: Tensor,
) -> tuple[Tensor, Tensor]:
    """Where the mass of each token's last topic ends without the token, and how much of it is gone."""
    place = _place_of(batch.words[first:][tokens.entry].long(), topic, table)
    listed = place >= 0
    pair = own.rows.starts[tokens.entry] + place
    pair = torch.where(listed, pair, 0)
    in_table, cell = own.pair[pair], tokens.document * table.n_topics + topic
    itself = table.rest[topic] / (table.beta * table.weights[in_table])
    left = (weighed.scale.view(-1)[cell] - 1).clamp_min(0) * (1 - itself)
    here = mass[pair].to(torch.float64)
    remains = left * table.weights[in_table] - weighed.rest_of_top.view(-1)[cell]
    through = (line[pair] - tokens.entry) * own_total[tokens.entry]
    end = through - here + remains.clamp_min(0).to(torch.float64)
    return torch.where(listed, end, 0), torch.where(listed, through - end, 0)


def _place_of(words: Tensor, topics: Tensor, table: Table) -> Tensor:
    """Where the word's row, which is sorted, has the topic; -1 where it has not."""
    low, end = table.indptr[words], table.indptr[words + 1]
    start, high = low, end
    while bool((low < high).any()):
        middle = (low + high) // 2
        is_before = (low < high) & (table.topics[middle.clamp_max(len(table.topics) - 1)] < topics)
        low = torch.where(is_before, middle + 1, low)
        high = torch.where(is_before, high, middle.maximum(low))
    is_there = (low < end) & (table.topics[low.clamp_max(len(table.topics) - 1)] == topics)
    return torch.where(is_there, low - start, -1)


def _pick_top(weighed: Weighed, document: Tensor, target: Tensor) -> Tensor:
    """The topic of the top bucket at which its running mass passes the target."""
    if not len(document):
        return document
    documents, row = document.unique(return_inverse=True)
    line = weighed.rest_of_top[documents].to(torch.float64)
    total = line.sum(dim=1)
    n_topics, number = line.shape[1], torch.arange(len(line), device=line.device)
    line = (line / total[:, None]).cumsum(dim=1) + number[:, None]
    # A target at the very end takes the last topic that has mass.
    share = (target / total[row]).clamp(0, 1 - 1e-9)
    return torch.searchsorted(line.view(-1), row + share, right=True).sub(row * n_topics).clamp(0, n_topics - 1)


# --- expectations ---------------------------------------------------------------------------------------------------


class Expectation:
    """document.expectation of many documents: counts of topics, given shares; heaviest topics are renewed with H."""

    def __init__(
        self,
        table: Table,
        batch: DeviceBatch,
        n_top: int,
        tau: float,
        counted: float,
        room: Room,
        kernels: Any = None,
    ) -> None:
        self.table, self.batch, self.n_top, self.room, self.kernels = table, batch, n_top, room, kernels
        self.tau, self.counted = tau, counted
        self.some, self.is_top = batch, torch.empty(0)
        self.document = documents_of_entries(batch)

    def counts(self, shares: Tensor, rows: Tensor, step: int) -> Tensor:
        """E[n] [d, k] of the documents `rows`, of which there are never more than before. From the first step on shares
        are ω, and tokens leave themselves out."""
        tokens_leave = self.tau if step else 0.0, self.counted
        if len(rows) < len(self.some):
            self.some = self.batch.of_rows(rows)
            self.document = documents_of_entries(self.some)
        if self.kernels is not None:
            top = heaviest(shares, self.n_top)
            return self.kernels.expected_counts(self.some, shares, top, self.table, *tokens_leave)
        if renews_curvature(step):
            self.is_top = (
                self.is_top if step else shares.new_zeros((len(self.batch), shares.shape[1]), dtype=torch.bool)
            )
            self.is_top[rows] = heaviest(shares, self.n_top).marks(shares)
        is_top = self.is_top if len(rows) == len(self.is_top) else self.is_top[rows]
        weighed = weigh(shares, is_top, self.table)
        result, top_share = torch.zeros_like(shares), shares.new_zeros(len(rows), dtype=torch.float64)

        def part(first: int, last: int) -> None:
            words, counts = self.some.words[first:last].long(), self.some.counts[first:last]
            of_words = words, counts, self.document[first:last], weighed, self.table
            expect(*of_words, *tokens_leave, result, top_share)

        self.room.each(pairs_of(self.some, self.table), part)
        return torch.addcmul(result, top_share[:, None].to(result.dtype), weighed.rest_of_top)


def expect(
    words: Tensor,
    counts: Tensor,
    document: Tensor,
    weighed: Weighed,
    table: Table,
    tau: float,
    counted: float,
    out: Tensor,
    top_share: Tensor,
) -> None:
    """What entries add to document.expected_counts: their own buckets [d, k], and how often the top bucket [d].

    With a τ above 0 documents are weighed by ω, and tokens leave themselves out."""
    own = own_topics(words, document, table)
    mass, own_total = own_mass(own, weighed, table)
    if tau:
        mass = leave_itself(own, mass, own_total + weighed.top_total[document], weighed, table, tau, counted)
        own_total = row_sums(mass.to(torch.float64), own.rows)
    share = counts / (own_total + weighed.top_total[document]).clamp_min(1e-300)
    added = (share[own.rows.row] * mass).to(out.dtype)
    out.view(-1).index_add_(0, own.cell, added)
    top_share.index_add_(0, document, share)


def spread(
    words: Tensor,
    counts: Tensor,
    document: Tensor,
    omega: Tensor,
    table: Table,
    tau: float,
    counted: float,
    unit: int,
    out: Tensor,
) -> None:
    """memoized.expected_word_topic: adds responsibilities over entries' own topics in whole units."""
    own = own_topics(words, document, table)
    weighed = Weighed(omega.clamp_min(SMALLEST_SHARE), torch.zeros_like(omega), omega.new_zeros(len(omega)))
    mass, total = own_mass(own, weighed, table)
    mass = leave_itself(own, mass, total, weighed, table, tau, counted)
    share = counts * unit / row_sums(mass.to(torch.float64), own.rows).clamp_min(1e-300)
    out.index_add_(0, own.pair, torch.floor(share[own.rows.row] * mass + 0.5).to(torch.int64))


def count_topics(batch: DeviceBatch, draws: Tensor, n_topics: int, dtype: Any) -> Tensor:
    """Tokens of each document with each topic [d, k]."""
    cell = rows_of(batch.lengths).row * n_topics + draws
    ones = torch.ones(len(cell), dtype=dtype, device=cell.device)
    return sums_by(cell, ones, len(batch) * n_topics).view(len(batch), n_topics)


def pairs_of(batch: DeviceBatch, table: Table) -> Tensor:
    """How many topics each entry's word has."""
    return table.indptr.diff()[batch.words.long()]
