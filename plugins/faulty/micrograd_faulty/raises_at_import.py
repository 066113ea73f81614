"""A plugin that cannot be imported."""

raise ImportError("libfaulty.so.1: cannot open shared object file")
