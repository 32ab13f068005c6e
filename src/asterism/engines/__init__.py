"""Who computes a batch. An engine answers questions about a batch under given topics; it decides nothing."""

from .base import Engine
from .select import ENGINES, select_engine

__all__ = ["ENGINES", "Engine", "select_engine"]
