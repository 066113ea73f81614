// Random numbers by counting: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011). A number
// depends on the seed and its position only, so that a mask can be made again rather than kept.
#include "common.cuh"

struct Four { unsigned at[4]; };

__device__ __forceinline__ unsigned upper(unsigned x, unsigned y) {
    return static_cast<unsigned>(static_cast<unsigned long long>(x) * y >> 32);
}

__device__ __forceinline__ Four philox(unsigned long long counter, unsigned long long seed) {
    Four c = {{static_cast<unsigned>(counter), static_cast<unsigned>(counter >> 32), 0u, 0u}};
    unsigned k0 = static_cast<unsigned>(seed), k1 = static_cast<unsigned>(seed >> 32);
#pragma unroll
    for (int round = 0; round < 10; ++round) {
        const unsigned h0 = upper(0xD2511F53u, c.at[0]), l0 = 0xD2511F53u * c.at[0];
        const unsigned h1 = upper(0xCD9E8D57u, c.at[2]), l1 = 0xCD9E8D57u * c.at[2];
        c = {{h1 ^ c.at[1] ^ k0, l1, h0 ^ c.at[3] ^ k1, l0}};
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return c;
}

__device__ __forceinline__ float unit(unsigned bits) {  // in [0, 1), the upper 24 bits
    return static_cast<float>(bits >> 8) * 5.9604644775390625e-8f;
}

// Each thread takes four elements, one counter. x where the number is at least `rate`, scaled up by 1 / (1 - rate); else 0.
template <class T>
__device__ __forceinline__ void dropout(T* out, const T* x, double rate, Long seed, Long size) {
    const Wide<T> scale = static_cast<Wide<T>>(1 / (1 - rate));
    const Long step = static_cast<Long>(gridDim.x) * blockDim.x;
    for (Long i = static_cast<Long>(blockIdx.x) * blockDim.x + threadIdx.x; i * 4 < size; i += step) {
        const Four random = philox(static_cast<unsigned long long>(i), static_cast<unsigned long long>(seed));
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const Long at = i * 4 + j;
            if (at >= size) break;
            const bool kept = unit(random.at[j]) >= static_cast<float>(rate);
            out[at] = narrowed<T>(kept ? widen(x[at]) * scale : Wide<T>(0));
        }
    }
}

__device__ __forceinline__ void uniform(float* out, Long seed, Long offset, Long size) {
    const Long step = static_cast<Long>(gridDim.x) * blockDim.x;
    for (Long i = static_cast<Long>(blockIdx.x) * blockDim.x + threadIdx.x; i * 4 < size; i += step) {
        const Four random = philox(static_cast<unsigned long long>(offset + i), static_cast<unsigned long long>(seed));
#pragma unroll
        for (int j = 0; j < 4; ++j)
            if (i * 4 + j < size) out[i * 4 + j] = unit(random.at[j]);
    }
}
