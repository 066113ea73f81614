// Optimisers' updates of many tensors in one launch; what is kept of each is wide. Each block finds the tensor and the piece of it that it moves.
#include "common.cuh"

constexpr int MOST = 48;         // tensors per launch: the table travels as a parameter, of at most 4 KiB
constexpr int PIECE = 256 * 16;  // elements per block

struct Table {
    Long count;
    Long size[MOST];
    Long first[MOST + 1];  // of each tensor, the number of its first block
    Long parameter[MOST], gradient[MOST], result[MOST], state1[MOST], state2[MOST];  // addresses

    __device__ __forceinline__ Long addresses(int k) const {
        return parameter[k] | gradient[k] | result[k] | state1[k] | state2[k];
    }
};

constexpr int LISTED = 160;  // tensors per launch that are only read
struct Tensors {
    Long count, size[LISTED], first[LISTED + 1], address[LISTED];

    __device__ __forceinline__ Long addresses(int k) const { return address[k]; }
};

// Neighbours from `at` on in one tensor: a WHOLE pack of V at multiples of 16 bytes, or `count` elements anywhere.
template <int V, bool WHOLE> struct Part {
    int tensor, count;
    Long at;
};

template <class T, int V, bool WHOLE>
__device__ __forceinline__ void get(Long address, const Part<V, WHOLE>& part, Wide<T> (&to)[V]) {
    const T* from = reinterpret_cast<const T*>(address) + part.at;
    if constexpr (WHOLE) {
        const Pack<T, V> pack = load<T, V>(from);
#pragma unroll
        for (int v = 0; v < V; ++v) to[v] = widen(pack.at[v]);
    } else {
#pragma unroll
        for (int v = 0; v < V; ++v) to[v] = v < part.count ? widen(from[v]) : Wide<T>(0);
    }
}
template <class T, int V, bool WHOLE>
__device__ __forceinline__ void set(Long address, const Part<V, WHOLE>& part, const Wide<T> (&from)[V]) {
    T* to = reinterpret_cast<T*>(address) + part.at;
    if constexpr (WHOLE) {
        Pack<T, V> pack;
#pragma unroll
        for (int v = 0; v < V; ++v) pack.at[v] = narrowed<T>(from[v]);
        store<T, V>(to, pack);
    } else {
#pragma unroll
        for (int v = 0; v < V; ++v)
            if (v < part.count) to[v] = narrowed<T>(from[v]);
    }
}

template <int V, int PIECE = ::PIECE, class S, class F> __device__ __forceinline__ void for_each_part(const S& table, F f) {
    int low = 0, high = static_cast<int>(table.count);
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        if (table.first[middle] <= static_cast<Long>(blockIdx.x)) low = middle; else high = middle;
    }
    const Long start = (static_cast<Long>(blockIdx.x) - table.first[low]) * PIECE;
    const Long size = table.size[low], end = start + PIECE < size ? start + PIECE : size;
    const Long addresses = table.addresses(low);
    for (Long at = start + static_cast<Long>(threadIdx.x) * V; at < end; at += static_cast<Long>(blockDim.x) * V) {
        const int count = static_cast<int>(end - at < V ? end - at : V);
        if (addresses % 16 == 0 && count == V) f(Part<V, true>{low, count, at}); else f(Part<V, false>{low, count, at});
    }
}

// torch's formulation of momentum; without momentum `state1` is not touched. The first step copies the gradient.
template <class T, int V>
KERNEL void sgd(
    const Table& table, double lr, double momentum, double dampening, double decay, Long nesterov, Long fresh) {
    typedef Wide<T> A;
    for_each_part<V>(table, [&](const auto& part) {
        const int k = part.tensor;
        A p[V], g[V], velocity[V];
        get<T>(table.parameter[k], part, p);
        get<T>(table.gradient[k], part, g);
#pragma unroll
        for (int v = 0; v < V; ++v) g[v] += p[v] * static_cast<A>(decay);
        if (momentum != 0) {
            if (!fresh) get<A>(table.state1[k], part, velocity);
#pragma unroll
            for (int v = 0; v < V; ++v) {
                velocity[v] = fresh ? g[v] : velocity[v] * static_cast<A>(momentum) + g[v] * static_cast<A>(1 - dampening);
                g[v] = nesterov ? g[v] + velocity[v] * static_cast<A>(momentum) : velocity[v];
            }
            set<A>(table.state1[k], part, velocity);
        }
#pragma unroll
        for (int v = 0; v < V; ++v) p[v] -= g[v] * static_cast<A>(lr);
        set<T>(table.result[k], part, p);
    });
}

