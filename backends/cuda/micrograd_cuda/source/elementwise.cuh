// Elementwise functions of one or two operands, over any strides: one kernel, told by its geometry what lies where.
#include "common.cuh"

// ── the functions, in the wide type ─────────────────────────────────────────────────────────────────────────────

#define UNARY(Name, expression) \
    struct Name { template <class A> static __device__ __forceinline__ A of(A x) { return expression; } };
#define PREDICATE(Name, expression) \
    struct Name { template <class A> static __device__ __forceinline__ bool of(A x) { return expression; } };
#define RELATION(Name, expression) \
    struct Name { template <class A> static __device__ __forceinline__ bool of(A x, A y) { return expression; } };
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
// For halves: the same within 2e-5 of itself, also in the left tail, from one exponential that serves both. With z = |x| /
// sqrt(2) and t = 1 / (1 + 0.4 z), exp(z * z) * erfc(z) / t is nearly a polynomial in t: fitted for the least relative error.
#ifndef MICROGRAD_HOST
__device__ __forceinline__ float roughly_inverted(float x) { asm("rcp.approx.ftz.f32 %0, %0;" : "+f"(x)); return x; }
#endif
template <class A> __device__ __forceinline__ A roughly_inverted(A x) { return A(1) / x; }
template <class A> struct Normal { A density, distribution; };
template <class A> __device__ __forceinline__ Normal<A> normal_for_halves(A x) {
    const A e = exponential_for<Half>(A(-0.5) * x * x), t = roughly_inverted(A(1) + A(0.4 * 0.70710678118654752440) * fabs(x));
    const A tail = A(0.5) * e * t * ((((((A(-0.09517721) * t + A(0.18638567)) * t + A(0.06863671)) * t + A(0.18177020)) * t + A(0.20706227)) * t + A(0.22563979)) * t + A(0.22567780));
    return {e * A(0.39894228040143267794), x < 0 ? tail : A(1) - tail};
}
// (1 + tanh(u)) / 2 is sigmoid(2 u), with u of Hendrycks & Gimpel 2016.
template <class A> __device__ __forceinline__ A gelu_sigmoid(A x) {
    return sigmoid_of(A(2 * 0.79788456080286535588) * x * (A(1) + A(0.044715) * x * x));
}
template <class A> __device__ __forceinline__ A gelu_tanh_slope(A x) {
    const A s = gelu_sigmoid(x);
    return s + x * s * (A(1) - s) * A(2 * 0.79788456080286535588) * (A(1) + A(3 * 0.044715) * x * x);
}
template <class A> __device__ __forceinline__ A gelu_slope_for_halves(A x) {
    const Normal<A> normal = normal_for_halves(x);
    return normal.distribution + x * normal.density;
}
template <class A> __device__ __forceinline__ A silu_slope(A x) {
    const A s = sigmoid_of(x);
    return s * (A(1) + x * (A(1) - s));
}

// The rest with the sign of y, exact; and the quotient that goes with it. Infinities as the array API has them.
template <class A> __device__ __forceinline__ A rest_of(A x, A y) {
    const A rest = fmod(x, y);
    if (rest == 0) return copysign(A(0), y);
    return (rest < 0) != (y < 0) ? rest + y : rest;
}
template <class A> __device__ __forceinline__ A quotient_of(A x, A y) {
    if (y == 0 || x - x != 0 || y - y != 0) return x / y;  // of infinities, and NaN
    const A rest = fmod(x, y);
    A quotient = (x - rest) / y;
    if (rest != 0 && (rest < 0) != (y < 0)) quotient -= A(1);
    if (quotient == 0) return copysign(A(0), x / y);
    const A below = floor(quotient);
    return quotient - below > A(0.5) ? below + A(1) : below;
}

