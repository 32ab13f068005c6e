"""Corpora of any size drawn from the model on a GPU, and how many of their topics a model has found again."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from asterism.engines._gpu_corpus import DeviceBatch
from asterism.engines._gpu_rows import rows_of, starts_of

Tensor = Any
# A topic's words: so many with a Dirichlet's weights, as good as all when β V is far below their number.
WORDS_A_TOPIC, WORDS_THAT_COUNT = 256, 50.0
# Spread of U a: of 100,000 topics a document has a handful.
SPREAD_OF_WEIGHTS = 3.0
# Topic weights of documents that are drawn together.
MOST_WEIGHTS = 2**28


class Planted(NamedTuple):
    """Topics that corpora are drawn from."""

    embedding: Tensor  # U [k, m]
    words: Tensor  # [k, n]
    weights: Tensor  # of these words [k, n]
    n_words: int


def planted_topics(n_topics: int, n_words: int, n_dims: int, device: Any, seed: int = 0) -> Planted:
    torch.manual_seed(seed)
    embedding = torch.randn((n_topics, n_dims), device=device) * SPREAD_OF_WEIGHTS / n_dims**0.5
    n = min(WORDS_A_TOPIC, n_words)
    words = torch.randint(n_words, (n_topics, n), device=device)
    gammas = torch._standard_gamma(torch.full((n_topics, n), WORDS_THAT_COUNT / n, device=device))
    return Planted(embedding, words, gammas / gammas.sum(dim=1, keepdim=True), n_words)


def draw_corpus(planted: Planted, n_documents: int, mean_length: float, seed: int = 0) -> DeviceBatch:
    """Documents of Poisson lengths, counted."""
    torch.manual_seed(seed)
    device, size = planted.embedding.device, max(1, MOST_WEIGHTS // len(planted.embedding))
    lengths, words, counts = [], [], []
    line = planted.weights.cumsum(dim=1)
    for first in range(0, n_documents, size):
        n = min(size, n_documents - first)
        tokens = rows_of(torch.poisson(torch.full((n,), float(mean_length), device=device)).long())
        topic = _draw_topics(planted.embedding, tokens.row, n)
        place = torch.searchsorted(line[topic], torch.rand((len(topic), 1), device=device))[:, 0]
        word = planted.words[topic, place.clamp_max(line.shape[1] - 1)]
        key = (tokens.row * planted.n_words + word).sort().values
        key, count = torch.unique_consecutive(key, return_counts=True)
        lengths.append(torch.bincount(key // planted.n_words, minlength=n))
        words.append((key % planted.n_words).int())
        counts.append(count.int())
    documents = torch.arange(n_documents, device=device)
    return DeviceBatch(starts_of(torch.cat(lengths)), torch.cat(words), torch.cat(counts), documents, planted.n_words)


def _draw_topics(embedding: Tensor, document: Tensor, n_documents: int) -> Tensor:
    """A topic for every token: η = U a + noise, z ~ softmax(η)."""
    weights = torch.randn((n_documents, embedding.shape[1]), device=embedding.device) @ embedding.T
    weights += torch.randn_like(weights)
    line = torch.softmax(weights, dim=1).to(torch.float64).cumsum(dim=1)
    line += torch.arange(n_documents, device=line.device)[:, None]
    place = torch.rand(len(document), dtype=torch.float64, device=line.device) * (1 - 1e-9)
    found = torch.searchsorted(line.view(-1), document + place) - document * weights.shape[1]
    return found.clamp(0, weights.shape[1] - 1)


def share_recovered(planted: Planted, word_topic: Any, least: float = 0.8, at_once: int = 4096) -> float:
    """Planted topics whose words have a cosine of at least so much with those of one of the model's topics."""
    device = planted.embedding.device
    learned = torch.from_numpy(word_topic.toarray().T).to(device, torch.float32)
    learned /= learned.norm(dim=1, keepdim=True).clamp_min(1e-12)
    found = 0
    for first in range(0, len(planted.words), at_once):
        words, weights = planted.words[first : first + at_once], planted.weights[first : first + at_once]
        rows = torch.zeros((len(words), planted.n_words), device=device).scatter_add_(1, words, weights)
        rows /= rows.norm(dim=1, keepdim=True)
        best = torch.full((len(rows),), -1.0, device=device)
        for start in range(0, len(learned), at_once):
            best = best.maximum((rows @ learned[start : start + at_once].T).amax(dim=1))
        found += int((best >= least).sum())
    return found / len(planted.words)
