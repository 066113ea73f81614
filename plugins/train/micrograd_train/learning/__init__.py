"""``micrograd train``: from a table, a folder of images or a built-in set to a trained network and a report."""
