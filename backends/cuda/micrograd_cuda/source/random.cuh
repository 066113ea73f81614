// Random numbers by counting: Philox4x64-10, as `micrograd_core.ops.random` specifies it. A number depends on the key and
// on its position only, so that a mask can be made again rather than kept.
#include "common.cuh"

typedef unsigned long long Word;

struct Four { Word at[4]; };
struct Stream { Long key[2]; Long counter[4]; };  // lowest word first

__device__ __forceinline__ Four philox(const Stream& stream, Word block) {
    Word carry = block;
    Four c;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        c.at[i] = static_cast<Word>(stream.counter[i]) + carry;
        carry = c.at[i] < carry ? 1 : 0;
    }
    Word low = static_cast<Word>(stream.key[0]), high = static_cast<Word>(stream.key[1]);
#pragma unroll
    for (int round = 0; round < 10; ++round) {
        const Word first = 0xD2E7470EE14C6C93ull, second = 0xCA5A826395121157ull;
        c = {{__umul64hi(second, c.at[2]) ^ c.at[1] ^ low, second * c.at[2],
              __umul64hi(first, c.at[0]) ^ c.at[3] ^ high, first * c.at[0]}};
        low += 0x9E3779B97F4A7C15ull;
        high += 0xBB67AE8584CAA73Bull;
    }
    return c;
}

// Calls body(number of the block) for every block of `each` elements that `size` of them take.
template <class F> __device__ __forceinline__ void for_each_block(Long size, int each, F body) {
    const Long step = static_cast<Long>(gridDim.x) * blockDim.x;
    for (Long i = static_cast<Long>(blockIdx.x) * blockDim.x + threadIdx.x; i * each < size; i += step) body(i);
}

// ── fractions ───────────────────────────────────────────────────────────────────────────────────────────────────

// Fractions in [0, 1) are the leading bits: of a word, or for narrower types of half a word, the lower half first.
template <class T> struct Bits { static constexpr int of = 24; };
template <> struct Bits<double> { static constexpr int of = 53; };
template <> struct Bits<Half> { static constexpr int of = 11; };
template <> struct Bits<Bfloat16> { static constexpr int of = 8; };

// How many numbers a block of four words makes.
template <class T> constexpr int EACH = sizeof(T) == 8 ? 4 : 8;

template <class T> __device__ __forceinline__ Wide<T> fraction(const Four& words, int i) {
    constexpr int bits = Bits<T>::of;
    if constexpr (sizeof(T) == 8) {
        return static_cast<double>(words.at[i] >> (64 - bits)) * (1.0 / (1ull << bits));
    } else {
        const unsigned half = static_cast<unsigned>(i % 2 ? words.at[i / 2] >> 32 : words.at[i / 2]);
        return static_cast<float>(half >> (32 - bits)) * (1.0f / (1u << bits));
    }
}

// The N numbers of one block, in packs where they are complete. `out` is at a multiple of 16 bytes.
template <class T, int N> __device__ __forceinline__ void put(T* out, Long block, Long size, const T (&numbers)[N]) {
    const Long start = block * N;
    if (start + N <= size) {
        Pack<T, N> pack;
#pragma unroll
        for (int j = 0; j < N; ++j) pack.at[j] = numbers[j];
        store<T, N>(out + start, pack);
    } else {
        for (int j = 0; j < N && start + j < size; ++j) out[start + j] = numbers[j];
    }
}

template <class T> KERNEL void uniform(T* out, const Stream& stream, Long size) {
    for_each_block(size, EACH<T>, [&](Long block) {
        const Four words = philox(stream, static_cast<Word>(block));
        T numbers[EACH<T>];
#pragma unroll
        for (int j = 0; j < EACH<T>; ++j) numbers[j] = narrowed<T>(fraction<T>(words, j));
        put(out, block, size, numbers);
    });
}

// Box and Muller's: two from each pair of fractions, in the wide type.
template <class T> KERNEL void normal(T* out, const Stream& stream, Long size) {
    typedef Wide<T> A;
    for_each_block(size, EACH<A>, [&](Long block) {
        const Four words = philox(stream, static_cast<Word>(block));
        T numbers[EACH<A>];
#pragma unroll
        for (int j = 0; j < EACH<A>; j += 2) {
            const A radius = sqrt(log(A(1) - fraction<A>(words, j)) * A(-2));
            const A angle = fraction<A>(words, j + 1) * A(6.283185307179586477);
            numbers[j] = narrowed<T>(radius * cos(angle));
            numbers[j + 1] = narrowed<T>(radius * sin(angle));
        }
        put(out, block, size, numbers);
    });
}

// 0 with probability `rate`, else x times 1 / (1 - rate). The mask is drawn in float32 for every type.
template <class T>
KERNEL void dropout(T* out, const T* x, double rate, const Stream& stream, Long size) {
    const Wide<T> scale = weak<T>(1 / (1 - rate));
    constexpr int N = EACH<float>;
    const bool aligned = reinterpret_cast<Word>(x) % 16 == 0;
    for_each_block(size, N, [&](Long block) {
        const Four words = philox(stream, static_cast<Word>(block));
        const Long start = block * N;
        Pack<T, N> pack;
        if (aligned && start + N <= size) {
            pack = load<T, N>(x + start);
        } else {
            for (int j = 0; j < N; ++j)
                if (start + j < size) pack.at[j] = x[start + j];
        }
        T numbers[N];
#pragma unroll
        for (int j = 0; j < N; ++j) {
            const bool kept = fraction<float>(words, j) >= static_cast<float>(rate);
            numbers[j] = narrowed<T>(kept ? widen(pack.at[j]) * scale : Wide<T>(0));
        }
        put(out, block, size, numbers);
    });
}

// ── integers ────────────────────────────────────────────────────────────────────────────────────────────────────

// low + word * span / 2^64, modulo what the type holds; a span of 0 stands for 2^64.
template <class I>
KERNEL void integers(I* out, const Stream& stream, Long low, Long span, Long size) {
    for_each_block(size, 4, [&](Long block) {
        const Four words = philox(stream, static_cast<Word>(block));
        I numbers[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const Word part = span == 0 ? words.at[j] : __umul64hi(words.at[j], static_cast<Word>(span));
            numbers[j] = static_cast<I>(static_cast<Word>(low) + part);
        }
        put(out, block, size, numbers);
    });
}

// Words in whose lowest bits, those of `mask`, stands their position: sorted, they are a permutation.
KERNEL void marked(Word* out, const Stream& stream, Long mask, Long size) {
    for_each_block(size, 4, [&](Long block) {
        const Four words = philox(stream, static_cast<Word>(block));
        Word numbers[4];
#pragma unroll
        for (int j = 0; j < 4; ++j)
            numbers[j] = (words.at[j] & ~static_cast<Word>(mask)) | static_cast<Word>(block * 4 + j);
        put(out, block, size, numbers);
    });
}
