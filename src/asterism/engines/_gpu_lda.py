"""Plain LDA in torch: model/lda.py, document beside document, and model/walks.py."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from . import _gpu_random as random
from ._gpu_corpus import DeviceBatch, token_words
from ._gpu_rows import Rows, pick, row_sums, rows_of, running_shares
from ._gpu_tokens import Table, own_topics

Tensor = Any


class Document(NamedTuple):
    """Documents that are swept side by side, the longest first, so that those that go on are always the first ones."""

    words: Tensor  # of each token
    starts: Tensor  # of each document's tokens
    lengths: Tensor
    draws: Tensor  # of each token, overwritten
    counts: Tensor  # n_dk [d, k]
    streams: Tensor
    order: Tensor  # the documents' numbers in the batch


def side_by_side(batch: DeviceBatch, draws: Tensor, streams: Tensor, n_topics: int, dtype: Any) -> Document:
    order = torch.argsort(-batch.lengths, stable=True)
    starts, lengths = batch.document_offsets[:-1][order], batch.lengths[order]
    number = torch.empty_like(order)
    number[order] = torch.arange(len(order), device=order.device)
    counts = torch.zeros((len(batch), n_topics), dtype=dtype, device=draws.device)
    document = number[rows_of(batch.lengths).row]
    counts.view(-1).index_add_(0, document * n_topics + draws, torch.ones(len(draws), dtype=dtype, device=draws.device))
    return Document(token_words(batch).long(), starts, lengths, draws, counts, streams[order], order)


def draw_lda(documents: Document, sampler: DenseWords | SparseWords, alpha: Tensor) -> Tensor:
    """lda.draw_document: new draws in place. Returns Σ log p(token | all other draws) of each document."""
    lengths, logs = documents.lengths, torch.zeros(len(documents.order), dtype=torch.float64, device=alpha.device)
    open_at = torch.searchsorted(-lengths, -torch.arange(int(lengths[:1].sum()), device=lengths.device)).tolist()
    below = torch.log(lengths - 1 + alpha.sum())
    for place, n in enumerate(open_at):
        token = documents.starts[:n] + place
        word, old, counts = documents.words[token], documents.draws[token], documents.counts[:n]
        rows = torch.arange(n, device=token.device)
        counts[rows, old] -= 1
        uniforms = random.uniforms(documents.streams[:n], torch.full_like(token, place))
        drawn, total = sampler.draw(word, old, counts, alpha, uniforms)
        counts[rows, drawn] += 1
        documents.draws[token] = drawn
        logs[:n] += torch.log(total) - below[:n]
    return torch.empty_like(logs).index_copy_(0, documents.order, logs)


class DenseWords:
    """Tokens look at all topics; weights of words in topics are [v, k]."""

    def __init__(self, weights: Tensor, unit: Tensor) -> None:
        self.weights, self.unit = weights, unit

    def draw(self, word: Tensor, old: Tensor, counts: Tensor, alpha: Tensor, uniforms: Tensor) -> tuple[Tensor, Tensor]:
        factor, rows = counts + alpha, torch.arange(len(word), device=word.device)
        mass = factor * self.weights[word]
        mass[rows, old] = (mass[rows, old] - factor[rows, old] * self.unit[old]).clamp_min(0)
        line = mass.to(torch.float64).cumsum(dim=1)
        total = line[:, -1]
        found = torch.searchsorted(line, (uniforms * total)[:, None], right=True)[:, 0]
        return found.clamp_max(mass.shape[1] - 1), total


class SparseWords:
    """Tokens look at three buckets (lda.bucket_mass): their words' own topics, their documents', and every one by α."""

    def __init__(self, table: Table, unit: Tensor, alpha: Tensor, documents: Document) -> None:
        self.table, self.unit = table, unit
        self.line = (alpha * table.rest).to(torch.float64).cumsum(dim=0)
        self.present, self.n_present = _first_occurrences(documents)
        self.listed = documents.counts > 0

    def draw(self, word: Tensor, old: Tensor, counts: Tensor, alpha: Tensor, uniforms: Tensor) -> tuple[Tensor, Tensor]:
        n, table, rows = len(word), self.table, torch.arange(len(word), device=word.device)
        own = own_topics(word, rows, table)
        itself = torch.where(own.topic == old[own.rows.row], self.unit[own.topic], 0)
        left = (table.weights[own.pair] - table.rest[own.topic] - itself).clamp_min(0)
        mass = (counts.view(-1)[own.cell] + alpha[own.topic]) * left
        own_total = row_sums(mass.to(torch.float64), own.rows)
        local = self._local_line(counts)
        total = own_total + local[:, -1] + self.line[-1]
        target = uniforms * total
        share = (target / own_total.clamp_min(1e-300)).clamp(0, 1)
        line = running_shares(mass, own.rows, own_total)
        by_word = own.topic[pick(line, own.rows.starts, rows, share).clamp(0, max(0, len(line) - 1))]
        place = torch.searchsorted(local, (target - own_total)[:, None], right=True).clamp_max(local.shape[1] - 1)
        by_document = self.present[:n].gather(1, place)[:, 0]
        anywhere = torch.searchsorted(self.line, target - own_total - local[:, -1], right=True)
        drawn = torch.where(target < own_total + local[:, -1], by_document, anywhere.clamp_max(len(self.line) - 1))
        drawn = torch.where(target < own_total, by_word, drawn)
        self._list(drawn, rows)
        return drawn, total

    def _local_line(self, counts: Tensor) -> Tensor:
        """Running mass of the documents' topics, with the weight of an uncounted word [d, n]."""
        present, place = self.present[: len(counts)], torch.arange(self.present.shape[1], device=counts.device)
        mass = counts.gather(1, present) * self.table.rest[present]
        mass = torch.where(place < self.n_present[: len(counts), None], mass, 0)
        return mass.to(torch.float64).cumsum(dim=1)

    def _list(self, drawn: Tensor, rows: Tensor) -> None:
        """Topics that are new to their documents go to the end of what is present."""
        rows = rows[~self.listed[rows, drawn]]
        self.present[rows, self.n_present[rows]] = drawn[rows]
        self.n_present[rows] += 1
        self.listed[rows, drawn[rows]] = True


