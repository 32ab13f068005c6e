"""Raw text or tokens in, word counts and a vocabulary out."""

from __future__ import annotations

import math
import numbers
from collections.abc import Collection, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from asterism.corpus.tokens import count_terms, most_frequent_forms, read_documents
from asterism.corpus.words import (
    as_written_in_text,
    available_stemmer,
    resolve_language,
    standard_stop_words,
    stem_words,
    stemmer_names,
    word_splitter,
)
from asterism.errors import InputError

_PARAMETERS = ("language", "stop_words", "stem", "min_df", "max_df", "max_words")


class TextPipeline(BaseEstimator):  # type: ignore[misc]
    """Count words: split, remove stop words, stem, and keep the words that are neither rare nor everywhere.

    A document is a string, or a list of tokens that are counted as they are (only the document-frequency
    filters apply). A word is a run of letters and digits that starts with a letter ("mp3", "p53"),
    lower-cased, of at least two characters. Inner apostrophes, straight or typographic, stay ("don't"),
    except in French, Italian and Catalan, where they separate words. Hyphens, underscores and all other signs
    separate words, so `snake_case` gives two and `camelCase` one. Left out are numbers and what begins with a
    digit ("42", "2nd", "0x1f"), and e-mail addresses and URLs as a whole. Languages written without blanks
    (Chinese, Japanese, Thai) have to be cut into tokens first.

    Parameters
    ----------
    language : name or two-letter code; chooses stop words and stemmer. None: neither.
    stop_words : "auto" (the standard list of the language), None, or a list or set of words. They are removed
        before stemming.
    stem : whether to merge the inflected forms of a word (Snowball).
    min_df : words in fewer documents are left out. An int counts documents, a float is a share of them;
        "auto" is min(5, 1 + documents // 250).
    max_df : words in more documents are left out. "auto" is a share of 0.3 from 100 documents on, else 1.0.
    max_words : keep at most this many words, the most frequent ones (ties: alphabetically).

    Attributes
    ----------
    terms_ : the stems in alphabetical order: the columns of the counts.
    words_ : for each of `terms_` its most frequent form in the texts, to show to people.
    input_ : "text" or "tokens", what the documents were.
    stop_words_, stemmer_ : the sorted stop words and the Snowball algorithm (or None) that were used.
    """

    def __init__(
        self,
        *,
        language: str | None = "english",
        stop_words: str | Collection[str] | None = "auto",
        stem: bool = True,
        min_df: str | float = "auto",
        max_df: str | float = "auto",
        max_words: int | None = None,
    ) -> None:
        self.language = language
        self.stop_words = stop_words
        self.stem = stem
        self.min_df = min_df
        self.max_df = max_df
        self.max_words = max_words

    def fit(self, texts: Iterable[Any], y: object = None) -> TextPipeline:
        """Choose the vocabulary."""
        self.fit_transform(texts)
        return self

    def fit_transform(self, texts: Iterable[Any], y: object = None) -> csr_matrix:
        """Choose the vocabulary and count it: documents x terms, int32; empty documents keep their row."""
        self._check_parameters()
        language = resolve_language(self.language)
        documents = read_documents(texts, word_splitter(language))
        if not len(documents):
            raise InputError("there are no documents")
        is_text = documents.kind == "text"
        stemmer = available_stemmer(language) if self.stem and is_text else None
        stop_words = self._resolve_stop_words(language) if is_text else []

        token_term = _stems(documents.tokens, stop_words, stemmer) if is_text else documents.tokens
        candidates = sorted(set(token_term) - {""})
        counts = count_terms(documents, token_term, candidates)
        kept = self._kept_columns(counts, len(documents.tokens))
        self.terms_ = [candidates[column] for column in kept]
        self.words_ = most_frequent_forms(documents, token_term, self.terms_)
        self.input_, self.stemmer_, self.stop_words_ = documents.kind, stemmer, stop_words
        return csr_matrix(counts[:, kept])

    def transform(self, texts: Iterable[Any]) -> csr_matrix:
        """Count the words of the vocabulary and ignore others; row i belongs to document i."""
        check_is_fitted(self, "terms_")
        documents = read_documents(texts, word_splitter(resolve_language(self.language)), self.input_)
        token_term = documents.tokens
        if self.input_ == "text":
            token_term = _stems(token_term, self.stop_words_, self.stemmer_)
        return count_terms(documents, token_term, self.terms_)

    def _resolve_stop_words(self, language: str | None) -> list[str]:
        if self.stop_words is None:
            return []
        given = standard_stop_words(language) if isinstance(self.stop_words, str) else self.stop_words
        return sorted(as_written_in_text(given, word_splitter(language)))

    def _kept_columns(self, counts: csr_matrix, n_words: int) -> NDArray[np.intp]:
        """Columns that pass the filters, in increasing order; it is an error if none does."""
        n_documents, n_candidates = counts.shape
        document_frequency = np.bincount(counts.indices, minlength=n_candidates)
        fewest, most = self._frequency_limits(n_documents)
        rare, common = document_frequency < fewest, document_frequency > most
        kept = np.flatnonzero(~(rare | common))
        if not len(kept):
            raise InputError(
                f"no words are left of {n_documents} documents with {n_words} distinct words: "
                f"{n_words - n_candidates} are stop words, single letters or forms of another word, "
                f"{rare.sum()} are in fewer than {fewest} documents (min_df={self.min_df!r}), "
                f"{common.sum()} in more than {most} (max_df={self.max_df!r})"
            )
        if self.max_words is not None:
            frequency = np.bincount(counts.indices, weights=counts.data, minlength=n_candidates)[kept]
            kept = np.sort(kept[np.argsort(-frequency, kind="stable")[: self.max_words]])
        return kept

    def _frequency_limits(self, n_documents: int) -> tuple[int, int]:
        """The smallest and largest number of documents that a kept word may be in."""
        min_df: Any = min(5, 1 + n_documents // 250) if self.min_df == "auto" else self.min_df
        max_df: Any = (0.3 if n_documents >= 100 else 1.0) if self.max_df == "auto" else self.max_df
        # The margin undoes rounding: 0.07 of 100 documents is 7.000000000000001.
        fewest = min_df if _is_int(min_df) else math.ceil(min_df * n_documents - 1e-6)
        most = max_df if _is_int(max_df) else math.floor(max_df * n_documents + 1e-6)
        return max(1, int(fewest)), int(most)

    def _check_parameters(self) -> None:
        _check_frequency("min_df", self.min_df)
        _check_frequency("max_df", self.max_df)
        if not isinstance(self.stem, (bool, np.bool_)):
            raise InputError(f"stem must be True or False, not {self.stem!r}")
        if self.max_words is not None and not (_is_int(self.max_words) and self.max_words > 0):
            raise InputError(f"max_words must be a positive whole number or None, not {self.max_words!r}")
        if self.stop_words is not None:
            _check_stop_words(self.stop_words)

    def to_dict(self) -> dict[str, Any]:
        """Everything `transform` needs, in types that JSON has."""
        check_is_fitted(self, "terms_")
        return {
            **{name: _plain(getattr(self, name)) for name in _PARAMETERS},
            "input": self.input_,
            "stemmer": self.stemmer_,
            "stop_words_used": list(self.stop_words_),  # the standard lists change between versions
            "terms": list(self.terms_),
            "words": list(self.words_),
        }

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> TextPipeline:
        """The pipeline that `to_dict` described; anything else is an InputError."""
        _check_stored(stored)
        pipeline = cls(**{name: stored[name] for name in _PARAMETERS})
        pipeline._check_parameters()
        resolve_language(pipeline.language)
        pipeline.input_ = stored["input"]
        pipeline.stemmer_ = stored["stemmer"]
        pipeline.stop_words_ = list(stored["stop_words_used"])
        pipeline.terms_, pipeline.words_ = list(stored["terms"]), list(stored["words"])
        return pipeline


def _stems(tokens: list[str], stop_words: list[str], stemmer: str | None) -> list[str]:
    """The stem of each token, "" for one that is left out."""
    left_out = set(stop_words)
    words = [token for token in tokens if len(token) > 1 and token not in left_out]
    stem_of = dict(zip(words, stem_words(words, stemmer), strict=True))
    return [stem_of.get(token, "") for token in tokens]


def _is_int(value: object) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _check_frequency(name: str, value: object) -> None:
    if isinstance(value, str) and value == "auto":
        return
    is_share = isinstance(value, numbers.Real) and not isinstance(value, numbers.Integral) and 0 < float(value) <= 1
    is_number = isinstance(value, numbers.Integral) and not isinstance(value, bool) and int(value) >= 1
    if not is_share and not is_number:
        raise InputError(f"{name} must be 'auto', a number of documents or a share above 0 up to 1.0, not {value!r}")


def _check_stop_words(words: object) -> None:
    if isinstance(words, str) and words == "auto":
        return
    # A generator would be empty at the second fit; a string would be taken for its letters.
    if isinstance(words, str) or not isinstance(words, Collection):
        raise InputError(f"stop_words must be 'auto', None or a list or set of words, not {words!r}")
    if not _all_strings(words):
        raise InputError("stop_words holds something that is not a string")


def _plain(value: Any) -> Any:
    """A parameter in a type that JSON has: sets and arrays become lists, NumPy's numbers Python's."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Collection) and not isinstance(value, str):
        return sorted(map(str, value))
    return value


def _all_strings(values: Iterable[object]) -> bool:
    return all(isinstance(value, str) for value in values)


def _check_stored(stored: Any) -> None:
    """Refuse what `to_dict` cannot have written: the file may be damaged."""
    if not isinstance(stored, dict):
        raise InputError(f"a stored text pipeline must be a dict, not {type(stored).__name__}")
    lists = ("terms", "words", "stop_words_used")
    missing = [name for name in (*_PARAMETERS, "input", "stemmer", *lists) if name not in stored]
    if missing:
        raise InputError(f"the stored text pipeline lacks {', '.join(missing)}")
    for name in lists:
        if not isinstance(stored[name], list) or not _all_strings(stored[name]):
            raise InputError(f"{name} of the stored text pipeline is not a list of strings")
    terms, words = stored["terms"], stored["words"]
    if not terms or len(set(terms)) != len(terms) or len(words) != len(terms):
        raise InputError(
            f"terms and words of the stored text pipeline do not match: {len(terms)} terms, "
            f"{len(set(terms))} distinct, {len(words)} words"
        )
    if stored["input"] not in ("text", "tokens"):
        raise InputError(f"input of the stored text pipeline is {stored['input']!r}, not 'text' or 'tokens'")
    if stored["stemmer"] is not None and stored["stemmer"] not in sorted(stemmer_names()):
        raise InputError(f"the stored text pipeline needs the stemmer {stored['stemmer']!r}, which is not here")
