"""document.sample_document for many documents at once, in torch: the paper's rounds of draws and steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..model.document import ADAGRAD_FLOOR
from ..model.random import DRAWS, NOISE
from ..model.state import LocalSettings
from . import _gpu_random as random
from ._gpu_joint import Space

Tensor = Any
# Topic counts [d, k] of documents that are still at it, drawn from these weights and streams.
DrawCounts = Callable[[Tensor, Tensor, Tensor], Tensor]


def sample_documents(
    draw_counts: DrawCounts, lengths: Tensor, streams: Tensor, space: Space, settings: LocalSettings
) -> tuple[Tensor, Tensor, Tensor]:
    """γ [d, m], ξ [d, k] and the rounds taken [d]; the last draws are kept by `draw_counts`."""
    weights = space.mean.repeat(len(lengths), 1)
    squares, gamma = torch.full_like(weights, ADAGRAD_FLOOR), weights.new_zeros((len(lengths), len(space.precision)))
    steps = torch.zeros_like(lengths)
    draw_streams, noise_streams = random.substream(streams, DRAWS), random.substream(streams, NOISE)
    rows = torch.nonzero(lengths > 0)[:, 0]
    for step in range(settings.max_steps):
        if not len(rows):
            break
        xi = weights[rows]
        counts = draw_counts(xi, rows, random.substream(draw_streams[rows], step))
        mean = torch.addmm(space.mean, gamma[rows], space.embedding.T)
        theta = noisy_softmax(xi, random.substream(noise_streams[rows], step), settings.n_samples, space.tau**-0.5)
        gradient = space.tau * (mean - xi) + counts - lengths[rows, None] * theta
        squares[rows] += gradient**2
        change = settings.rate * gradient / squares[rows].sqrt()
        weights[rows] = xi + change
        gamma[rows] = (xi + change - space.mean) @ space.embedding @ space.gain
        steps[rows] += 1
        rows = rows[change.abs().mean(dim=1, dtype=torch.float64) >= settings.tol]
    return gamma, weights, steps


def noisy_softmax(weights: Tensor, streams: Tensor, n_samples: int, sigma: float) -> Tensor:
    """Mean over samples t of softmax(ξ + σ ε_t) [d, k]."""
    total = torch.zeros_like(weights)
    for t in range(n_samples):
        noise = random.normals(random.substream(streams, t), weights.shape[1]).to(weights.dtype)
        total += torch.softmax(weights + sigma * noise, dim=1)
    return total / n_samples
