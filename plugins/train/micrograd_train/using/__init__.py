"""What is done with a trained network: predictions, figures, a look inside, other devices, other formats."""
