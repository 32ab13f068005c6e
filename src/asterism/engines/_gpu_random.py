"""The random numbers of model/random.py in torch: 64 unsigned bits live in its signed integers, whose products wrap
around alike; only shifts must be told to fill up with zeros."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from ..model import random

Tensor = Any


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value


GOLDEN, MIX_1, MIX_2 = (_signed(int(value)) for value in (random.GOLDEN, random.MIX_1, random.MIX_2))


def shifted(x: Tensor, n: int) -> Tensor:
    """x >> n of unsigned bits."""
    return (x >> n) & ((1 << (64 - n)) - 1)


def mix(x: Tensor) -> Tensor:
    """random.mix."""
    x = (x ^ shifted(x, 30)) * MIX_1
    x = (x ^ shifted(x, 27)) * MIX_2
    return x ^ shifted(x, 31)


def stream(*key: Any, device: Any) -> Tensor:
    """random.stream; parts of the key are numbers, and tensors after them."""
    numbers = [part for part in key if not torch.is_tensor(part)]
    state = torch.from_numpy(random.stream(*numbers).view(np.int64)).to(device)
    for part in key[len(numbers) :]:
        state = substream(state, part)
    return state


def substream(streams: Tensor, part: Any) -> Tensor:
    """random.stream(*key, part), given the streams of the key."""
    return mix(streams + GOLDEN + part)


def uniforms(streams: Tensor, index: Tensor) -> Tensor:
    """random.uniforms, a stream and a place in it for each."""
    return shifted(mix(streams + GOLDEN * (index + 1)), 11).to(torch.float64) * 2.0**-53


def normals(streams: Tensor, n: int) -> Tensor:
    """random.normals [stream, n]."""
    pair = torch.arange(1, (n + 1) // 2 + 1, device=streams.device)
    halves = mix(streams[:, None] + GOLDEN * pair)
    radius = torch.sqrt(-2 * torch.log((shifted(halves, 32).to(torch.float64) + 1) * 2.0**-32))
    angle = 2 * math.pi * (halves & 0xFFFFFFFF).to(torch.float64) * 2.0**-32
    pairs = torch.stack([radius * torch.cos(angle), radius * torch.sin(angle)], dim=-1)
    return pairs.reshape(len(streams), -1)[:, :n]
