"""`python -m asterism` is `asterism`."""

from .cli import main

main()