// In terms of the larger one nothing overflows; an infinity wins over NaN.
template <class A> __device__ __forceinline__ A hypotenuse(A x, A y) {
    const A a = fabs(x), b = fabs(y), top = a > b ? a : b, other = a > b ? b : a;
    if (a == infinity<A>() || b == infinity<A>()) return infinity<A>();
    if (top == 0) return a + b;
    const A ratio = other / top;
    return top * sqrt(A(1) + ratio * ratio);
}
template <class A> __device__ __forceinline__ A sum_of_two_exponentials(A x, A y) {
    if (x == y) return x + A(0.69314718055994530942);  // also two infinities
    return (x > y || x != x ? x : y) + log1p(exp(-fabs(x - y)));
}

UNARY(Negative, -x)
UNARY(Abs, fabs(x))
UNARY(Sign, x > 0 ? A(1) : x < 0 ? A(-1) : x == 0 ? A(0) : x)
UNARY(Reciprocal, A(1) / x)
UNARY(Floor, floor(x))
UNARY(Ceil, ceil(x))
UNARY(Trunc, trunc(x))
UNARY(Round, rint(x))
UNARY(Log2, log2(x))
UNARY(Log10, log10(x))
UNARY(Tan, tan(x))
UNARY(Asin, asin(x))
UNARY(Acos, acos(x))
UNARY(Atan, atan(x))
UNARY(Sinh, sinh(x))
UNARY(Cosh, cosh(x))
UNARY(Asinh, asinh(x))
UNARY(Acosh, acosh(x))
UNARY(Atanh, atanh(x))
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
UNARY(GeluOfHalves, x * normal_for_halves(x).distribution)
UNARY(GeluTanh, x * gelu_sigmoid(x))
UNARY(Silu, x * sigmoid_of(x))
UNARY(Copy, x)

BINARY(Add, x + y)
BINARY(Subtract, x - y)
BINARY(Multiply, x * y)
BINARY(Divide, x / y)
BINARY(Pow, pow(x, y))
BINARY(Remainder, rest_of(x, y))
BINARY(FloorDivide, quotient_of(x, y))
BINARY(Maximum, x > y || x != x ? x : y)
BINARY(Minimum, x < y || x != x ? x : y)
BINARY(Hypot, hypotenuse(x, y))
BINARY(Atan2, atan2(x, y))
BINARY(Copysign, copysign(x, y))
BINARY(Logaddexp, sum_of_two_exponentials(x, y))
BINARY(Nextafter, nextafter(x, y))
// Cotangent x, and what the function was given (relu: gave) y.
BINARY(ReluGradient, y > 0 ? x : A(0))
BINARY(GeluGradient, x * (normal_distribution(y) + y * normal_density(y)))
BINARY(GeluGradientOfHalves, x * gelu_slope_for_halves(y))
BINARY(GeluTanhGradient, x * gelu_tanh_slope(y))
BINARY(SiluGradient, x * silu_slope(y))

PREDICATE(Isnan, x != x)
PREDICATE(Isinf, fabs(x) == infinity<A>())
PREDICATE(Isfinite, x - x == 0)
PREDICATE(Signbit, copysign(A(1), x) < 0)
PREDICATE(LogicalNot, x == 0)
RELATION(Less, x < y)
RELATION(LessEqual, x <= y)
RELATION(Greater, x > y)
RELATION(GreaterEqual, x >= y)
RELATION(Equal, x == y)
RELATION(NotEqual, x != y)
RELATION(LogicalAnd, x != 0 && y != 0)
RELATION(LogicalOr, x != 0 || y != 0)
RELATION(LogicalXor, (x != 0) != (y != 0))

// ── the kernels ─────────────────────────────────────────────────────────────────────────────────────────────────

