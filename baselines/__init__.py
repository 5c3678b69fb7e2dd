"""Git store of sealed kernels, and the catalog of tasks."""