// `step` and `eps` hold the bias corrections; `decay` is added to the gradient, `shrink` multiplies the parameter.
template <class T, int V>
KERNEL void adam(
    const Table& table, double step, double beta1, double beta2, double eps, double decay, double shrink, Long fresh) {
    typedef Wide<T> A;
    const A b1 = static_cast<A>(beta1), c1 = static_cast<A>(1 - beta1);
    const A b2 = static_cast<A>(beta2), c2 = static_cast<A>(1 - beta2);
    for_each_part<V>(table, [&](const auto& part) {
        const int k = part.tensor;
        A p[V], g[V], first[V] = {}, second[V] = {};
        get<T>(table.parameter[k], part, p);
        get<T>(table.gradient[k], part, g);
        if (!fresh) {
            get<A>(table.state1[k], part, first);
            get<A>(table.state2[k], part, second);
        }
#pragma unroll
        for (int v = 0; v < V; ++v) {
            const A slope = g[v] + p[v] * static_cast<A>(decay);
            first[v] = first[v] * b1 + slope * c1;
            second[v] = second[v] * b2 + slope * slope * c2;
            p[v] = p[v] * static_cast<A>(shrink)
                - static_cast<A>(step) * first[v] / (sqrt(second[v]) + static_cast<A>(eps));
        }
        set<A>(table.state1[k], part, first);
        set<A>(table.state2[k], part, second);
        set<T>(table.result[k], part, p);
    });
}

// Gradients times a factor. `found` is 0 before, and infinite where one of them is not finite; `fresh` says nothing here.
template <class T, int V>
KERNEL void unscale(const Table& table, float* found, double factor, Long fresh) {
    typedef Wide<T> A;
    for_each_part<V>(table, [&](const auto& part) {
        A g[V];
        get<T>(table.gradient[part.tensor], part, g);
        bool finite = true;
#pragma unroll
        for (int v = 0; v < V; ++v) {
            g[v] = widen(narrowed<T>(g[v] * static_cast<A>(factor)));  // which may be infinite only then
            finite = finite && g[v] - g[v] == 0;
        }
        if (!finite) atomicOr(reinterpret_cast<unsigned*>(found), 0x7F800000u);
        set<T>(table.result[part.tensor], part, g);
    });
}

// The Euclidean norm of all elements. `sums` are those of squares, of each block, `before` them those of earlier launches, which
// had fewer elements; the block that comes last adds up all, in their order. `arrived` is 0, and is so again at the end.
template <class T, int V>
KERNEL void global_norm(const Tensors& tensors, Wide<T>* out, double* sums, unsigned* arrived, Long before) {
    double sum = 0;
    for_each_part<V, 4 * PIECE>(tensors, [&](const auto& part) {
        Wide<T> x[V];
        get<T>(tensors.address[part.tensor], part, x);
#pragma unroll
        for (int v = 0; v < V; ++v) sum += static_cast<double>(x[v]) * static_cast<double>(x[v]);
    });
    sum = reduce<Sum, 256>(sum);
    if (!last_to_arrive(arrived, [&] { sums[before + blockIdx.x] = sum; })) return;
    sum = 0;
    for (Long block = threadIdx.x; block < before + gridDim.x; block += blockDim.x) sum += sums[block];
    sum = reduce<Sum, 256>(sum);
    if (threadIdx.x == 0) *out = static_cast<Wide<T>>(sqrt(sum));
}
