// Rows by number, and images as matrices: what embeddings and convolutions gather and add up.
#include "common.cuh"

// ── embedding ───────────────────────────────────────────────────────────────────────────────────────────────────

// to[i] = weight[indices[i]], in packs; NaN where an index names no row.
template <class T, class I, int V>
__device__ __forceinline__ void gather(T* to, const T* weight, const I* indices, Long count, Long rows, Long columns) {
    const Long packs = columns / V, step = static_cast<Long>(gridDim.x) * blockDim.x;
    for (Long i = static_cast<Long>(blockIdx.x) * blockDim.x + threadIdx.x; i < count * packs; i += step) {
        const Long row = static_cast<Long>(indices[i / packs]);
        Pack<T, V> pack;
        if (row >= 0 && row < rows) {
            pack = load<T, V>(weight + row * columns + i % packs * V);
        } else {
#pragma unroll
            for (int v = 0; v < V; ++v) pack.at[v] = narrowed<T>(nan_of<Wide<T>>());
        }
        store<T, V>(to + i * V, pack);
    }
}

// to[indices[i]] += g[i], in the wide type, in whatever order the threads arrive. Indices outside are left out.
template <class T, class I>
__device__ __forceinline__ void scatter_add(Wide<T>* to, const T* g, const I* indices, Long count, Long rows, Long columns) {
    const Long step = static_cast<Long>(gridDim.x) * blockDim.x;
    for (Long i = static_cast<Long>(blockIdx.x) * blockDim.x + threadIdx.x; i < count * columns; i += step) {
        const Long row = static_cast<Long>(indices[i / columns]);
        if (row >= 0 && row < rows) atomicAdd(to + row * columns + i % columns, widen(g[i]));
    }
}

// What sorts: the row that an index names, or `rows` where it names none; negative ones may count from the end.
template <class K, class I>
__device__ __forceinline__ void row_keys(K* to, const I* indices, Long negative, Long count, Long rows) {
    const Long step = static_cast<Long>(gridDim.x) * blockDim.x;
    for (Long i = static_cast<Long>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
        Long row = static_cast<Long>(indices[i]);
        if (negative && row < 0) row += rows;
        to[i] = static_cast<K>(row >= 0 && row < rows ? row : rows);
    }
}

// Where in the order each row begins; one more says where the last ends. `order` sorts the keys.
template <class K>
__device__ __forceinline__ void row_starts(Long* first, const K* keys, const Long* order, Long count, Long rows) {
    const Long step = static_cast<Long>(gridDim.x) * blockDim.x;
    for (Long row = static_cast<Long>(blockIdx.x) * blockDim.x + threadIdx.x; row <= rows; row += step) {
        Long low = 0, high = count;
        while (low < high) {
            const Long middle = (low + high) / 2;
            if (static_cast<Long>(keys[order[middle]]) < row) low = middle + 1;
            else high = middle;
        }
        first[row] = low;
    }
}

// A pack of V columns of the values from `at` to `end` in the order, added to `total` one after the other.
template <class T, int V>
__device__ __forceinline__ void add_in_order(
    Wide<T> (&total)[V], const T* g, const Long* order, Long at, Long end, Long columns, Long column) {
    constexpr int TOGETHER = 4;  // the loads do not wait for each other
    const auto add = [&](const Pack<T, V>& pack) {
        Wide<T> wide[V];
        widen_all(pack, wide);
#pragma unroll
        for (int v = 0; v < V; ++v) total[v] += wide[v];
    };
    for (; at + TOGETHER <= end; at += TOGETHER) {
        Pack<T, V> packs[TOGETHER];
#pragma unroll
        for (int i = 0; i < TOGETHER; ++i) packs[i] = load<T, V>(g + order[at + i] * columns + column);
#pragma unroll
        for (int i = 0; i < TOGETHER; ++i) add(packs[i]);
    }
#pragma unroll 1
    for (; at < end; ++at) add(load<T, V>(g + order[at] * columns + column));
}

// The order is cut into segments of one length. The sum of each that belongs to one row as a whole; of no others.
template <class T, class K, int V>
__device__ __forceinline__ void add_segments(
    Wide<T>* partial, const T* g, const K* keys, const Long* order, Long segments, Long segment, Long columns) {
    const Long packs = columns / V, step = static_cast<Long>(gridDim.x) * blockDim.x;
    for (Long i = static_cast<Long>(blockIdx.x) * blockDim.x + threadIdx.x; i < segments * packs; i += step) {
        const Long start = i / packs * segment, column = i % packs * V;
        if (keys[order[start]] != keys[order[start + segment - 1]]) continue;
        Pack<Wide<T>, V> total{};
        add_in_order<T, V>(total.at, g, order, start, start + segment, columns, column);
        store<Wide<T>, V>(partial + i / packs * columns + column, total);
    }
}

