"""UCI bag of words: a header of three lines (documents, words, entries), then `document word count` from 1.

The files have up to billions of lines, so a block of some megabytes is parsed at a time by NumPy.
"""

from __future__ import annotations

import os
import re
from array import array
from collections.abc import Iterator
from gzip import GzipFile
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from asterism.corpus.streams import numbered_lines, open_bytes
from asterism.errors import InputError

_BLOCK_BYTES = 1 << 22
_HEADER = ("documents", "words", "entries")
_LARGEST = np.iinfo(np.int32).max - 1
_ENTRY = re.compile(rb"[ \t]*\d{1,18}[ \t]+\d{1,18}[ \t]+\d{1,18}[ \t\r]*")


def read_counts(path: Path) -> csr_matrix:
    """Documents x words, int32; a document without entries keeps its row."""
    with open_bytes(path) as stream:
        n_documents, n_words, n_entries = _read_header(stream, path)
        columns = [array("i") for _ in range(3)]  # grow in place: lists of blocks would need twice the memory
        for first_line, block in _blocks_of_lines(stream, first_line=len(_HEADER) + 1):
            entries = _parse_entries(block, first_line, path)
            _check_entries(entries, (n_documents, n_words), first_line, path)
            for column, values in zip(columns, entries.T, strict=True):
                column.frombytes(values.astype(np.int32).tobytes())
    if len(columns[0]) != n_entries:
        raise InputError(f"{path}: the header promises {n_entries} entries, the file has {len(columns[0])}")
    documents, words, counts = (np.asarray(column) for column in columns)
    return _assemble(documents, words, counts, shape=(n_documents, n_words))


def _read_header(stream: BinaryIO | GzipFile, path: Path) -> list[int]:
    header = []
    for number, name in enumerate(_HEADER, 1):
        line = stream.readline(1000).strip()
        if not re.fullmatch(rb"\d{1,18}", line) or (name != "entries" and int(line) > _LARGEST):
            raise InputError(f"{path}, line {number}: expected the number of {name}, found {_shown(line)}")
        header.append(int(line))
    return header


def _blocks_of_lines(stream: BinaryIO | GzipFile, first_line: int) -> Iterator[tuple[int, bytes]]:
    """Blocks of whole lines with the number of their first line; blank lines at the end are left out."""
    while block := stream.read(_BLOCK_BYTES) + stream.readline():
        if block.strip():
            yield first_line, block.rstrip() + b"\n"
        first_line += block.count(b"\n")


def _parse_entries(block: bytes, first_line: int, path: Path) -> NDArray[np.int64]:
    """The three numbers of each line, shape (lines, 3)."""
    data = np.frombuffer(block, dtype=np.uint8)
    is_digit = (data - ord("0")) <= 9  # wraps around below "0"
    is_gap = (data == ord(" ")) | (data == ord("\t")) | (data == ord("\r")) | (data == ord("\n"))
    edges = np.flatnonzero(np.diff(is_digit, prepend=False))  # the block ends in a line feed: an even number
    starts, ends = edges[0::2], edges[1::2]
    line_ends = np.flatnonzero(data == ord("\n"))
    if (
        not (is_digit | is_gap).all()
        or len(starts) != 3 * len(line_ends)
        or (ends[2::3] > line_ends).any()
        or (starts[3::3] < line_ends[:-1]).any()
        or (ends - starts).max() > 18
    ):
        raise _bad_entry(block, first_line, path)
    return _decimal_values(data, starts, ends).reshape(-1, 3)


def _decimal_values(data: NDArray[np.uint8], starts: NDArray[np.intp], ends: NDArray[np.intp]) -> NDArray[np.int64]:
    """The numbers whose digits are `data[starts[i]:ends[i]]`."""
    values = np.zeros(len(starts), dtype=np.int64)
    lengths = ends - starts
    for place in range(int(lengths.max())):
        has_place = np.flatnonzero(lengths > place)
        digits = data[ends[has_place] - 1 - place] - ord("0")
        values[has_place] += digits.astype(np.int64) * 10**place
    return values


def _bad_entry(block: bytes, first_line: int, path: Path) -> InputError:
    """Find the line that is not three numbers; slow, but needed once."""
    lines = enumerate(block.split(b"\n"), first_line)
    number, line = next((number, line) for number, line in lines if not _ENTRY.fullmatch(line))
    return InputError(f"{path}, line {number}: expected `document word count`, found {_shown(line)}")


def _shown(line: bytes) -> str:
    return repr(line[:40].decode("utf-8", errors="replace")) + ("..." if len(line) > 40 else "")


def _check_entries(entries: NDArray[np.int64], shape: tuple[int, int], first_line: int, path: Path) -> None:
    for column, (name, lowest, highest) in enumerate(
        [("document", 1, shape[0]), ("word", 1, shape[1]), ("count", 0, _LARGEST)]
    ):
        values = entries[:, column]
        if values.min() < lowest or values.max() > highest:
            row = int(np.flatnonzero((values < lowest) | (values > highest))[0])
            raise InputError(
                f"{path}, line {first_line + row}: {name} {values[row]} is not between {lowest} and {highest}"
            )


def _assemble(
    documents: NDArray[np.int32],
    words: NDArray[np.int32],
    counts: NDArray[np.int32],
    *,
    shape: tuple[int, int],
) -> csr_matrix:
    if (documents[1:] < documents[:-1]).any():
        order = np.argsort(documents, kind="stable")
        documents, words, counts = documents[order], words[order], counts[order]
    row_starts = np.searchsorted(documents, np.arange(1, shape[0] + 2, dtype=np.int32))
    words -= 1
    matrix = csr_matrix((counts, words, row_starts), shape=shape)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return matrix


def read_vocabulary(path: str | os.PathLike[str], n_words: int) -> list[str]:
    """One word a line, as many as the counts have columns."""
    words = _lines_before_trailing_blanks(path)
    if len(words) != n_words:
        raise InputError(f"{path}: has {len(words)} words, but the counts are over {n_words}")
    return words


def read_labels(path: Path, n_documents: int) -> list[str]:
    """One label a line, as many as there are documents."""
    labels = _lines_before_trailing_blanks(path)
    if len(labels) != n_documents:
        raise InputError(f"{path}: has {len(labels)} labels for {n_documents} documents")
    return labels


def _lines_before_trailing_blanks(path: str | os.PathLike[str]) -> list[str]:
    lines = [line.strip() for _, line in numbered_lines(path)]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def find_vocabulary(counts_path: Path) -> Path:
    """`vocab.NAME.txt` beside `docword.NAME.txt`; of NAME = `nips.train` the ending may be missing."""
    parts = _name_parts(counts_path)
    names = [".".join(["vocab", *parts[:n], "txt"]) for n in range(len(parts), -1, -1)]
    for name in names:
        if found := _existing(counts_path.with_name(name)):
            return found
    raise InputError(f"{counts_path}: no vocabulary beside it (tried {', '.join(names)}); name its file")


def find_labels(counts_path: Path) -> Path | None:
    """`labels.NAME.txt` beside `docword.NAME.txt`, for exactly this NAME, or None."""
    return _existing(counts_path.with_name(".".join(["labels", *_name_parts(counts_path), "txt"])))


def _name_parts(counts_path: Path) -> list[str]:
    """["nips", "train"] of docword.nips.train.txt.gz."""
    name = counts_path.name.removesuffix(".gz").removesuffix(".txt")
    return [part for part in name.removeprefix("docword").split(".") if part]


def _existing(path: Path) -> Path | None:
    return next((p for p in (path, path.with_name(path.name + ".gz")) if p.is_file()), None)
