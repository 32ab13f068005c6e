"""Where topic embeddings begin (model/cooccurrence.py), for very many topics: eigenvectors found on the device."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ..model import random
from ..model.cooccurrence import MOST_DENSE, LogRatio, leading
from ..model.random import START
from ..model.state import Floats
from ._gpu_corpus import as_tensor, on_host

Tensor = Any
# Vectors beyond those asked for, and blocks of them: eigenvalues come out right to a thousandth; draws are noisier.
SPARE, BLOCKS = 14, 8


def leading_on(device: Any) -> Any:
    """cooccurrence.leading: products of a block of vectors instead of one vector after the other.

    Largest eigenvalues in the space spanned by X, A X, ..., A^(BLOCKS - 1) X (block Krylov, Musco and Musco 2015).
    """

    def found(ratio: LogRatio, n_topics: int, n_dims: int, seed: int) -> tuple[Floats, Floats]:
        if n_topics <= max(MOST_DENSE, BLOCKS * (n_dims + SPARE)):
            return leading(ratio, n_topics, n_dims, seed)
        product = product_with(ratio, device)
        start = random.normals(random.stream(seed, START, range(n_dims + SPARE)), n_topics)
        block = torch.linalg.qr(as_tensor(start, device).T).Q
        basis = block
        for _ in range(BLOCKS - 1):
            block = product(block)
            for _ in range(2):  # once leaves what rounding has left
                block = block - basis @ (basis.T @ block)
            block = torch.linalg.qr(block).Q
            basis = torch.cat([basis, block], dim=1)
        values, directions = torch.linalg.eigh(basis.T @ product(basis))
        vectors = basis @ directions[:, -n_dims:].flip(1)
        return on_host(values[-n_dims:].flip(0).clamp_min(0)), on_host(vectors)

    return found


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
