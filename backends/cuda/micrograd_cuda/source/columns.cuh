// Sums over the rows of a contiguous matrix: each block sums a band of rows for some columns, and a second launch the
// bands. Which rows a thread adds, and in which order, depends on the shape only.
#include "common.cuh"

// HEIGHT rows at a time, in each a pack of V columns per lane: neighbours read neighbours.
template <class T, class O, int V, int HEIGHT>
__device__ __forceinline__ void column_sum(O* to, const T* x, Long rows, Long columns, Long band) {
    typedef Wide<T> A;
    __shared__ A partial[HEIGHT][32][V];
    const int lane = static_cast<int>(threadIdx.x % 32), y = static_cast<int>(threadIdx.x / 32);
    const Long column = (static_cast<Long>(blockIdx.x) * 32 + lane) * V;
    const Long first = static_cast<Long>(blockIdx.y) * band, last = first + band < rows ? first + band : rows;
    A total[V] = {};
    if (column < columns) {
#pragma unroll 4
        for (Long row = first + y; row < last; row += HEIGHT) {
            const Pack<T, V> pack = load<T, V>(x + row * columns + column);
#pragma unroll
            for (int v = 0; v < V; ++v) total[v] += widen(pack.at[v]);
        }
    }
#pragma unroll
    for (int v = 0; v < V; ++v) partial[y][lane][v] = total[v];
    __syncthreads();
    if (y > 0 || column >= columns) return;
    Pack<O, V> sums;
#pragma unroll
    for (int v = 0; v < V; ++v) {
#pragma unroll
        for (int other = 1; other < HEIGHT; ++other) total[v] += partial[other][lane][v];
        sums.at[v] = narrowed<O>(total[v]);
    }
    store<O, V>(to + static_cast<Long>(blockIdx.y) * columns + column, sums);
}
