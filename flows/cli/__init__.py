"""The ``forge`` command: one module per group of commands."""
