"""Rivals of the topic embedding model, with the same contract: what they read, answer and save."""

from __future__ import annotations

from .lda import LDA

__all__ = ["LDA"]
