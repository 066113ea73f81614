"""What networks are made of: activations, normalization, convolution, pooling, attention, dropout, losses."""
