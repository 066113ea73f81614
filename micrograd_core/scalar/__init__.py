"""`Value`, micrograd's scalar: its rules and its sweep, long chains packed, `jit`, and the bridge to tensors."""
