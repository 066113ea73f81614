// Sums, products and extremes of the columns or the rows of a contiguous matrix: each block takes a band of rows, or a
// piece of some, and a second launch what the blocks have found. Which elements a thread takes, and in which order,
// depends on the shape only. At the end comes the division that makes a sum a mean.
#include "common.cuh"

// HEIGHT rows at a time, in each a pack of V columns per lane: neighbours read neighbours. `read` gives the pack at a place.
template <class R, class T, class O, int V, int HEIGHT, class F>
__device__ __forceinline__ void columns_of(O* to, double divisor, Long rows, Long columns, Long band, F read) {
    typedef Wide<T> A;
    __shared__ A partial[HEIGHT][32][V];
    const int lane = static_cast<int>(threadIdx.x % 32), y = static_cast<int>(threadIdx.x / 32);
    const Long column = (static_cast<Long>(blockIdx.x) * 32 + lane) * V;
    const Long first = static_cast<Long>(blockIdx.y) * band, last = first + band < rows ? first + band : rows;
    A total[V];
#pragma unroll
    for (int v = 0; v < V; ++v) total[v] = R::template first<A>();
    if (column < columns) {
#pragma unroll 4
        for (Long row = first + y; row < last; row += HEIGHT) {
            const Pack<T, V> pack = read(row * columns + column);
#pragma unroll
            for (int v = 0; v < V; ++v) total[v] = R::of(total[v], widen(pack.at[v]));
        }
    }
#pragma unroll
    for (int v = 0; v < V; ++v) partial[y][lane][v] = total[v];
    __syncthreads();
    if (y > 0 || column >= columns) return;
    Pack<O, V> found;
#pragma unroll
    for (int v = 0; v < V; ++v) {
#pragma unroll
        for (int other = 1; other < HEIGHT; ++other) total[v] = R::of(total[v], partial[other][lane][v]);
        found.at[v] = narrowed<O>(total[v] / static_cast<A>(divisor));
    }
    store<O, V>(to + static_cast<Long>(blockIdx.y) * columns + column, found);
}

template <class R, class T, class O, int V, int HEIGHT>
__device__ __forceinline__ void reduce_columns(O* to, const T* x, double divisor, Long rows, Long columns, Long band) {
    columns_of<R, T, O, V, HEIGHT>(to, divisor, rows, columns, band, [&](Long at) { return load<T, V>(x + at); });
}

// The gradient of relu is kept, and summed: g where it gave more than 0.
template <class T, class O, int V, int HEIGHT>
__device__ __forceinline__ void relu_gradient_columns(
    O* to, T* kept, const T* g, const T* out, Long rows, Long columns, Long band) {
    columns_of<Sum, T, O, V, HEIGHT>(to, 1, rows, columns, band, [&](Long at) {
        Pack<T, V> pack = load<T, V>(g + at);
        const Pack<T, V> given = load<T, V>(out + at);
#pragma unroll
        for (int v = 0; v < V; ++v) pack.at[v] = narrowed<T>(widen(given.at[v]) > 0 ? widen(pack.at[v]) : Wide<T>(0));
        store<T, V>(kept + at, pack);
        return pack;
    });
}

// G threads take a piece of a row, so many columns from blockIdx.y * piece on.
template <class R, class T, class O, int G, int V>
__device__ __forceinline__ void reduce_rows(O* to, const T* x, double divisor, Long rows, Long columns, Long piece) {
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
#pragma unroll 4
            for (Long at = start + lane * V; at < end; at += G * V) {
                const Pack<T, V> pack = load<T, V>(x + row * columns + at);
#pragma unroll
                for (int v = 0; v < V; ++v) total[v] = R::of(total[v], widen(pack.at[v]));
            }
        }
#pragma unroll
        for (int v = 1; v < V; ++v) total[0] = R::of(total[0], total[v]);
        const A found = reduce<R, G>(total[0]);
        if (lane == 0 && row < rows)
            to[row * gridDim.y + blockIdx.y] = narrowed<O>(found / static_cast<A>(divisor));
    }
}
