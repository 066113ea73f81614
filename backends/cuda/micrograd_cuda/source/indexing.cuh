// Rows by number, and images as matrices: what embeddings and convolutions gather and add up.
#include "common.cuh"

// ── embedding ───────────────────────────────────────────────────────────────────────────────────────────────────

// to[i] = weight[indices[i]], in packs; NaN where an index names no row.
template <class T, class I, int V>
KERNEL void gather(T* to, const T* weight, const I* indices, Long count, Long rows, Long columns) {
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

// What sorts: the row that an index names, or `rows` where it names none; negative ones may count from the end.
template <class K, class I>
KERNEL void row_keys(K* to, const I* indices, Long negative, Long count, Long rows) {
    const Long step = static_cast<Long>(gridDim.x) * blockDim.x;
    for (Long i = static_cast<Long>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
        Long row = static_cast<Long>(indices[i]);
        if (negative && row < 0) row += rows;
        to[i] = static_cast<K>(row >= 0 && row < rows ? row : rows);
    }
}

// Where in the order each row begins; one more says where the last ends. `order` sorts the keys.
template <class K>
KERNEL void row_starts(Long* first, const K* keys, const Long* order, Long count, Long rows) {
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
KERNEL void add_segments(
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
KERNEL void sorted_add(
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
