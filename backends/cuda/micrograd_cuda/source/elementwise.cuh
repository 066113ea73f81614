// Elementwise functions of one or two operands, over any strides: one kernel, told by its geometry what lies where.
#include "common.cuh"

// ── the functions, in the wide type ─────────────────────────────────────────────────────────────────────────────

#define UNARY(Name, expression) \
    struct Name { template <class A> static __device__ __forceinline__ A of(A x) { return expression; } };
#define BINARY(Name, expression) \
    struct Name { template <class A> static __device__ __forceinline__ A of(A x, A y) { return expression; } };

template <class A> __device__ __forceinline__ A sigmoid_of(A x) {  // both exponents at most 0: nothing overflows
    const A e = exp(x < 0 ? x : -x);
    return (x < 0 ? e : A(1)) / (A(1) + e);
}
template <class A> __device__ __forceinline__ A normal_distribution(A x) {  // as an erfc, which keeps the left tail's digits
    return A(0.5) * erfc(x * A(-0.70710678118654752440));
}
template <class A> __device__ __forceinline__ A normal_density(A x) {
    return exp(A(-0.5) * x * x) * A(0.39894228040143267794);
}
// (1 + tanh(u)) / 2 is sigmoid(2 u), with u of Hendrycks & Gimpel 2016.
template <class A> __device__ __forceinline__ A gelu_sigmoid(A x) {
    return sigmoid_of(A(2 * 0.79788456080286535588) * x * (A(1) + A(0.044715) * x * x));
}
template <class A> __device__ __forceinline__ A gelu_tanh_slope(A x) {
    const A s = gelu_sigmoid(x);
    return s + x * s * (A(1) - s) * A(2 * 0.79788456080286535588) * (A(1) + A(3 * 0.044715) * x * x);
}
template <class A> __device__ __forceinline__ A silu_slope(A x) {
    const A s = sigmoid_of(x);
    return s * (A(1) + x * (A(1) - s));
}

UNARY(Negative, -x)
UNARY(Square, x * x)
UNARY(Exp, exp(x))
UNARY(Expm1, expm1(x))
UNARY(Log, log(x))
UNARY(Log1p, log1p(x))
UNARY(Sqrt, sqrt(x))
UNARY(Erf, erf(x))
UNARY(Erfc, erfc(x))
UNARY(Sin, sin(x))
UNARY(Cos, cos(x))
UNARY(Tanh, tanh(x))
UNARY(Sigmoid, sigmoid_of(x))
UNARY(Relu, x > 0 || x != x ? x : A(0))
UNARY(Gelu, x * normal_distribution(x))
UNARY(GeluTanh, x * gelu_sigmoid(x))
UNARY(Silu, x * sigmoid_of(x))
UNARY(Copy, x)

BINARY(Add, x + y)
BINARY(Subtract, x - y)
BINARY(Multiply, x * y)
BINARY(Divide, x / y)
BINARY(Pow, pow(x, y))
BINARY(Maximum, x > y || x != x ? x : y)
BINARY(Minimum, x < y || x != x ? x : y)
// Cotangent x, and what the function was given (relu: gave) y.
BINARY(ReluGradient, y > 0 ? x : A(0))
BINARY(GeluGradient, x * (normal_distribution(y) + y * normal_density(y)))
BINARY(GeluTanhGradient, x * gelu_tanh_slope(y))
BINARY(SiluGradient, x * silu_slope(y))

// ── the kernels ─────────────────────────────────────────────────────────────────────────────────────────────────

// The result is contiguous; operand k is at sum(position[d] * stride[k][d]). Counts and strides are in elements, but the
// last axis is counted in packs: there an operand has stride V, or 0 where one element serves the whole pack.
template <class Index, int NDIM, int ARITY> struct Geometry {
    Index packs;
    Index shape[NDIM];
    Index stride[ARITY][NDIM];
};

template <class Index, int NDIM, int ARITY>
__device__ __forceinline__ void locate(const Geometry<Index, NDIM, ARITY>& geometry, Index at, Index (&offset)[ARITY]) {
#pragma unroll
    for (int k = 0; k < ARITY; ++k) offset[k] = 0;
#pragma unroll
    for (int d = NDIM - 1; d >= 0; --d) {
        Index position = at;
        if (d > 0) {
            const Index above = at / geometry.shape[d];
            position = at - above * geometry.shape[d];
            at = above;
        }
#pragma unroll
        for (int k = 0; k < ARITY; ++k) offset[k] += position * geometry.stride[k][d];
    }
}

template <class T, int V> __device__ __forceinline__ void fetch(const T* from, bool repeated, Wide<T> (&to)[V]) {
    if (V > 1 && repeated) {
        const Wide<T> one = widen(*from);
#pragma unroll
        for (int v = 0; v < V; ++v) to[v] = one;
    } else {
        const Pack<T, V> pack = load<T, V>(from);
#pragma unroll
        for (int v = 0; v < V; ++v) to[v] = widen(pack.at[v]);
    }
}

template <class F, class T, class Index, int NDIM, int V>
__device__ __forceinline__ void unary(T* out, const T* x, const Geometry<Index, NDIM, 1>& geometry) {
    const Index step = static_cast<Index>(gridDim.x) * blockDim.x;
    for (Index i = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x; i < geometry.packs; i += step) {
        Index offset[1];
        locate(geometry, i, offset);
        Wide<T> a[V];
        fetch<T, V>(x + offset[0], geometry.stride[0][NDIM - 1] == 0, a);
        Pack<T, V> result;
#pragma unroll
        for (int v = 0; v < V; ++v) result.at[v] = narrowed<T>(F::of(a[v]));
        store<T, V>(out + i * V, result);
    }
}

enum Scalar { NEITHER, FIRST, SECOND };  // which operand is a Python number

template <class F, class T, class Index, int NDIM, int V, Scalar SCALAR>
__device__ __forceinline__ void binary(
    T* out, const T* x, const T* y, double number, const Geometry<Index, NDIM, 2>& geometry) {
    const Wide<T> constant = weak<T>(number);
    const Index step = static_cast<Index>(gridDim.x) * blockDim.x;
    for (Index i = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x; i < geometry.packs; i += step) {
        Index offset[2];
        locate(geometry, i, offset);
        Wide<T> a[V], b[V];
        if constexpr (SCALAR != FIRST) fetch<T, V>(x + offset[0], geometry.stride[0][NDIM - 1] == 0, a);
        if constexpr (SCALAR != SECOND) fetch<T, V>(y + offset[1], geometry.stride[1][NDIM - 1] == 0, b);
        Pack<T, V> result;
#pragma unroll
        for (int v = 0; v < V; ++v)
            result.at[v] = narrowed<T>(F::of(SCALAR == FIRST ? constant : a[v], SCALAR == SECOND ? constant : b[v]));
        store<T, V>(out + i * V, result);
    }
}
