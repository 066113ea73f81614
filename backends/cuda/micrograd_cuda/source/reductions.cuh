// Sums, products and extremes of the columns or the rows of a contiguous matrix: each block takes a band of rows, or a
// piece of some, and a second launch what the blocks have found. Which elements a thread takes, and in which order,
// depends on the shape only. At the end comes the division that makes a sum a mean.
#include "common.cuh"

// HEIGHT rows at a time, in each a pack of V columns per lane: neighbours read neighbours. `read` gives what lies at a place,
// `made` the pack to add of that. Of some rows all is read before the first is made, which may store: no load goes past that.
template <class R, class T, class O, int V, int HEIGHT, class F, class M>
__device__ __forceinline__ void columns_of(O* to, double divisor, Long rows, Long columns, Long band, F read, M made) {
    typedef Wide<T> A;
    __shared__ A partial[HEIGHT][32][V];
    const int lane = static_cast<int>(threadIdx.x % 32), y = static_cast<int>(threadIdx.x / 32);
    const Long column = (static_cast<Long>(blockIdx.x) * 32 + lane) * V;
    const Long first = static_cast<Long>(blockIdx.y) * band, last = first + band < rows ? first + band : rows;
    A total[V];
#pragma unroll
    for (int v = 0; v < V; ++v) total[v] = R::template first<A>();
    if (column < columns) {
        constexpr int TOGETHER = 4;
        const auto add = [&](Long at, const auto& found) {
            A wide[V];
            widen_all(made(at, found), wide);
#pragma unroll
            for (int v = 0; v < V; ++v) total[v] = R::of(total[v], wide[v]);
        };
        Long row = first + y;
        for (; row + (TOGETHER - 1) * HEIGHT < last; row += TOGETHER * HEIGHT) {
            decltype(read(Long())) found[TOGETHER];
#pragma unroll
            for (int i = 0; i < TOGETHER; ++i) found[i] = read((row + i * HEIGHT) * columns + column);
#pragma unroll
            for (int i = 0; i < TOGETHER; ++i) add((row + i * HEIGHT) * columns + column, found[i]);
        }
#pragma unroll 1
        for (; row < last; row += HEIGHT) add(row * columns + column, read(row * columns + column));
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
KERNEL void reduce_columns(O* to, const T* x, double divisor, Long rows, Long columns, Long band) {
    columns_of<R, T, O, V, HEIGHT>(to, divisor, rows, columns, band, [&](Long at) { return load<T, V>(x + at); },
                                    [](Long, const Pack<T, V>& pack) { return pack; });
}

// The gradient of relu is kept, and summed: g where it gave more than 0.
template <class T, class O, int V, int HEIGHT>
KERNEL void relu_gradient_columns(
    O* to, T* kept, const T* g, const T* out, Long rows, Long columns, Long band) {
    struct Two { Pack<T, V> g, out; };
    const auto read = [&](Long at) { return Two{load<T, V>(g + at), load<T, V>(out + at)}; };
    columns_of<Sum, T, O, V, HEIGHT>(to, 1, rows, columns, band, read, [&](Long at, const Two& found) {
        Wide<T> gradient[V], given[V];
        widen_all(found.g, gradient);
        widen_all(found.out, given);
#pragma unroll
        for (int v = 0; v < V; ++v) gradient[v] = given[v] > 0 ? gradient[v] : Wide<T>(0);
        const Pack<T, V> pack = narrow_all<T>(gradient);
        store<T, V>(kept + at, pack);
        return pack;
    });
}

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
