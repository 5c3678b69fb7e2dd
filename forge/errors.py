"""Errors, named after who must act on them."""


class ForgeError(Exception):
    """Base of every error this project raises on purpose."""


class UsageError(ForgeError):
    """The operator can fix it: printed as one sentence, without a traceback, exit code 2."""


class HarnessFault(ForgeError):
    """Ours: it says nothing about the candidate, which is tried again."""


class StaleState(ForgeError):
    """Another writer moved the record first: read it again and decide again."""
