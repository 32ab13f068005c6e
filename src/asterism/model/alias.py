"""Alias tables (Walker 1977, Vose 1991): a draw from any distribution over K things for one look at it.

Cut a line of length K into unit pieces. Piece k belongs to thing k up to threshold_k and to another thing beyond, so
that every thing owns its share of the line.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .state import Floats, Ints


class AliasTable(NamedTuple):
    threshold: Floats  # [k]
    other: Ints  # [k]

    @classmethod
    def of(cls, weights: Floats) -> AliasTable:
        """Table of the distribution proportional to the weights."""
        threshold, other = weights * (len(weights) / weights.sum()), np.arange(len(weights), dtype=np.int64)
        pair_up(threshold, other)
        return cls(threshold, other)

    @classmethod
    def even(cls, n: int) -> AliasTable:
        """Table of n things that are all alike."""
        return cls(np.ones(n), np.arange(n, dtype=np.int64))

    def pick(self, uniforms: Floats) -> Ints:
        """The things at these places of the line, as shares of its length."""
        place = uniforms * len(self.other)
        piece = np.minimum(place.astype(np.int64), len(self.other) - 1)
        return np.where(place - piece < self.threshold[piece], piece, self.other[piece])


def pair_up(threshold: Floats, other: Ints) -> None:
    """Make a table of what each thing owns, in pieces, in place: one that owns less than a piece is filled up by one
    that owns more, which may need filling itself afterwards; if it has been passed already, it is the next."""
    giver = 0
    while giver < len(threshold) and threshold[giver] < 1:
        giver += 1
    for k in range(len(threshold)):
        needy = k if threshold[k] < 1 and other[k] == k else len(threshold)
        while needy < len(threshold) and giver < len(threshold):
            other[needy] = giver
            threshold[giver] -= 1 - threshold[needy]
            # Who gives away too much is filled up at once where the search has passed it, else when it comes to it.
            needy = giver if threshold[giver] < 1 and giver <= k else len(threshold)
            while giver < len(threshold) and threshold[giver] < 1:
                giver += 1