def _first_occurrences(documents: Document) -> tuple[Tensor, Tensor]:
    """Each document's topics in the order in which they first occur [d, n], with room for one a token more, and their
    numbers."""
    rows = rows_of(documents.lengths)
    key = rows.row * documents.counts.shape[1] + documents.draws[documents.starts[rows.row] + rows.place]
    in_order, order = key.sort(stable=True)
    is_first = torch.ones_like(order, dtype=torch.bool)
    is_first[order[1:]] = in_order[1:] != in_order[:-1]
    document = rows.row[is_first]
    n_present = torch.zeros_like(documents.lengths).index_add_(0, document, torch.ones_like(document))
    before = torch.nn.functional.pad(n_present.cumsum(0), (1, 0))
    present = torch.zeros(
        (len(n_present), 2 * int(documents.lengths[:1].sum()) + 1), dtype=torch.int64, device=key.device
    )
    place = torch.arange(len(document), device=key.device) - before[document]
    present[document, place] = (key % documents.counts.shape[1])[is_first]
    return present, n_present


# --- walks ----------------------------------------------------------------------------------------------------------


class DeviceSide(NamedTuple):
    """walks.Side on the device."""

    starts: Tensor
    order: Tensor
    prior: Tensor
    prior_total: float
    threshold: Tensor  # of the alias table
    other: Tensor
    streams: Tensor


# A group's tokens are compared with each other where a token has so many to be compared with on average, and 16 times
# as many at most: a group is one program's work.
SHORT = 512


