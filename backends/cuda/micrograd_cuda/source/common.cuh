// What every kernel needs: element types and the type they are computed in, packs, reductions.
//
// No CUDA header is included, so that NVRTC needs none, and no library but what the compiler knows by itself. Compiled
// with MICROGRAD_HOST the same text is C++ for the host, where another header plays the GPU.
#pragma once

typedef long long Long;

#define KERNEL __device__ __forceinline__  // a template that is launched: what `units` finds in these files

// ── element types ───────────────────────────────────────────────────────────────────────────────────────────────

struct Half { unsigned short bits; };      // IEEE 754 binary16
struct Bfloat16 { unsigned short bits; };  // the upper half of a binary32
struct Bool { unsigned char value; };      // of results: 0 or 1

#ifndef MICROGRAD_HOST
__device__ __forceinline__ float widen(Half x) {
    float wide;
    asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(x.bits));
    return wide;
}
__device__ __forceinline__ void narrow(float x, Half& out) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(out.bits) : "f"(x)); }
__device__ __forceinline__ float from_bits(unsigned x) { return __uint_as_float(x); }
__device__ __forceinline__ unsigned to_bits(float x) { return __float_as_uint(x); }
#endif

__device__ __forceinline__ float widen(Bfloat16 x) { return from_bits(static_cast<unsigned>(x.bits) << 16); }
__device__ __forceinline__ void narrow(float x, Bfloat16& out) {
#if !defined(MICROGRAD_HOST) && __CUDA_ARCH__ >= 800
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(out.bits) : "f"(x));
#else  // to nearest, ties to even
    unsigned bits = to_bits(x);
    out.bits = static_cast<unsigned short>(x != x ? 0x7FC0u : (bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
#endif
}
__device__ __forceinline__ float widen(float x) { return x; }
__device__ __forceinline__ double widen(double x) { return x; }
__device__ __forceinline__ void narrow(float x, float& out) { out = x; }
__device__ __forceinline__ void narrow(double x, double& out) { out = x; }
__device__ __forceinline__ void narrow(bool x, Bool& out) { out.value = x; }

// The type in which elements of T are computed and accumulated.
template <class T> struct WideOf { typedef float type; };
template <> struct WideOf<double> { typedef double type; };
template <> struct WideOf<Bool> { typedef bool type; };
template <class T> using Wide = typename WideOf<T>::type;

template <class T> __device__ __forceinline__ T narrowed(Wide<T> x) {
    T out;
    narrow(x, out);
    return out;
}
// A Python number takes the tensor's dtype before it takes part.
template <class T> __device__ __forceinline__ Wide<T> weak(double x) {
    return widen(narrowed<T>(static_cast<Wide<T>>(x)));
}

template <class A> __device__ __forceinline__ A infinity() { return static_cast<A>(from_bits(0x7F800000u)); }
template <class A> __device__ __forceinline__ A lowest() {
    return sizeof(A) == 8 ? static_cast<A>(-1.7976931348623157e308) : static_cast<A>(from_bits(0xFF7FFFFFu));
}
template <class A> __device__ __forceinline__ A nan_of() { return static_cast<A>(from_bits(0x7FC00000u)); }

// ── packs ───────────────────────────────────────────────────────────────────────────────────────────────────────

// V neighbours that one thread takes together.
template <class T, int V> struct Pack { T at[V]; };

// What travels in one instruction: 4, 8 or 16 bytes, which lie at a multiple of as many.
template <int BYTES> struct alignas(BYTES) Words { unsigned at[BYTES / 4]; };

// The most elements of a pack that travel at once; W of them do where a pack may lie anywhere.
template <class T, int V> constexpr int WIDEST = V * sizeof(T) <= 16 ? V : 16 / static_cast<int>(sizeof(T));

template <class T, int V, int W = WIDEST<T, V>> __device__ __forceinline__ Pack<T, V> load(const T* from) {
    Pack<T, V> pack;
#pragma unroll
    for (int v = 0; v < V; v += W) {
        if constexpr (W == 1) {
            pack.at[v] = from[v];
        } else {
            typedef Words<W * static_cast<int>(sizeof(T))> Part;
            const Part part = *reinterpret_cast<const Part*>(from + v);
            memcpy(&pack.at[v], &part, sizeof(Part));
        }
    }
    return pack;
}
// All elements of a pack. Of halves two at a time: in one instruction where there is one, as whole words where they are cut.
template <class T, int V> __device__ __forceinline__ void widen_all(const Pack<T, V>& pack, Wide<T> (&to)[V]) {
#pragma unroll
    for (int v = 0; v < V; ++v) to[v] = widen(pack.at[v]);
}
template <int V> __device__ __forceinline__ void widen_all(const Pack<Bfloat16, V>& pack, float (&to)[V]) {
    if constexpr (V == 1) {
        to[0] = widen(pack.at[0]);
    } else {
#pragma unroll
        for (int v = 0; v < V; v += 2) {
            unsigned both;
            memcpy(&both, &pack.at[v], 4);
            to[v] = from_bits(both << 16);
            to[v + 1] = from_bits(both & 0xFFFF0000u);
        }
    }
}
#if !defined(MICROGRAD_HOST) && __CUDA_ARCH__ >= 800
__device__ __forceinline__ unsigned both_narrow(float low, float high, Half) {
    unsigned both;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}
__device__ __forceinline__ unsigned both_narrow(float low, float high, Bfloat16) {
    unsigned both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}
#endif
template <class T, int V> __device__ __forceinline__ Pack<T, V> narrow_all(const Wide<T> (&from)[V]) {
    Pack<T, V> pack;
#if !defined(MICROGRAD_HOST) && __CUDA_ARCH__ >= 800
    constexpr int TOGETHER = sizeof(T) == 2 && V % 2 == 0 ? 2 : 1;
#else
    constexpr int TOGETHER = 1;
#endif
#pragma unroll
    for (int v = 0; v < V; v += TOGETHER) {
        if constexpr (TOGETHER == 1) {
            pack.at[v] = narrowed<T>(from[v]);
        } else {
            const unsigned both = both_narrow(from[v], from[v + 1], T());
            memcpy(&pack.at[v], &both, 4);
        }
    }
    return pack;
}
// Spelled out, as the compiler now and then takes a store apart.
template <int BYTES> __device__ __forceinline__ void put_words(void* to, const Words<BYTES>& words) {
#ifndef MICROGRAD_HOST
    if constexpr (BYTES == 16)
        asm volatile("{ .reg .u64 at; cvta.to.global.u64 at, %0; st.global.v4.u32 [at], {%1, %2, %3, %4}; }" ::
            "l"(to), "r"(words.at[0]), "r"(words.at[1]), "r"(words.at[2]), "r"(words.at[3]) : "memory");
    else if constexpr (BYTES == 8)
        asm volatile("{ .reg .u64 at; cvta.to.global.u64 at, %0; st.global.v2.u32 [at], {%1, %2}; }" ::
            "l"(to), "r"(words.at[0]), "r"(words.at[1]) : "memory");
    else
#endif
        *static_cast<Words<BYTES>*>(to) = words;
}
template <class T, int V> __device__ __forceinline__ void store(T* to, const Pack<T, V>& pack) {
    constexpr int W = WIDEST<T, V>;
#pragma unroll
    for (int v = 0; v < V; v += W) {
        if constexpr (W * sizeof(T) < 4) {
#pragma unroll
            for (int w = 0; w < W; ++w) to[v + w] = pack.at[v + w];
        } else if constexpr (W == 1) {
            to[v] = pack.at[v];
        } else {
            typedef Words<W * static_cast<int>(sizeof(T))> Part;
            Part part;
            memcpy(&part, &pack.at[v], sizeof(Part));
            put_words(to + v, part);
        }
    }
}

// ── cheaper functions ───────────────────────────────────────────────────────────────────────────────────────────

#if !defined(MICROGRAD_HOST) && __CUDA_ARCH__ >= 800
__device__ __forceinline__ float larger(float x, float y) {
    asm("max.NaN.f32 %0, %0, %1;" : "+f"(x) : "f"(y));
    return x;
}
#else
__device__ __forceinline__ float larger(float x, float y) { return x > y || x != x ? x : y; }
#endif

// exp(x) with as many digits as the element type of what becomes of it needs: of halves within 1e-5 of itself.
#ifndef MICROGRAD_HOST
__device__ __forceinline__ float power_of_two(float x) { asm("ex2.approx.f32 %0, %0;" : "+f"(x)); return x; }
__device__ __forceinline__ float flushed_power_of_two(float x) { asm("ex2.approx.ftz.f32 %0, %0;" : "+f"(x)); return x; }
#else
inline float power_of_two(float x) { return exp2f(x); }
inline float flushed_power_of_two(float x) { return exp2f(x); }
#endif
template <class T> __device__ __forceinline__ Wide<T> exponential_for(Wide<T> x) {
    if constexpr (sizeof(T) == 2) return power_of_two(x * 1.44269504088896340736f);
    else return exp(x);
}
// The same where what is subnormal is added to 1 or more: of halves 0, which the machine has in fewer instructions.
template <class T> __device__ __forceinline__ Wide<T> exponential_in_sum(Wide<T> x) {
    if constexpr (sizeof(T) == 2) return flushed_power_of_two(x * 1.44269504088896340736f);
    else return exp(x);
}

// ── reductions over a group of G threads, a power of two ────────────────────────────────────────────────────────

struct Sum {
    template <class A> static __device__ __forceinline__ A of(A x, A y) { return x + y; }
    template <class A> static __device__ __forceinline__ A first() { return A(0); }
};
struct Product {
    template <class A> static __device__ __forceinline__ A of(A x, A y) { return x * y; }
    template <class A> static __device__ __forceinline__ A first() { return A(1); }
};
struct Max {  // NaN wins
    template <class A> static __device__ __forceinline__ A of(A x, A y) { return x > y || x != x ? x : y; }
    static __device__ __forceinline__ float of(float x, float y) { return larger(x, y); }
    template <class A> static __device__ __forceinline__ A first() { return -infinity<A>(); }
};
struct Min {
    template <class A> static __device__ __forceinline__ A of(A x, A y) { return x < y || x != x ? x : y; }
    static __device__ __forceinline__ float of(float x, float y) { return -larger(-x, -y); }
    template <class A> static __device__ __forceinline__ A first() { return infinity<A>(); }
};

// Up to 32 threads exchange registers; the warps of a larger group meet in shared memory.
template <class R, int G, class A> __device__ __forceinline__ A reduce(A x) {
#pragma unroll
    for (int distance = (G < 32 ? G : 32) / 2; distance > 0; distance /= 2)
        x = R::of(x, __shfl_xor_sync(0xFFFFFFFFu, x, distance));
    if constexpr (G > 32) {
        __shared__ A partial[32];
        const int first = static_cast<int>(threadIdx.x) / G * (G / 32);  // warp of the group
        __syncthreads();  // an earlier reduction may still be reading
        if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = x;
        __syncthreads();
        x = partial[first];
#pragma unroll
        for (int other = 1; other < G / 32; ++other) x = R::of(x, partial[first + other]);  // in one order: all get the same bits
    }
    return x;
}

// Each block writes what it has found, and one of them, the last to come here, reads what all have written. `arrived`
// counts them, and is 0 again for the next launch.
template <class F> __device__ __forceinline__ bool last_to_arrive(unsigned* arrived, F write) {
    __shared__ bool last;
    if (threadIdx.x == 0) {
        write();
        __threadfence();
        last = atomicAdd(arrived, 1u) == gridDim.x * gridDim.y - 1;
        if (last) *arrived = 0;
    }
    __syncthreads();
    if (last) __threadfence();
    return last;
}
