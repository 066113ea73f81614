// Windows on planes: their maxima and means, which are read where they lie, and patches, which write them out; gradients.
#include "common.cuh"

enum Kind { MEAN, MAXIMUM, PATCHES };

// Planes of three axes, and the windows on them. What has fewer axes has lengths of 1 in front. With KH, KW, SH, SW known the
// first axis has no windows (its length counts as planes), and the dilation is 1; else 0 stands for each.
template <class Index> struct Windows {
    Index planes, size[3], out[3], kernel[3], stride[3], padding[3], dilation[3];
};
template <class Index> __device__ __forceinline__ constexpr Index told_or(int known, Index told) { return known ? static_cast<Index>(known) : told; }

// A length in steps of a stride, rounded down, and what is left: taken apart once, then counted down without a division.
template <class Index> struct Steps {
    Index whole, rest;
    __device__ __forceinline__ Steps(Index length, Index stride) : whole(length / stride), rest(length - whole * stride) {}
    __device__ __forceinline__ void less(const Steps& other, Index stride) {
        whole -= other.whole;
        rest -= other.rest;
        if (rest < 0) rest += stride, --whole;
    }
    __device__ __forceinline__ bool within(Index count) const { return rest == 0 && whole >= 0 && whole < count; }
};

// Where a position is, in all planes: its plane, and one number for each axis. Along axes of length 1 nothing is divided.
template <bool FLAT, class Index> struct Position {
    Index plane, at[3];
    static __device__ __forceinline__ Index over(Index i, Index length) { return length == 1 ? i : i / length; }
    __device__ __forceinline__ Position(Index i, const Index (&lengths)[3]) {
        const Index rest = i / lengths[2];
        at[2] = i - rest * lengths[2];
        const Index up = FLAT ? rest / lengths[1] : over(rest, lengths[1]);
        at[1] = rest - up * lengths[1];
        plane = FLAT ? up : over(up, lengths[0]);
        at[0] = FLAT ? 0 : up - plane * lengths[0];
    }
};

// The window of one position: f(tap, whether it is inside, its place from `start` on) for each tap, in their order.
template <int KH, int KW, int SH, int SW, class Index> struct Window {
    static constexpr bool KNOWN = KH > 0;
    const Windows<Index>& p;
    Index first[3];
    Long start;  // of the first tap in x, also where that is outside

    __device__ __forceinline__ Window(const Windows<Index>& p, Index plane, const Index (&at)[3]) : p(p) {
        first[0] = KNOWN ? 0 : at[0] * p.stride[0] - p.padding[0];
        first[1] = at[1] * told_or<Index>(SH, p.stride[1]) - p.padding[1];
        first[2] = at[2] * told_or<Index>(SW, p.stride[2]) - p.padding[2];
        const Long lines = static_cast<Long>(KNOWN ? plane : plane * p.size[0] + first[0]) * p.size[1] + first[1];
        start = lines * p.size[2] + first[2];
    }
    static __device__ __forceinline__ bool within(Index at, Index length) { return at >= 0 && at < length; }
    template <class F> __device__ __forceinline__ void each(F f) const {
        if constexpr (KNOWN) {
#pragma unroll
            for (int y = 0; y < KH; ++y) {
                const bool inside = within(first[1] + y, p.size[1]);
#pragma unroll
                for (int z = 0; z < KW; ++z) f(y * KW + z, inside && within(first[2] + z, p.size[2]), y * p.size[2] + z);
            }
        } else {
            int tap = 0;
            for (Index x = 0; x < p.kernel[0]; ++x)
                for (Index y = 0; y < p.kernel[1]; ++y) {
                    const Index a = x * p.dilation[0], b = y * p.dilation[1], line = (a * p.size[1] + b) * p.size[2];
                    const bool inside = within(first[0] + a, p.size[0]) && within(first[1] + b, p.size[1]);
#pragma unroll 1
                    for (Index z = 0, c = 0; z < p.kernel[2]; ++z, c += p.dilation[2])
                        f(tap++, inside && within(first[2] + c, p.size[2]), line + c);
                }
        }
    }
};

