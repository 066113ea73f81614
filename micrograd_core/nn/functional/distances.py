"""Lengths of vectors, and how far or how alike two of them are."""

from __future__ import annotations

from micrograd_core.nn.functional.common import of_operations, publish

of_operations(globals(), "x1 x2", "cosine_similarity pairwise_distance")
of_operations(globals(), "input", "pdist")
publish(globals())
