"""Bytes and lines out of plain files, gzip files and standard input; what cannot be read is an InputError."""

from __future__ import annotations

import contextlib
import gzip
import os
import sys
import zlib
from collections.abc import Iterator
from typing import BinaryIO

from asterism.errors import InputError

STANDARD_INPUT = "-"


@contextlib.contextmanager
def open_bytes(path: str | os.PathLike[str]) -> Iterator[BinaryIO | gzip.GzipFile]:
    """The decompressed bytes of a file; errors while reading inside `with` are translated as well."""
    name = os.fspath(path)
    try:
        if name == STANDARD_INPUT:
            yield sys.stdin.buffer
        elif name.lower().endswith(".gz"):
            with gzip.open(name, "rb") as compressed:
                yield compressed
        else:
            with open(name, "rb") as stream:
                yield stream
    except (gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{name}: is not a gzip file, or a damaged one ({error})") from error
    except EOFError as error:
        raise InputError(f"{name}: ends in the middle of its gzip data") from error
    except OSError as error:
        raise InputError(f"{name}: cannot be read: {error.strerror or error}") from error


def numbered_lines(path: str | os.PathLike[str]) -> Iterator[tuple[int, str]]:
    """Number (from 1) and text of each line, without its end; only a line feed ends a line."""
    with open_bytes(path) as stream:
        for number, line in enumerate(stream, 1):
            if number == 1:
                line = line.removeprefix(b"\xef\xbb\xbf")  # the byte order mark some Windows programs write
            try:
                text = line.rstrip(b"\r\n").decode("utf-8")
            except UnicodeDecodeError as error:
                raise InputError(f"{path}, line {number}: is not UTF-8 text ({error.reason})") from error
            if "\0" in text:
                raise InputError(f"{path}, line {number}: holds a zero byte, so this is not a text file")
            yield number, text
