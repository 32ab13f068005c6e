"""The errors a user can do something about; each message names the culprit and is one line."""


class AsterismError(ValueError):
    """Base of everything raised on purpose, so that one `except` catches it."""


class InputError(AsterismError):
    """A document, matrix, file or setting that cannot be used, named in the message."""


class ModelFileError(AsterismError):
    """A model folder that is missing, damaged, or from a newer version."""
