"""Tables: reading them, the types of their columns, their rows as numbers."""
