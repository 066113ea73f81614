// What printed nests use beside the functions of elements: whole packs, and the first elements of the last one.
#include "elementwise.cuh"

[[maybe_unused]] constexpr int FAR = 1 << 30;  // the lane of threads that no row is left for: they store nothing, but help to reduce

// WHOLE packs lie at multiples of their size.
template <class T, int V, bool WHOLE> __device__ __forceinline__ Pack<T, V> part(const T* from, int count) {
    if (count == V) return load<T, V, WHOLE && V * sizeof(T) >= 4 ? WIDEST<T, V> : 1>(from);
    Pack<T, V> pack = {};
#pragma unroll
    for (int v = 0; v < V; ++v)
        if (v < count) pack.at[v] = from[v];
    return pack;
}

// Between memory and lines: floats are computed in the wide type, everything else as it is.
template <class T> constexpr bool FLOATING = false;
template <> constexpr bool FLOATING<Half> = true;
template <> constexpr bool FLOATING<Bfloat16> = true;
template <> constexpr bool FLOATING<float> = true;
template <> constexpr bool FLOATING<double> = true;

template <class T> __device__ __forceinline__ auto number(T x) {
    if constexpr (FLOATING<T>) return widen(x);
    else return x;
}
template <class T, class A> __device__ __forceinline__ T element(A x) {
    if constexpr (FLOATING<T>) return narrowed<T>(x);
    else return static_cast<T>(x);
}
template <class T, class A, int V> __device__ __forceinline__ void unpack(const Pack<T, V>& pack, A (&to)[V]) {
    if constexpr (FLOATING<T>) {
        widen_all(pack, to);
    } else {
#pragma unroll
        for (int v = 0; v < V; ++v) to[v] = static_cast<A>(pack.at[v]);
    }
}
template <class T, class A, int V> __device__ __forceinline__ Pack<T, V> packed(const A (&from)[V]) {
    if constexpr (FLOATING<T>) {
        return narrow_all<T>(from);
    } else {
        Pack<T, V> pack;
#pragma unroll
        for (int v = 0; v < V; ++v) pack.at[v] = static_cast<T>(from[v]);
        return pack;
    }
}

// A float that is rounded as a double when it is rounded once more, to fewer digits: its last digit says what is missing.
#ifndef MICROGRAD_HOST
__device__ __forceinline__ float to_odd(double x) {
    const float below = __double2float_rz(x);
    return static_cast<double>(below) == x || x != x ? below : from_bits(to_bits(below) | 1u);
}
#endif
