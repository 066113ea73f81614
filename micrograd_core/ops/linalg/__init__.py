"""Linear algebra: decompositions and solvers, norms, and products beyond `matmul`."""
