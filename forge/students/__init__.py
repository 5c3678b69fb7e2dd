"""Who writes candidates. A student never judges."""
