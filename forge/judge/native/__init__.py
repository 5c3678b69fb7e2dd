"""The judge's own machine code: clock, eviction, call loop and comparison."""