// The greatest of a window's elements, NaN if one is, or their mean; the padding counts as -infinity, or as 0. One thread has
// one window. Windows of two PAIRED columns are read as pairs. PATCHES are (images, channels * taps, positions): each column
// is one window, `fill` in the padding. With a number of `channels` images are not the first axis, but the one before the
// positions.
template <Kind KIND, class T, class Index, int KH, int KW, int SH, int SW, bool PAIRED>
KERNEL void windows(T* to, const T* x, double fill, Long channels, const Windows<Index>& p) {
    typedef Wide<T> A;
    const Index positions = p.out[1] * p.out[2] * (KH > 0 ? 1 : p.out[0]), size = p.planes * positions;
    const Index taps = KH > 0 ? KH * KW : p.kernel[0] * p.kernel[1] * p.kernel[2];
    const Index step = static_cast<Index>(gridDim.x) * blockDim.x;
    for (Index i = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x; i < size; i += step) {
        const Position<(KH > 0), Index> at(i, p.out);
        const Window<KH, KW, SH, SW, Index> window(p, at.plane, at.at);
        const T* const from = x + window.start;
        if constexpr (KIND == PATCHES) {
            Index row = at.plane * taps, images = 1;
            if (channels) {
                const Index image = at.plane / static_cast<Index>(channels);
                images = p.planes / static_cast<Index>(channels);
                row = (at.plane - image * static_cast<Index>(channels)) * taps * images + image;
            }
            const Index apart = images * positions;  // of two taps of a window
            const T outside = narrowed<T>(static_cast<A>(fill));
            T* const first = to + row * positions + (i - at.plane * positions);
            const auto element = [&](bool inside, Index place) { return inside ? from[place] : outside; };
            if constexpr (KH > 0) {  // first all loads, then all stores: none waits for another
                T found[KH * KW];
                window.each([&](int tap, bool inside, Index place) { found[tap] = element(inside, place); });
#pragma unroll
                for (int tap = 0; tap < KH * KW; ++tap) first[tap * apart] = found[tap];
            } else {
                window.each([&](int tap, bool inside, Index place) { first[tap * apart] = element(inside, place); });
            }
        } else {
            A found = KIND == MAXIMUM ? -infinity<A>() : A(0);
            const auto add = [&](A value) { found = KIND == MAXIMUM ? Max::of(found, value) : found + value; };
            if constexpr (PAIRED) {
#pragma unroll
                for (int y = 0; y < KH; ++y) {
                    const Pack<T, 2> pair = load<T, 2>(from + y * p.size[2]);
                    add(widen(pair.at[0]));
                    add(widen(pair.at[1]));
                }
            } else {
                const A outside = KIND == MAXIMUM ? -infinity<A>() : A(0);
                window.each([&](int, bool inside, Index place) { add(inside ? widen(from[place]) : outside); });
            }
            to[i] = narrowed<T>(KIND == MAXIMUM ? found : found / static_cast<A>(taps));
        }
    }
}

// What the elements of a window get of its cotangent: even shares for those that are the greatest, and 0 / 0 of NaN, which
// nothing equals.
template <class A> struct Shares {
    A most, yes, no;
    template <class S> static __device__ __forceinline__ Shares of(const S& each, A g) {
        A most = -infinity<A>(), count = 0;
        each([&](A value) { most = Max::of(most, value); });
        each([&](A value) { count += value == most ? A(1) : A(0); });
        const A even = A(1) / count;
        return {most, g * even, g * (A(0) * even)};
    }
    __device__ __forceinline__ A operator()(A value) const { return value == most ? yes : no; }
};

