// Sums over the rows of a contiguous matrix, in two steps: each block sums a band of rows for 32 columns, and a second
// launch sums the bands. Which rows a thread adds, and in which order, depends on the shape only.
#include "common.cuh"

constexpr int WIDTH = 32;  // columns of a block, one per lane: neighbours read neighbours
constexpr int HEIGHT = 8;  // rows that a block reads at a time

// term(row, column) summed over the rows of this block's band
template <class A, class F> __device__ __forceinline__ void sum_band(A* to, Long rows, Long columns, Long band, F term) {
    __shared__ A partial[HEIGHT][WIDTH];
    const int x = static_cast<int>(threadIdx.x % WIDTH), y = static_cast<int>(threadIdx.x / WIDTH);
    const Long column = static_cast<Long>(blockIdx.x) * WIDTH + x;
    const Long first = static_cast<Long>(blockIdx.y) * band, last = first + band < rows ? first + band : rows;
    A total = 0;
    if (column < columns)
        for (Long row = first + y; row < last; row += HEIGHT) total += term(row, column);
    partial[y][x] = total;
    __syncthreads();
    if (y == 0 && column < columns) {
#pragma unroll
        for (int other = 1; other < HEIGHT; ++other) total += partial[other][x];
        to[static_cast<Long>(blockIdx.y) * columns + column] = total;
    }
}

template <class T> __device__ __forceinline__ void column_sum(Wide<T>* to, const T* x, Long rows, Long columns, Long band) {
    sum_band(to, rows, columns, band, [&](Long row, Long column) { return widen(x[row * columns + column]); });
}

// The bands of a matrix of partial sums, one after the other, in the elements' own type.
template <class T> __device__ __forceinline__ void sum_bands(T* to, const Wide<T>* partial, Long bands, Long columns) {
    const Long column = static_cast<Long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (column >= columns) return;
    Wide<T> total = 0;
    for (Long band = 0; band < bands; ++band) total += partial[band * columns + column];
    to[column] = narrowed<T>(total);
}
