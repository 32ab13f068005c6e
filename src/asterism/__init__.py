"""Asterism: correlated topics in large text collections."""

__version__ = "0.1.0"
