"""`Tensor`, what makes tensors, and functions of them: the array API over the engine."""
