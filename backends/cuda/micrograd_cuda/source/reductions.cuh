// Sums, products and extremes of the rows of a contiguous matrix: each block takes a piece of some, and a second launch what
// the blocks have found. Which elements a thread takes, and in which order, depends on the shape only. At the end comes the
// division that makes a sum a mean.
#include "common.cuh"

// G threads take a piece of a row, so many columns from blockIdx.y * piece on.
template <class R, class T, class O, int G, int V>
KERNEL void reduce_rows(O* to, const T* x, double divisor, Long rows, Long columns, Long piece) {
    typedef Wide<T> A;
    const Long together = blockDim.x / G, step = together * gridDim.x;
    const Long start = static_cast<Long>(blockIdx.y) * piece, end = start + piece < columns ? start + piece : columns;
    const int lane = static_cast<int>(threadIdx.x % G);
    for (Long first = static_cast<Long>(blockIdx.x) * together; first < rows; first += step) {
        const Long row = first + threadIdx.x / G;
        A total[V];
#pragma unroll
        for (int v = 0; v < V; ++v) total[v] = R::template first<A>();
        if (row < rows) {
            constexpr int TOGETHER = 4;
            const T* from = x + row * columns + start + lane * V;
            const T* const last = x + row * columns + end;
            const auto add = [&](const Pack<T, V>& pack) {
                A wide[V];
                widen_all(pack, wide);
#pragma unroll
                for (int v = 0; v < V; ++v) total[v] = R::of(total[v], wide[v]);
            };
            for (; from + (TOGETHER - 1) * G * V < last; from += TOGETHER * G * V) {
                Pack<T, V> packs[TOGETHER];
#pragma unroll
                for (int i = 0; i < TOGETHER; ++i) packs[i] = load<T, V>(from + i * G * V);
#pragma unroll
                for (int i = 0; i < TOGETHER; ++i) add(packs[i]);
            }
#pragma unroll 1
            for (; from < last; from += G * V) add(load<T, V>(from));
        }
#pragma unroll
        for (int v = 1; v < V; ++v) total[0] = R::of(total[0], total[v]);
        const A found = reduce<R, G>(total[0]);
        if (lane == 0 && row < rows)
            to[row * gridDim.y + blockIdx.y] = narrowed<O>(found / static_cast<A>(divisor));
    }
}
