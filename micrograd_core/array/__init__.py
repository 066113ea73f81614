"""`Tensor`, what makes tensors, and what is made of them: the array API over the engine."""
