"""The report of a training: figures as numbers, pictures, and a page that holds all of it."""
