// Optimisers' updates of many tensors in one launch. Each block finds the tensor and the piece of it that it moves.
#include "common.cuh"

constexpr int MOST = 48;         // tensors per launch: the table travels as a parameter, of at most 4 KiB
constexpr int PIECE = 256 * 16;  // elements per block

struct Table {
    Long count;
    Long size[MOST];
    Long first[MOST + 1];  // of each tensor, the number of its first block
    Long parameter[MOST], gradient[MOST], result[MOST], state1[MOST], state2[MOST];  // addresses
};

template <class F> __device__ __forceinline__ void for_each_element(const Table& table, F f) {
    int low = 0, high = static_cast<int>(table.count);
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        if (table.first[middle] <= static_cast<Long>(blockIdx.x)) low = middle; else high = middle;
    }
    const Long start = (static_cast<Long>(blockIdx.x) - table.first[low]) * PIECE;
    const Long end = start + PIECE < table.size[low] ? start + PIECE : table.size[low];
    for (Long i = start + threadIdx.x; i < end; i += blockDim.x) f(low, i);
}

template <class T> __device__ __forceinline__ T* pointer(Long address) { return reinterpret_cast<T*>(address); }

// torch's formulation of momentum; without momentum `state1` is not touched. The first step copies the gradient.
template <class T>
__device__ __forceinline__ void sgd(
    const Table& table, double lr, double momentum, double dampening, double decay, Long nesterov, Long fresh) {
    typedef Wide<T> A;
    for_each_element(table, [&](int k, Long i) {
        const A p = widen(pointer<const T>(table.parameter[k])[i]);
        A g = widen(pointer<const T>(table.gradient[k])[i]) + p * static_cast<A>(decay);
        if (momentum != 0) {
            T* velocity = pointer<T>(table.state1[k]) + i;
            const A v = fresh ? g : widen(*velocity) * static_cast<A>(momentum) + g * static_cast<A>(1 - dampening);
            *velocity = narrowed<T>(v);
            g = nesterov ? g + v * static_cast<A>(momentum) : v;
        }
        pointer<T>(table.result[k])[i] = narrowed<T>(p - g * static_cast<A>(lr));
    });
}

// `step` and `eps` hold the bias corrections; `decay` is added to the gradient, `shrink` multiplies the parameter.
template <class T>
__device__ __forceinline__ void adam(
    const Table& table, double step, double beta1, double beta2, double eps, double decay, double shrink, Long fresh) {
    typedef Wide<T> A;
    const A b1 = static_cast<A>(beta1), c1 = static_cast<A>(1 - beta1);
    const A b2 = static_cast<A>(beta2), c2 = static_cast<A>(1 - beta2);
    for_each_element(table, [&](int k, Long i) {
        const A p = widen(pointer<const T>(table.parameter[k])[i]);
        const A g = widen(pointer<const T>(table.gradient[k])[i]) + p * static_cast<A>(decay);
        T* first = pointer<T>(table.state1[k]) + i;
        T* second = pointer<T>(table.state2[k]) + i;
        const A m = (fresh ? A(0) : widen(*first) * b1) + g * c1;
        const A v = (fresh ? A(0) : widen(*second) * b2) + g * g * c2;
        *first = narrowed<T>(m);
        *second = narrowed<T>(v);
        const A moved = p * static_cast<A>(shrink) - static_cast<A>(step) * m / (sqrt(v) + static_cast<A>(eps));
        pointer<T>(table.result[k])[i] = narrowed<T>(moved);
    });
}
