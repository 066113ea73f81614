"""What the array API standard has beyond `core`: functions of numbers, indexing, sorting, random numbers, FFT."""