// `base` (zeros where it is null) and the values in one order, which depends on the indices only: one by one up to the first
// segment that is all of the row, then the sums of segments, then one by one. Without `partial` there are no segments.
template <class T, int V>
__device__ __forceinline__ void sorted_add(
    T* to, const T* base, const T* g, const Long* order, const Long* first, const Wide<T>* partial, Long segment,
    Long rows, Long columns) {
    typedef Wide<T> A;
    const Long packs = columns / V, step = static_cast<Long>(gridDim.x) * blockDim.x;
    for (Long i = static_cast<Long>(blockIdx.x) * blockDim.x + threadIdx.x; i < rows * packs; i += step) {
        const Long row = i / packs, column = i % packs * V, start = first[row], end = first[row + 1];
        A total[V] = {};
        if (base != nullptr) widen_all(load<T, V>(base + i * V), total);
        Long whole = (start + segment - 1) / segment, after = end / segment;  // segments from, and up to
        if (partial == nullptr || whole >= after) {
            add_in_order<T, V>(total, g, order, start, end, columns, column);
        } else {
            add_in_order<T, V>(total, g, order, start, whole * segment, columns, column);
#pragma unroll 4
            for (Long at = whole; at < after; ++at) {
                const Pack<A, V> found = load<A, V>(partial + at * columns + column);
#pragma unroll
                for (int v = 0; v < V; ++v) total[v] += found.at[v];
            }
            add_in_order<T, V>(total, g, order, after * segment, end, columns, column);
        }
        store(to + i * V, narrow_all<T>(total));
    }
}

// ── convolution ─────────────────────────────────────────────────────────────────────────────────────────────────

// An image batch (images, channels, height, width) and the windows of a kernel on it.
// Index counts everything: int, where it can.
template <class Index> struct Windows {
    Index images, channels, height, width;
    Index kernel[2], out[2], stride[2], padding[2], dilation[2];
};

// (images, channels * kernel height * kernel width, out height * out width): each column is one window; `fill` in the padding.
// With `images_inside` the images are not the first axis, but the one before the positions.
template <class T, class Index>
__device__ __forceinline__ void im2col(T* to, const T* x, double fill, Long images_inside, const Windows<Index>& w) {
    const Index positions = w.out[0] * w.out[1], taps = w.kernel[0] * w.kernel[1];
    const Index size = w.images * w.channels * taps * positions;
    const Index step = static_cast<Index>(gridDim.x) * blockDim.x;
    for (Index i = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x; i < size; i += step) {
        const Index position = i % positions, outer = i / positions;
        const Index tap = (images_inside ? outer / w.images : outer) % taps;
        const Index plane = images_inside ? outer % w.images * w.channels + outer / w.images / taps : outer / taps;
        const Index row = position / w.out[1] * w.stride[0] - w.padding[0] + tap / w.kernel[1] * w.dilation[0];
        const Index column = position % w.out[1] * w.stride[1] - w.padding[1] + tap % w.kernel[1] * w.dilation[1];
        const bool inside = row >= 0 && row < w.height && column >= 0 && column < w.width;
        to[i] = inside ? x[(plane * w.height + row) * w.width + column] : narrowed<T>(static_cast<Wide<T>>(fill));
    }
}

// Its transpose: each pixel sums the windows it was in, one thread per pixel, in the order of the kernel's taps.
template <class T, class Index>
__device__ __forceinline__ void col2im(T* to, const T* columns, const Windows<Index>& w) {
    const Index positions = w.out[0] * w.out[1], taps = w.kernel[0] * w.kernel[1];
    const Index size = w.images * w.channels * w.height * w.width;
    const Index step = static_cast<Index>(gridDim.x) * blockDim.x;
    for (Index i = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x; i < size; i += step) {
        const Index x = i % w.width, y = i / w.width % w.height, plane = i / w.width / w.height;
        Wide<T> total = 0;
        for (Index tap = 0; tap < taps; ++tap) {
            const Index row = y + w.padding[0] - tap / w.kernel[1] * w.dilation[0];
            const Index column = x + w.padding[1] - tap % w.kernel[1] * w.dilation[1];
            if (row < 0 || column < 0 || row % w.stride[0] != 0 || column % w.stride[1] != 0) continue;
            const Index down = row / w.stride[0], right = column / w.stride[1];
            if (down < w.out[0] && right < w.out[1])
                total += widen(columns[(plane * taps + tap) * positions + down * w.out[1] + right]);
        }
        to[i] = narrowed<T>(total);
    }
}