// The result is contiguous; operand k is at sum(position[d] * stride[k][d]). Counts and strides are in elements, but the
// last axis is counted in packs: there an operand has stride V, or 0 where one element serves the whole pack. `length` is
// that of the last axis in elements: if it is the only one, the last pack may have less than V.
template <class Index, int NDIM, int ARITY> struct Geometry {
    Index packs;
    Index length;
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

// The first `count` elements of a pack, W of which lie at a multiple of their size.
template <class T, int V, int W>
__device__ __forceinline__ void fetch(const T* from, bool repeated, int count, Wide<T> (&to)[V]) {
    if (V > 1 && repeated) {
        const Wide<T> one = widen(*from);
#pragma unroll
        for (int v = 0; v < V; ++v) to[v] = one;
    } else if (count == V) {
        widen_all(load<T, V, W>(from), to);
    } else {
#pragma unroll
        for (int v = 0; v < V; ++v) to[v] = v < count ? widen(from[v]) : Wide<T>(0);
    }
}

// A pack of what is broadcast: N elements, each for INNER of the result next to each other, and all of them again and again.
template <class T, int V, int W, class Index, long long INNER, long long N>
__device__ __forceinline__ void spread(const T* from, Index at, int count, Wide<T> (&to)[V]) {
    if constexpr (INNER % V == 0) {
        fetch<T, V, 1>(from + at / Index(INNER) % Index(N), true, count, to);
    } else if constexpr (INNER == 1 && N % V == 0) {
        fetch<T, V, W>(from + at % Index(N), false, count, to);
    } else {
#pragma unroll
        for (int v = 0; v < V; ++v) to[v] = v < count ? widen(from[(at + v) / Index(INNER) % Index(N)]) : Wide<T>(0);
    }
}

template <class T, int V> __device__ __forceinline__ void put(T* to, int count, const Pack<T, V>& pack) {
    if (count == V) {
        store<T, V>(to, pack);
    } else {
#pragma unroll
        for (int v = 0; v < V; ++v)
            if (v < count) to[v] = pack.at[v];
    }
}

// Calls body(number of the pack, how many elements it has, where they lie).
template <int V, class Index, int NDIM, int ARITY, class B>
__device__ __forceinline__ void for_each_pack(const Geometry<Index, NDIM, ARITY>& geometry, B body) {
    const Index step = static_cast<Index>(gridDim.x) * blockDim.x;
    for (Index i = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x; i < geometry.packs; i += step) {
        Index offset[ARITY];
        locate(geometry, i, offset);
        int count = V;
        if constexpr (NDIM == 1 && V > 1)
            if (geometry.length - i * V < V) count = static_cast<int>(geometry.length - i * V);
        body(i, count, offset);
    }
}

// T and O: the types of operand and result.
template <class F, class T, class O, class Index, int NDIM, int V, int W>
KERNEL void unary(O* out, const T* x, const Geometry<Index, NDIM, 1>& geometry) {
    for_each_pack<V>(geometry, [&](Index i, int count, const Index (&offset)[1]) {
        Wide<T> a[V];
        fetch<T, V, W>(x + offset[0], geometry.stride[0][NDIM - 1] == 0, count, a);
        Wide<O> result[V];
#pragma unroll
        for (int v = 0; v < V; ++v) result[v] = F::of(a[v]);
        put(out + i * V, count, narrow_all<O>(result));
    });
}

enum Scalar { NEITHER, FIRST, SECOND };  // which operand is a Python number

template <class F, class T, class O, Scalar SCALAR, class Index, int NDIM, int V, int W, int W2>
KERNEL void binary(
    O* out, const T* x, const T* y, double number, const Geometry<Index, NDIM, 2>& geometry) {
    const Wide<T> constant = weak<T>(number);
    for_each_pack<V>(geometry, [&](Index i, int count, const Index (&offset)[2]) {
        Wide<T> a[V], b[V];
        if constexpr (SCALAR != FIRST) fetch<T, V, W>(x + offset[0], geometry.stride[0][NDIM - 1] == 0, count, a);
        if constexpr (SCALAR != SECOND) fetch<T, V, W2>(y + offset[1], geometry.stride[1][NDIM - 1] == 0, count, b);
        Wide<O> result[V];
#pragma unroll
        for (int v = 0; v < V; ++v)
            result[v] = F::of(SCALAR == FIRST ? constant : a[v], SCALAR == SECOND ? constant : b[v]);
        put(out + i * V, count, narrow_all<O>(result));
    });
}
