// Maxima and means of windows, and their gradients, without patches: what a window sees is read where it lies.
#include "common.cuh"

// Planes of three axes, and the windows on them. What has fewer axes has lengths of 1 in front. With KH, KW, SH, SW known the
// first axis has no windows (its length counts as planes), and the dilation is 1; else 0 stands for each.
template <class Index> struct Pooling {
    Index planes, size[3], out[3], kernel[3], stride[3], padding[3], dilation[3];
};
template <class Index> __device__ __forceinline__ constexpr Index told_or(int known, Index told) { return known ? static_cast<Index>(known) : told; }

// Where a position is, in all planes: its plane, and one number for each axis.
template <bool FLAT, class Index> struct Position {
    Index plane, at[3];
    __device__ __forceinline__ Position(Index i, const Index (&lengths)[3]) {
        Index rest = i / lengths[2];
        at[2] = i - rest * lengths[2];
        const Index up = rest / lengths[1];
        at[1] = rest - up * lengths[1];
        plane = FLAT ? up : up / lengths[0];
        at[0] = FLAT ? 0 : up - plane * lengths[0];
    }
};

// The window of one position: f(tap, place in x, or -1 outside) for each tap, in their order.
template <int KH, int KW, int SH, int SW, class Index> struct Window {
    static constexpr bool KNOWN = KH > 0;
    const Pooling<Index>& p;
    Index first[3];
    Long plane;

    __device__ __forceinline__ Window(const Pooling<Index>& p, Index plane, const Index (&at)[3]) : p(p) {
        first[0] = KNOWN ? 0 : at[0] * p.stride[0] - p.padding[0];
        first[1] = at[1] * told_or<Index>(SH, p.stride[1]) - p.padding[1];
        first[2] = at[2] * told_or<Index>(SW, p.stride[2]) - p.padding[2];
        this->plane = static_cast<Long>(plane) * p.size[1] * p.size[2] * (KNOWN ? 1 : p.size[0]);
    }
    static __device__ __forceinline__ bool within(Index at, Index length) { return at >= 0 && at < length; }
    template <class F> __device__ __forceinline__ void each(F f) const {
        if constexpr (KNOWN) {
#pragma unroll
            for (int y = 0; y < KH; ++y)
#pragma unroll
                for (int z = 0; z < KW; ++z) {
                    const bool inside = within(first[1] + y, p.size[1]) && within(first[2] + z, p.size[2]);
                    f(y * KW + z, inside ? plane + (first[1] + y) * p.size[2] + first[2] + z : Long(-1));
                }
        } else {
            int tap = 0;
            for (Index x = 0, a = first[0]; x < p.kernel[0]; ++x, a += p.dilation[0])
                for (Index y = 0, b = first[1]; y < p.kernel[1]; ++y, b += p.dilation[1])
#pragma unroll 1
                    for (Index z = 0, c = first[2]; z < p.kernel[2]; ++z, c += p.dilation[2]) {
                        const bool inside = within(a, p.size[0]) && within(b, p.size[1]) && within(c, p.size[2]);
                        f(tap++, inside ? plane + (a * p.size[1] + b) * p.size[2] + c : Long(-1));
                    }
        }
    }
};

