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
