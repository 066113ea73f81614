"""What is measured and proven on a machine with a GPU. `run.sh` does all of it."""
