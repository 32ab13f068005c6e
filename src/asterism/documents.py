"""What models read: texts, tokens or counts in, counts over the model's vocabulary out."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone
from sklearn.utils.validation import validate_data

from .corpus.counts import checked_counts, is_documents, readable_twice
from .corpus.text import TextPipeline
from .errors import InputError


class ReadsDocuments:
    """What a model of documents puts before scikit-learn's classes."""

    vocabulary: Any
    text_pipeline: TextPipeline | None
    non_integer: str
    text_pipeline_: TextPipeline | None
    vocabulary_: NDArray[np.object_]

    def _first_counts(self, X: Any) -> sparse.csr_matrix:
        """Training documents as counts; sets the vocabulary."""
        X = readable_twice(X)
        if is_documents(X):
            pipeline = TextPipeline() if self.text_pipeline is None else clone(self.text_pipeline)
            counts = pipeline.fit_transform(X)
            self.text_pipeline_, self.vocabulary_ = pipeline, np.array(pipeline.words_, dtype=object)
            self.n_features_in_ = counts.shape[1]
            self.__dict__.pop("feature_names_in_", None)  # of an earlier fit
            return counts
        self.text_pipeline_ = None
        counts = self._checked_matrix(X, reset=True)
        self.vocabulary_ = self._given_vocabulary(counts.shape[1])
        if not counts.nnz:
            raise InputError(f"all {counts.shape[0]} documents are empty: there is nothing to learn from")
        return counts

    def _more_counts(self, X: Any) -> sparse.csr_matrix:
        """Training documents to go on with, over the model's vocabulary."""
        try:
            counts = self._counts(X)
        except InputError:
            raise
        except ValueError as error:  # of scikit-learn's checks
            raise InputError(f"warm_start goes on over the same words: {str(error).splitlines()[0]}") from error
        if not counts.nnz:
            raise InputError(
                f"none of the {counts.shape[0]} documents has a known word: there is nothing to learn from"
            )
        return counts

    def _counts(self, X: Any) -> sparse.csr_matrix:
        """Documents as counts over the model's vocabulary."""
        X = readable_twice(X)
        if not is_documents(X):
            return self._checked_matrix(X, reset=False)
        if self.text_pipeline_ is None:
            raise InputError("this model was fitted on counts and cannot read texts; pass counts")
        return self.text_pipeline_.transform(X)

    def _checked_matrix(self, X: Any, reset: bool) -> sparse.csr_matrix:
        checked = validate_data(self, X, reset=reset, accept_sparse=["csr", "csc", "coo"], ensure_all_finite=False)
        return checked_counts(checked, self.non_integer)

    def _given_vocabulary(self, n_words: int) -> NDArray[np.object_]:
        words = self.vocabulary if self.vocabulary is not None else getattr(self, "feature_names_in_", None)
        if words is None:
            words = [f"word_{v}" for v in range(n_words)]
        if len(words) != n_words:
            raise InputError(f"the vocabulary has {len(words)} words but X has {n_words} columns")
        return np.array([str(word) for word in words], dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        tags.input_tags.string = True
        tags.transformer_tags.preserves_dtype = []
        return tags
