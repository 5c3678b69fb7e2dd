"""Who studies a baseline and orders what to try. A teacher never writes kernels."""
