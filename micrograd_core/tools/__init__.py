"""The command ``micrograd``: devices, conformance, benchmarks, a scaffold for backends; others add theirs."""
