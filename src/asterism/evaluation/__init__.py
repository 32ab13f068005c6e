"""Measures of a model: functions of arrays and engines, the same for every model."""

from __future__ import annotations

from .classification import Classification, linear_svm_accuracy
from .coherence import c_v, npmi, topic_diversity
from .overlap import Overlap, topic_overlap
from .retrieval import RECALL_LEVELS, Retrieval, retrieval

__all__ = [
    "RECALL_LEVELS",
    "Classification",
    "Overlap",
    "Retrieval",
    "c_v",
    "linear_svm_accuracy",
    "npmi",
    "retrieval",
    "topic_diversity",
    "topic_overlap",
]
