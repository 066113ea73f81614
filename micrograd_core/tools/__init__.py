"""The command ``micrograd``: the doctor, a new backend's scaffold, and training."""
