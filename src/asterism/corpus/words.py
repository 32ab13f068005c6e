"""From raw text to words: splitting, stop lists and stemmers, each looked up by language."""

from __future__ import annotations

import functools
import importlib.resources
import logging
import re
import unicodedata
from collections.abc import Callable, Iterable

from asterism.errors import InputError

logger = logging.getLogger(__name__)

# "l'homme", "dell'arte": the article is glued to the noun, so an apostrophe separates two words there.
ELIDING_LANGUAGES = frozenset({"catalan", "french", "italian"})


@functools.cache
def _word_pattern(keep_apostrophes: bool) -> re.Pattern[str]:
    """Letters, then letters, digits and combining marks; optionally more of them after an apostrophe."""
    tail = rf"[\w{_combining_marks()}]*"
    word = rf"(?<!\w)[^\W\d]{tail}"
    return re.compile(rf"{word}(?:'[^\W\d]{tail})*" if keep_apostrophes else word)


def _combining_marks() -> str:
    r"""The vowel signs that `\w` leaves out, without which Hindi words fall apart, as regex ranges."""
    marks = {code for code in range(0x300, 0x10000) if unicodedata.category(chr(code)).startswith("M")}
    marks |= {0x200C, 0x200D}  # the joiners inside Persian and Indic words
    starts = sorted(code for code in marks if code - 1 not in marks)
    ends = sorted(code for code in marks if code + 1 not in marks)
    return "".join(f"{chr(start)}-{chr(end)}" for start, end in zip(starts, ends, strict=True))


def _holds_address(text: str) -> bool:
    return "@" in text[1:-1] or "://" in text or "www." in text


def _without_addresses(text: str) -> str:
    """Leave out the blank-separated pieces that hold an e-mail address or a URL: their parts are no words."""
    if not _holds_address(text):
        return text
    # By line first: most lines of a text with addresses have none and need not be cut into pieces.
    return "\n".join(
        " ".join(piece for piece in line.split() if not _holds_address(piece)) if _holds_address(line) else line
        for line in text.split("\n")
    )


def word_splitter(language: str | None) -> Callable[[str], list[str]]:
    """A function from text to its lower-cased words in order, single letters included."""
    find_words = _word_pattern(language not in ELIDING_LANGUAGES).findall

    def split(text: str) -> list[str]:
        text = _without_addresses(unicodedata.normalize("NFKC", text).lower())
        return find_words(text.replace("\u2019", "'").replace("\u02bc", "'").replace("_", " "))

    return split


def resolve_language(language: str | None) -> str | None:
    """The full name of a language given by name or two-letter code; an unknown one is an error."""
    if language is None or language == "english":
        return language
    import stop_words

    if not isinstance(language, str):
        raise InputError(f"language must be a name such as 'english' or None, not {language!r}")
    name: str = stop_words.LANGUAGE_MAPPING.get(language.lower(), language.lower())
    known = set(stop_words.AVAILABLE_LANGUAGES) | stemmer_names()
    if name not in known:
        raise InputError(
            f"language {language!r} is unknown; available are {', '.join(sorted(known))}; "
            "None means no standard stop words and no stemming"
        )
    return name


def stemmer_names() -> set[str]:
    import Stemmer

    return set(Stemmer.algorithms())


def standard_stop_words(language: str | None) -> list[str]:
    """The standard list: Snowball's 174 words for English, the `stop-words` package for other languages."""
    if language is None:
        return []
    if language == "english":
        source = importlib.resources.files("asterism.corpus") / "english_stop_words.txt"
        return source.read_text(encoding="utf-8").split()
    import stop_words

    if language not in stop_words.AVAILABLE_LANGUAGES:
        logger.warning("no standard stop words for %s: none are removed", language)
        return []
    return list(stop_words.get_stop_words(language))


def as_written_in_text(stop_words: Iterable[str], split: Callable[[str], list[str]]) -> set[str]:
    """Stop words in the form the splitter gives; entries of several words never match and are left out."""
    forms = (split(word) for word in stop_words)
    return {words[0] for words in forms if len(words) == 1}


def available_stemmer(language: str | None) -> str | None:
    """The name of the Snowball stemmer for a language, or None (logged) when there is none."""
    if language is None or language in stemmer_names():
        return language
    logger.warning("no stemmer for %s: words are kept as they are", language)
    return None


def stem_words(words: list[str], stemmer: str | None) -> list[str]:
    """The stem of each word by the named Snowball algorithm; None keeps the words."""
    if stemmer is None:
        return words
    import Stemmer

    # No cache inside: the caller passes each distinct word once.
    stems: list[str] = Stemmer.Stemmer(stemmer, 0).stemWords(words)
    return stems