def visit(
    side: DeviceSide,
    first: int,
    last: int,
    walks: Tensor,
    inverse_total: Tensor,
    most_counts: int,
    kernels: Any = None,
) -> Tensor:
    """walks.visit of groups first:last, in place. Returns how many of their tokens each topic has."""
    starts = side.starts[first : last + 1].long()
    tokens, rows = side.order[int(starts[0]) : int(starts[-1])].long(), rows_of(starts.diff())
    here, streams = walks[tokens].long(), side.streams[first:last]
    if kernels is not None and _are_short(rows):
        counts = kernels.counts_in_groups(rows, here)
    else:
        counts = counts_of_groups(rows, here, len(side.prior), most_counts)
    topics = decide(here, rows, side, counts, inverse_total, streams)
    here[:, 1:] = propose(topics, rows, here.shape[1] - 1, side, streams)
    here[:, 0] = topics
    walks[tokens] = here.to(walks.dtype)
    return torch.bincount(topics, minlength=len(side.prior))


def _are_short(rows: Rows) -> bool:
    lengths = rows.starts.diff()
    if not len(lengths):
        return True
    compared = lengths.double().square().sum() <= SHORT * lengths.sum()
    return bool(compared & (lengths.max() <= 16 * SHORT))


def counts_of_groups(rows: Rows, here: Tensor, n_topics: int, most: int) -> Tensor:
    """For each of a token's topic and proposals, how many tokens of its group have it [token, 1 + proposals]: from a
    table of groups and topics where that is small, else by search."""
    keys, n_groups = rows.row[:, None] * n_topics + here, len(rows.starts) - 1
    if n_groups * n_topics <= most:
        ones = torch.ones(len(here), dtype=torch.int32, device=here.device)
        table = torch.zeros(n_groups * n_topics, dtype=torch.int32, device=here.device)
        return table.index_add_(0, keys[:, 0], ones)[keys]
    known, found = torch.unique_consecutive(keys[:, 0].sort().values, return_counts=True)
    place = torch.searchsorted(known, keys).clamp_max(len(found) - 1)
    return torch.where(known[place] == keys, found[place], 0)


def decide(
    here: Tensor, rows: Rows, side: DeviceSide, counts: Tensor, inverse_total: Tensor, streams: Tensor
) -> Tensor:
    """Each token's topic after the proposals for it have been accepted or refused."""
    old, n_proposals = here[:, 0], here.shape[1] - 1
    stream = streams[rows.row]
    topic, factor = old, (counts[:, 0] - 1 + side.prior[old]) * inverse_total[old]
    for j in range(n_proposals):
        k = here[:, j + 1]
        proposed = (counts[:, j + 1] - (k == old).to(torch.int32) + side.prior[k]) * inverse_total[k]
        accepted = random.uniforms(stream, rows.place * n_proposals + j) * factor < proposed
        topic, factor = torch.where(accepted, k, topic), torch.where(accepted, proposed, factor)
    return topic


def propose(topics: Tensor, rows: Rows, n_proposals: int, side: DeviceSide, streams: Tensor) -> Tensor:
    """Another token's topic or one by the prior, for each token so many times [token, proposal]."""
    proposals, n_topics = [], len(side.prior)
    start, length, stream = rows.starts[rows.row], rows.starts.diff()[rows.row], streams[rows.row]
    for j in range(n_proposals):
        place = random.uniforms(stream, (length + rows.place) * n_proposals + j) * (length - 1 + side.prior_total)
        other = place.long().minimum(length - 2)
        other = (start + other + (other >= rows.place)).clamp(0, max(0, len(topics) - 1))
        on_line = ((place - (length - 1)) / side.prior_total * n_topics).clamp_min(0)
        piece = on_line.long().clamp_max(n_topics - 1)
        by_prior = torch.where(on_line - piece < side.threshold[piece], piece, side.other[piece])
        proposals.append(torch.where(place < length - 1, topics[other], by_prior))
    return torch.stack(proposals, dim=1)
