// What CuPy's sorting calls, in NumPy's order: NaN comes last, and equal numbers stay as they were.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <vector>
#include "device.h"

namespace {

struct Kind { char letter; int size; }; // as NumPy's dtypes have them

// A number of at most 8 bytes as one without a sign that is in the same order.
uint64_t rank(const char* at, Kind of) {
    uint64_t bits = 0;
    memcpy(&bits, at, of.size);
    const uint64_t sign = uint64_t{1} << (8 * of.size - 1), size = bits & ~sign;
    const uint64_t infinity = of.size == 2 ? 0x7C00 : of.size == 4 ? 0x7F800000 : 0x7FF0000000000000;
    if (of.letter != 'f') return of.letter == 'i' ? bits ^ sign : bits;
    return size > infinity ? ~uint64_t{0} : bits > sign ? sign - size : sign + size; // −0 is 0
}
// A complex number is ordered by its parts, after those that have fewer NaNs, or one behind.
std::array<uint64_t, 3> ranks(const char* at, Kind of) {
    if (of.letter != 'c') return {rank(at, of), 0, 0};
    const Kind part = {'f', of.size / 2};
    const uint64_t real = rank(at, part), imaginary = rank(at + part.size, part);
    return {uint64_t{2} * !~real + !~imaginary, real, imaginary};
}

} // namespace

// Each row's order by several keys, of which the last counts most, goes to `indices` if there are any; `moves` says that
// its one key is sorted, too.
extern "C" void emulated_sort(char letter, int size, char* data, int64_t* indices, int64_t rows, int64_t keys,
                              int64_t length, int moves) {
    char line[160];
    snprintf(line, sizeof line, "sort %c%d %p %p %ld %ld %ld %d", letter, size, data, indices, rows, keys, length, moves);
    emulated_give(line, [=]() -> const char* {
        std::vector<int64_t> order(length);
        std::vector<std::array<uint64_t, 3>> ranked(length);
        for (int64_t row = 0; row < rows; ++row) {
            char* at = data + row * keys * length * size;
            std::iota(order.begin(), order.end(), 0);
            for (int64_t key = 0; key < keys; ++key) {
                for (int64_t i = 0; i < length; ++i) ranked[i] = ranks(at + (key * length + i) * size, {letter, size});
                std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) { return ranked[i] < ranked[j]; });
            }
            const std::vector<char> before(at, at + length * size);
            for (int64_t i = 0; moves && i < length; ++i) memcpy(at + i * size, &before[order[i] * size], size);
            if (indices) std::copy(order.begin(), order.end(), indices + row * length);
        }
        return nullptr;
    }, {data, indices});
}
