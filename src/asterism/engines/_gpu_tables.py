"""What the GPU engine makes of topics: the table that tokens are drawn from, made on the device, and their space."""

from __future__ import annotations

from typing import Any

import torch

from ..model.joint import embedding_precision
from ..model.state import LocalSettings, Topics
from ..model.words import SMALLEST_WEIGHT, DrawTable
from ._gpu_corpus import DeviceCounts, as_tensor
from ._gpu_joint import Space
from ._gpu_rows import rows_of
from ._gpu_tokens import Table

Tensor = Any


def draw_table(topics: Topics, counted: DeviceCounts, settings: LocalSettings, dtype: Any, whole: bool) -> Table:
    """words.draw_table of all pairs, or of those that words.kept_for_drawing keeps."""
    beta, total = topics.priors.beta, as_tensor(topics.topic_total, counted.data.device)
    indptr, columns, data = counted.indptr, counted.indices, counted.data
    if settings.topics_per_word < topics.n_topics and not whole:
        kept = kept_for_drawing(counted, settings)
        indptr = torch.nn.functional.pad(kept.cumsum(0), (1, 0))[indptr]
        columns, data = columns[kept], data[kept]
    index = columns.long()
    if settings.collapsed:
        weights, rest = (data + beta) / total[index], beta / total
    else:
        log_total = torch.digamma(total)
        weights = torch.exp(torch.digamma(data + beta) - log_total[index])
        rest = torch.exp(torch.digamma(torch.full_like(total, beta)) - log_total)
    rest = rest.clamp_min(SMALLEST_WEIGHT)
    return Table(indptr, columns, weights.maximum(rest[index]).to(dtype), rest.to(dtype), beta)


def kept_for_drawing(counted: DeviceCounts, settings: LocalSettings) -> Tensor:
    """words.kept_for_drawing [pair]: entries lie by word and topic, so stable sorting leaves the lower number first."""
    by_value = torch.argsort(-counted.data, stable=True)
    in_word = _ranks(by_value, counted.rows, counted.shape[0]) < settings.topics_per_word
    in_topic = _ranks(by_value, counted.indices.long(), counted.shape[1]) < settings.words_per_topic
    return in_word | in_topic


def _ranks(order: Tensor, group: Tensor, n_groups: int) -> Tensor:
    """Each pair's rank in its group, given the order of all."""
    order = order[torch.argsort(group[order], stable=True)]
    places = rows_of(torch.bincount(group, minlength=n_groups)).place
    return torch.empty_like(places).index_copy_(0, order, places)


def table_on(table: DrawTable, device: Any, dtype: Any) -> Table:
    """A table that was made on the host."""
    indptr, columns = as_tensor(table.indptr, device), as_tensor(table.topics, device)
    return Table(
        indptr, columns, as_tensor(table.weights, device).to(dtype), as_tensor(table.rest, device).to(dtype), 1.0
    )


def space_of(topics: Topics, device: Any, dtype: Any) -> Space:
    embedding, mean = (as_tensor(part, device).to(dtype) for part in (topics.embedding, topics.mean))
    precision, scatter = as_tensor(embedding_precision(topics), device), as_tensor(topics.embedding_scatter, device)
    gain = as_tensor(topics.priors.tau * topics.document_cov, device).to(dtype)
    return Space(embedding, mean, precision, scatter, gain, topics.priors.tau)
