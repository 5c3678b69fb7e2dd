"""Who decides: processes, clock, numbers, verdict."""
