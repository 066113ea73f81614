"""Functions to functions: `grad`, Jacobians, `vmap`, gradients of one's own, checkpoints, and checks of gradients."""