// The greatest of a window's elements, NaN if one is, or their mean; the padding counts as -infinity, or as 0. One thread has
// one window. Windows of two PAIRED columns are read as pairs.
template <bool MAXIMUM, class T, class Index, int KH, int KW, int SH, int SW, bool PAIRED>
KERNEL void pool(T* to, const T* x, const Pooling<Index>& p) {
    typedef Wide<T> A;
    const Index positions = p.out[1] * p.out[2] * (KH > 0 ? 1 : p.out[0]), size = p.planes * positions;
    const Index step = static_cast<Index>(gridDim.x) * blockDim.x;
    for (Index i = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x; i < size; i += step) {
        const Position<(KH > 0), Index> at(i, p.out);
        const Window<KH, KW, SH, SW, Index> window(p, at.plane, at.at);
        A found = MAXIMUM ? -infinity<A>() : A(0);
        const auto add = [&](A value) { found = MAXIMUM ? Max::of(found, value) : found + value; };
        if constexpr (PAIRED) {
#pragma unroll
            for (int y = 0; y < KH; ++y) {
                const Pack<T, 2> pair = load<T, 2>(x + window.plane + (window.first[1] + y) * p.size[2] + window.first[2]);
                add(widen(pair.at[0]));
                add(widen(pair.at[1]));
            }
        } else {
            window.each([&](int, Long place) { add(place >= 0 ? widen(x[place]) : MAXIMUM ? -infinity<A>() : A(0)); });
        }
        const Index taps = KH > 0 ? KH * KW : p.kernel[0] * p.kernel[1] * p.kernel[2];
        to[i] = narrowed<T>(MAXIMUM ? found : found / static_cast<A>(taps));
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

// The gradient of the maxima by x, of which g has one number for each window; of sums it is that number itself, and x is
// not looked at. One thread has a cell, the elements between the starts of two windows, and reads all windows that
// reach there; where kernel and stride are not known, one element.
template <bool MAXIMUM, class T, class Index, int KH, int KW, int SH, int SW, bool PAIRED>
KERNEL void pool_gradient(T* to, const T* g, const T* x, const Pooling<Index>& p) {
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
                    const A own = widen(g[(static_cast<Long>(cell.plane) * p.out[1] + at[1]) * p.out[2] + at[2]]);
                    A values[KH * KW] = {};
                    Shares<A> shares = {};
                    if constexpr (MAXIMUM) {
                        const Window<KH, KW, SH, SW, Index> window(p, cell.plane, at);
                        if constexpr (PAIRED) {
#pragma unroll
                            for (int y = 0; y < KH; ++y) {
                                const Pack<T, 2> pair =
                                    load<T, 2>(x + window.plane + (window.first[1] + y) * p.size[2] + window.first[2]);
                                values[y * 2] = widen(pair.at[0]);
                                values[y * 2 + 1] = widen(pair.at[1]);
                            }
                        } else {
                            window.each([&](int tap, Long place) { values[tap] = place >= 0 ? widen(x[place]) : -infinity<A>(); });
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
                            if (up * SH + y < KH && left * SW + z < KW)
                                total[y][z] += MAXIMUM ? shares(values[(up * SH + y) * KW + left * SW + z]) : own;
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
        const Index size = p.planes * p.size[0] * p.size[1] * p.size[2];
        for (Index i = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x; i < size; i += step) {
            const Position<false, Index> here(i, p.size);
            const A value = MAXIMUM ? widen(x[i]) : A(0);
            A total = 0;
            Index at[3];
            // The windows of which this element is tap number `tap` along an axis: one, or none.
            const auto starts = [&](int axis, Index tap) {
                const Index far = here.at[axis] + p.padding[axis] - tap * p.dilation[axis];
                at[axis] = far / p.stride[axis];
                return far >= 0 && at[axis] * p.stride[axis] == far && at[axis] < p.out[axis];
            };
            for (Index a = p.kernel[0] - 1; a >= 0; --a) {
                if (!starts(0, a)) continue;
                for (Index b = p.kernel[1] - 1; b >= 0; --b) {
                    if (!starts(1, b)) continue;
                    for (Index c = p.kernel[2] - 1; c >= 0; --c) {
                        if (!starts(2, c)) continue;
                        const Long place = ((static_cast<Long>(here.plane) * p.out[0] + at[0]) * p.out[1] + at[1]) * p.out[2] + at[2];
                        const A own = widen(g[place]);
                        if constexpr (MAXIMUM) {
                            const Window<0, 0, 0, 0, Index> window(p, here.plane, at);
                            total += Shares<A>::of([&](auto f) {
                                window.each([&](int, Long place) { f(place >= 0 ? widen(x[place]) : -infinity<A>()); });
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