// The gradient of the maxima by x, of which g has one number for each window; of sums it is that number itself, of PATCHES one
// for each tap, and x is not looked at. One thread has a cell, the elements between the starts of two windows, and reads all
// windows that reach there; where kernel and stride are not known, one element.
template <Kind KIND, class T, class Index, int KH, int KW, int SH, int SW, bool PAIRED>
KERNEL void windows_gradient(T* to, const T* g, const T* x, const Windows<Index>& p) {
    typedef Wide<T> A;
    const Index step = static_cast<Index>(gridDim.x) * blockDim.x;
    if constexpr (KH > 0) {
        const Index cells[3] = {1, (p.size[1] + p.padding[1] + SH - 1) / SH, (p.size[2] + p.padding[2] + SW - 1) / SW};
        const Index size = p.planes * cells[1] * cells[2];
        for (Index i = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x; i < size; i += step) {
            const Position<true, Index> cell(i, cells);
            A total[SH][SW] = {};
#pragma unroll
            for (int up = (KH - 1) / SH; up >= 0; --up)
#pragma unroll
                for (int left = (KW - 1) / SW; left >= 0; --left) {
                    const Index at[3] = {0, cell.at[1] - up, cell.at[2] - left};
                    if (at[1] < 0 || at[1] >= p.out[1] || at[2] < 0 || at[2] >= p.out[2]) continue;
                    const Index positions = p.out[1] * p.out[2];
                    const Long plane = static_cast<Long>(cell.plane) * (KIND == PATCHES ? KH * KW : 1);
                    const T* const from = g + plane * positions + at[1] * p.out[2] + at[2];
                    const A own = KIND == PATCHES ? A(0) : widen(*from);
                    A values[KH * KW] = {};
                    Shares<A> shares = {};
                    if constexpr (KIND == MAXIMUM) {
                        const Window<KH, KW, SH, SW, Index> window(p, cell.plane, at);
                        const T* const seen = x + window.start;
                        if constexpr (PAIRED) {
#pragma unroll
                            for (int y = 0; y < KH; ++y) {
                                const Pack<T, 2> pair = load<T, 2>(seen + y * p.size[2]);
                                values[y * 2] = widen(pair.at[0]);
                                values[y * 2 + 1] = widen(pair.at[1]);
                            }
                        } else {
                            window.each([&](int tap, bool inside, Index place) {
                                values[tap] = inside ? widen(seen[place]) : -infinity<A>();
                            });
                        }
                        shares = Shares<A>::of([&](auto f) {
#pragma unroll
                            for (int tap = 0; tap < KH * KW; ++tap) f(values[tap]);
                        }, own);
                    }
#pragma unroll
                    for (int y = 0; y < SH; ++y)
#pragma unroll
                        for (int z = 0; z < SW; ++z)
                            if (up * SH + y < KH && left * SW + z < KW) {
                                const int tap = (up * SH + y) * KW + left * SW + z;
                                if constexpr (KIND == PATCHES) total[y][z] += widen(from[tap * positions]);
                                else total[y][z] += KIND == MAXIMUM ? shares(values[tap]) : own;
                            }
                }
            const Index top = cell.at[1] * SH - p.padding[1], left = cell.at[2] * SW - p.padding[2];
#pragma unroll
            for (int y = 0; y < SH; ++y) {
                if (top + y < 0 || top + y >= p.size[1]) continue;
                T* const line = to + (static_cast<Long>(cell.plane) * p.size[1] + top + y) * p.size[2] + left;
                if constexpr (PAIRED) {
                    store<T, 2>(line, narrow_all<T>(total[y]));
                } else {
#pragma unroll
                    for (int z = 0; z < SW; ++z)
                        if (left + z >= 0 && left + z < p.size[2]) line[z] = narrowed<T>(total[y][z]);
                }
            }
        }
    } else {
        const Index size = p.planes * p.size[0] * p.size[1] * p.size[2], positions = p.out[0] * p.out[1] * p.out[2];
        const Index taps = KIND == PATCHES ? p.kernel[0] * p.kernel[1] * p.kernel[2] : 1;
        const Index apart = KIND == PATCHES ? positions : 0;
        const Steps<Index> deep(p.dilation[0], p.stride[0]), down(p.dilation[1], p.stride[1]), right(p.dilation[2], p.stride[2]);
        for (Index i = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x; i < size; i += step) {
            const Position<false, Index> here(i, p.size);
            const A value = KIND == MAXIMUM ? widen(x[i]) : A(0);
            const T* from = g + static_cast<Long>(here.plane) * taps * positions;
            // The windows of which this element is a tap: along each axis one for each, or none.
            Steps<Index> a(here.at[0] + p.padding[0], p.stride[0]);
            const Steps<Index> top(here.at[1] + p.padding[1], p.stride[1]), left(here.at[2] + p.padding[2], p.stride[2]);
            A total = 0;
            for (Index w = 0; w < p.kernel[0]; ++w, a.less(deep, p.stride[0])) {
                Steps<Index> b = top;
                for (Index y = 0; y < p.kernel[1]; ++y, b.less(down, p.stride[1]), from += p.kernel[2] * apart) {
                    if (!a.within(p.out[0]) || !b.within(p.out[1])) continue;
                    Steps<Index> c = left;
#pragma unroll 1
                    for (Index z = 0; z < p.kernel[2]; ++z, c.less(right, p.stride[2])) {
                        if (!c.within(p.out[2])) continue;
                        const Index at[3] = {a.whole, b.whole, c.whole};
                        const A own = widen(from[z * apart + (at[0] * p.out[1] + at[1]) * p.out[2] + at[2]]);
                        if constexpr (KIND == MAXIMUM) {
                            const Window<0, 0, 0, 0, Index> window(p, here.plane, at);
                            const T* const seen = x + window.start;
                            total += Shares<A>::of([&](auto f) {
                                window.each([&](int, bool inside, Index place) { f(inside ? widen(seen[place]) : -infinity<A>()); });
                            }, own)(value);
                        } else {
                            total += own;
                        }
                    }
                }
            }
            to[i] = narrowed<T>(total);
        }
    }
}
