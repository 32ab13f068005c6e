"""Documents as numbered tokens: one pass over the input, each distinct token looked at once."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from asterism.errors import InputError

IntArray = NDArray[np.int32]


@dataclass(frozen=True)
class DocumentTokens:
    """Token `tokens[ids[i]]` stands at place i; document d holds the places `starts[d]:starts[d + 1]`."""

    kind: str  # "text" or "tokens"
    tokens: list[str]  # distinct, in order of appearance
    ids: IntArray
    starts: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.starts) - 1


class _Numbering(dict[str, int]):
    """Gives each new token the next number."""

    def __missing__(self, token: str) -> int:
        if not isinstance(token, str):
            raise TypeError
        self[token] = number = len(self)
        return number


def read_documents(
    documents: Iterable[Any], split: Callable[[str], list[str]], expected_kind: str | None = None
) -> DocumentTokens:
    """Number the tokens of all documents, which must be of one kind: strings, or lists of tokens."""
    _check_container(documents)
    kind, numbering = expected_kind, _Numbering()
    ids, starts = array("i"), array("q", [0])
    for index, document in enumerate(documents):
        found = _kind_of(document, index)
        kind = kind or found
        if found != kind:
            earlier = "the pipeline was fitted on" if expected_kind else "the documents before are"
            raise InputError(f"documents[{index}] is {_KIND_IN_WORDS[found]}, {earlier} {_PLURAL[kind]}")
        try:
            ids.extend(map(numbering.__getitem__, split(document) if found == "text" else document))
        except TypeError:
            raise _not_a_token(document, index) from None
        starts.append(len(ids))
    return DocumentTokens(
        kind or "text",
        [str(token) for token in numbering],
        np.asarray(ids),
        np.asarray(starts),
    )


_KIND_IN_WORDS = {"text": "a string", "tokens": "a list of tokens"}
_PLURAL = {"text": "strings", "tokens": "lists of tokens"}


def _check_container(documents: Any) -> None:
    if isinstance(documents, (str, bytes)):
        raise InputError("got a single string instead of documents: pass a list of strings, [text]")
    # A data frame would be read as its column names.
    if isinstance(documents, dict) or getattr(documents, "ndim", 1) != 1:
        raise InputError(f"documents must be a list of strings, not a {type(documents).__name__}: pass one column")
    if not isinstance(documents, Iterable):
        raise InputError(f"documents must be a list of strings, not {type(documents).__name__}")


def _kind_of(document: object, index: int) -> str:
    if isinstance(document, str):
        return "text"
    if isinstance(document, (list, tuple)):
        return "tokens"
    raise InputError(f"documents[{index}] is of type {type(document).__name__}, not a string or a list of tokens")


def _not_a_token(document: Sequence[object], index: int) -> InputError:
    place, token = next((i, token) for i, token in enumerate(document) if not isinstance(token, str))
    return InputError(f"documents[{index}][{place}] is of type {type(token).__name__}, not a string")


def count_terms(documents: DocumentTokens, token_term: Sequence[str], terms: Sequence[str]) -> csr_matrix:
    """Documents x terms; `token_term` is the term of each token; tokens of unknown terms are ignored."""
    column_of = {term: column for column, term in enumerate(terms)}
    token_column = np.array([column_of.get(term, -1) for term in token_term], dtype=np.int32)
    columns = token_column[documents.ids]
    known = columns >= 0
    # Place of each document's first token among the known ones.
    known_before = np.concatenate([np.zeros(1, np.int64), np.cumsum(known)])
    counts = csr_matrix(
        (np.ones(known.sum(), np.int32), columns[known], known_before[documents.starts]),
        shape=(len(documents), len(terms)),
    )
    counts.sum_duplicates()  # sorts each row as well
    return counts


def most_frequent_forms(documents: DocumentTokens, token_term: Sequence[str], terms: Sequence[str]) -> list[str]:
    """For each term its most frequent token; the alphabetically first of equally frequent ones."""
    frequency = np.bincount(documents.ids, minlength=len(documents.tokens)).tolist()
    by_frequency = sorted(range(len(frequency)), key=lambda t: (-frequency[t], documents.tokens[t]))
    form_of: dict[str, str] = {}
    for token in by_frequency:
        form_of.setdefault(token_term[token], documents.tokens[token])
    return [form_of[term] for term in terms]
