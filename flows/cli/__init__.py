"""The ``forge`` command: one module per group of commands."""

from flows.cli.app import main

__all__ = ["main"]
