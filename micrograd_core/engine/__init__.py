"""What happens at every operation, and how gradients come back: the record of what was computed, and its sweep."""
