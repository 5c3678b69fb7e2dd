"""Task folders: what a kernel must compute, at which sizes, within which error."""
