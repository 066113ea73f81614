// What printed nests use beside the functions of elements: whole packs, and the first elements of the last one.
#include "elementwise.cuh"

// W elements lie at a multiple of their size.
template <class T, int V, int W> __device__ __forceinline__ Pack<T, V> part(const T* from, int count) {
    if (count == V) return load<T, V, W>(from);
    Pack<T, V> pack = {};
#pragma unroll
    for (int v = 0; v < V; ++v)
        if (v < count) pack.at[v] = from[v];
    return pack;
}

// A float that is rounded as a double when it is rounded once more, to fewer digits: its last digit says what is missing.
#ifndef MICROGRAD_HOST
__device__ __forceinline__ float to_odd(double x) {
    const float below = __double2float_rz(x);
    return static_cast<double>(below) == x || x != x ? below : from_bits(to_bits(below) | 1u);
}
#endif
