// The types of 16 bits.
#pragma once
#include <cstdint>
#include <cstring>

typedef _Float16 Half;
struct Bfloat16 { uint16_t bits; };

inline double widened(Bfloat16 x) {
    const uint32_t bits = static_cast<uint32_t>(x.bits) << 16;
    float wide;
    memcpy(&wide, &bits, sizeof wide);
    return wide;
}
inline Bfloat16 rounded(double x) { // to nearest, ties to even
    const float narrow = static_cast<float>(x);
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof bits);
    return {static_cast<uint16_t>(x != x ? 0x7FFF : (bits + 0x7FFF + (bits >> 16 & 1)) >> 16)};
}
