"""Where topic embeddings begin (model/cooccurrence.py), for very many topics: eigenvectors found on the device."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ..model import random
from ..model.cooccurrence import BLOCKS, ROUNDING, SPARE, LogRatio, are_few, leading
from ..model.random import START
from ..model.state import Floats
from ._gpu_corpus import as_tensor, on_host

Tensor = Any


def leading_on(device: Any) -> Any:
    """cooccurrence.leading on the device."""

    def found(ratio: LogRatio, n_topics: int, n_dims: int, seed: int) -> tuple[Floats, Floats]:
        if are_few(n_topics, n_dims):
            return leading(ratio, n_topics, n_dims, seed)
        size, product = n_dims + SPARE, product_with(ratio, device)
        starts = as_tensor(random.normals(random.stream(seed, START, range(BLOCKS * size)), n_topics), device).T
        basis, within = starts.new_zeros(starts.shape), starts.new_zeros((BLOCKS * size, BLOCKS * size))
        block = starts[:, :size]
        for first in range(0, BLOCKS * size, size):
            here, end = slice(first, first + size), first + size
            basis[:, here] = orthonormal(block, basis[:, :first], starts[:, here])
            block = product(basis[:, here])
            within[:end, here] = basis[:, :end].T @ block
        values, directions = torch.linalg.eigh(within, UPLO="U")
        vectors = basis @ directions[:, -n_dims:].flip(1)
        return on_host(values[-n_dims:].flip(0).clamp_min(0)), on_host(vectors)

    return found


def orthonormal(block: Tensor, before: Tensor, spare: Tensor) -> Tensor:
    """cooccurrence._orthonormal."""
    for _ in range(3):
        block, triangle = torch.linalg.qr(block - before @ (before.T @ block))
        lengths = triangle.diagonal().abs()
        block = torch.where(lengths > ROUNDING * lengths.max(), block, spare)
    return block


def product_with(ratio: LogRatio, device: Any) -> Any:
    """x -> ratio @ x on the device, for many vectors at once [k, n]."""
    observed = ratio.observed.tocoo()
    places, data = as_tensor(np.stack([observed.row, observed.col]), device), as_tensor(observed.data, device)
    with torch.sparse.check_sparse_tensor_invariants(False):
        matrix = torch.sparse_coo_tensor(places, data, observed.shape).coalesce()
    share, kind, by_chance = (as_tensor(part, device) for part in (ratio.share, ratio.kind, ratio.by_chance))

    def product(x: Tensor) -> Tensor:
        x = x - share[:, None] * x.sum(dim=0)
        of_kind = x.new_zeros((len(by_chance), x.shape[1])).index_add_(0, kind, x)
        y = matrix @ x - (by_chance @ of_kind)[kind]
        return y - share @ y

    return product
