// Functions of whole rows of a contiguous matrix: softmaxes, cross-entropy, normalisation, and their gradients.
//
// G threads share a row (a part of a warp, a warp, or the whole block). With ITEMS > 0 each keeps its ITEMS packs of the
// row in registers: the row is read once. Longer rows (ITEMS == 0) are read again for each pass, from the cache.
// Sums are kept in the wide type, and added in an order that depends on the shape only.
#include "common.cuh"

template <class A> __device__ __forceinline__ A exponential(A x) { return exp(x); }

// One thread's share of a row of N operands.
template <class T, int G, int ITEMS, int V, int N> struct Share {
    typedef Wide<T> A;
    const T* from[N];
    Long columns;
    int lane;
    A kept[ITEMS > 0 ? ITEMS : 1][N][V];

    __device__ __forceinline__ Long column(int item) const { return (static_cast<Long>(item) * G + lane) * V; }

    __device__ __forceinline__ void fetch(Long column, A (&to)[N][V]) const {
#pragma unroll
        for (int k = 0; k < N; ++k) {
            const Pack<T, V> pack = load<T, V>(from[k] + column);
#pragma unroll
            for (int v = 0; v < V; ++v) to[k][v] = widen(pack.at[v]);
        }
    }
    __device__ __forceinline__ void keep() {
        if constexpr (ITEMS > 0) {
#pragma unroll
            for (int item = 0; item < ITEMS; ++item)
                if (column(item) < columns) fetch(column(item), kept[item]);
        }
    }
    // Each element of what is kept becomes f of itself.
    template <class F> __device__ __forceinline__ void change(F f) {
#pragma unroll
        for (int item = 0; item < ITEMS; ++item)
            if (column(item) < columns)
                for (A& value : kept[item][0]) value = f(value);
    }
    // f(item, column, the operands of its V elements)
    template <class F> __device__ __forceinline__ void each_item(F f) const {
        if constexpr (ITEMS > 0) {
#pragma unroll
            for (int item = 0; item < ITEMS; ++item)
                if (column(item) < columns) f(item, column(item), kept[item]);
        } else {
            for (Long at = static_cast<Long>(lane) * V; at < columns; at += G * V) {
                A values[N][V];
                fetch(at, values);
                f(0, at, values);
            }
        }
    }
    // f(column, operands) gives the pack that is stored there. Of what is kept all are made before the first is stored: no
    // load goes past a store, and what f loads would come one after the other.
    template <class F> __device__ __forceinline__ void store_each(T* to, F f) const {
        if constexpr (ITEMS > 0) {
            Pack<T, V> made[ITEMS];
            each_item([&](int item, Long column, const auto& values) { made[item] = f(column, values); });
#pragma unroll
            for (int item = 0; item < ITEMS; ++item)
                if (column(item) < columns) store<T, V>(to + column(item), made[item]);
        } else {
            each_item([&](int, Long column, const auto& values) { store<T, V>(to + column, f(column, values)); });
        }
    }
    template <class F> __device__ __forceinline__ void each(F f) const {
        each_item([&](int, Long column, const auto& values) { f(column, values); });
    }
};

// Calls body(row, share) for every row; threads beyond the last row go along with an empty one, for the barriers.
template <class T, int G, int ITEMS, int V, int N, class F>
__device__ __forceinline__ void for_each_row(const T* const (&operands)[N], Long rows, Long columns, F body) {
    const Long together = blockDim.x / G;
    const Long step = together * gridDim.x;
    for (Long first = static_cast<Long>(blockIdx.x) * together; first < rows; first += step) {
        const Long row = first + threadIdx.x / G;
        Share<T, G, ITEMS, V, N> share;
#pragma unroll
        for (int k = 0; k < N; ++k) share.from[k] = operands[k] + row * columns;
        share.columns = row < rows ? columns : 0;
        share.lane = static_cast<int>(threadIdx.x % G);
        share.keep();
        body(row, share);
    }
}

template <int G, class S> __device__ __forceinline__ auto maximum_of(const S& share) {
    typename S::A top = -infinity<typename S::A>();
    share.each([&](Long, const auto& x) {
        for (const auto value : x[0]) top = Max::of(top, value);
    });
    return reduce<Max, G>(top);
}
template <int G, class S, class A> __device__ __forceinline__ A sum_of_exponentials(const S& share, A top) {
    A total = 0;
    share.each([&](Long, const auto& x) {
        for (const A value : x[0]) total += exponential(value - top);
    });
    return reduce<Sum, G>(total);
}
// The same of what is kept, which becomes those exponentials; of rows that are not kept it stays as it is.
template <int G, int ITEMS, class S, class A> __device__ __forceinline__ A to_exponentials(S& share, A top) {
    if constexpr (ITEMS == 0) return sum_of_exponentials<G>(share, top);
    A total = 0;
    share.change([&](A value) {
        const A e = exponential(value - top);
        total += e;
        return e;
    });
    return reduce<Sum, G>(total);
}
template <int ITEMS, class A> __device__ __forceinline__ A exponential_of(A value, A top) {
    return ITEMS == 0 ? exponential(value - top) : value;
}

// ── softmax, its logarithm, and the logarithm of its denominator ────────────────────────────────────────────────

template <class T, int G, int ITEMS, int V>
__device__ __forceinline__ void softmax(T* out, const T* x, Long rows, Long columns) {
    typedef Wide<T> A;
    for_each_row<T, G, ITEMS, V, 1>({x}, rows, columns, [&](Long row, auto& share) {
        const A top = maximum_of<G>(share);
        const A scale = A(1) / to_exponentials<G, ITEMS>(share, top);
        share.each([&](Long column, const auto& values) {
            Pack<T, V> pack;
#pragma unroll
            for (int v = 0; v < V; ++v) pack.at[v] = narrowed<T>(exponential_of<ITEMS>(values[0][v], top) * scale);
            store<T, V>(out + row * columns + column, pack);
        });
    });
}

template <class T, int G, int ITEMS, int V>
__device__ __forceinline__ void log_softmax(T* out, const T* x, Long rows, Long columns) {
    typedef Wide<T> A;
    for_each_row<T, G, ITEMS, V, 1>({x}, rows, columns, [&](Long row, const auto& share) {
        const A top = maximum_of<G>(share);
        const A shift = log(sum_of_exponentials<G>(share, top));
        share.each([&](Long column, const auto& values) {
            Pack<T, V> pack;
#pragma unroll
            for (int v = 0; v < V; ++v) pack.at[v] = narrowed<T>((values[0][v] - top) - shift);
            store<T, V>(out + row * columns + column, pack);
        });
    });
}

template <class T, int G, int ITEMS, int V>
__device__ __forceinline__ void logsumexp(T* out, const T* x, Long rows, Long columns) {
    typedef Wide<T> A;
    for_each_row<T, G, ITEMS, V, 1>({x}, rows, columns, [&](Long row, const auto& share) {
        A top = maximum_of<G>(share);
        if (top - top != 0 && top == top) top = 0;  // infinite: inf - inf would be NaN
        const A total = sum_of_exponentials<G>(share, top);
        if (share.lane == 0 && row < rows) out[row] = narrowed<T>(top + log(total));
    });
}

// out * (g - sum(g * out))
template <class T, int G, int ITEMS, int V>
__device__ __forceinline__ void softmax_gradient(T* to, const T* g, const T* out, Long rows, Long columns) {
    typedef Wide<T> A;
    for_each_row<T, G, ITEMS, V, 2>({g, out}, rows, columns, [&](Long row, const auto& share) {
        A total = 0;
        share.each([&](Long, const auto& x) {
#pragma unroll
            for (int v = 0; v < V; ++v) total += x[0][v] * x[1][v];
        });
        total = reduce<Sum, G>(total);
        share.each([&](Long column, const auto& x) {
            Pack<T, V> pack;
#pragma unroll
            for (int v = 0; v < V; ++v) pack.at[v] = narrowed<T>(x[1][v] * (x[0][v] - total));
            store<T, V>(to + row * columns + column, pack);
        });
    });
}

// g - exp(out) * sum(g)
template <class T, int G, int ITEMS, int V>
__device__ __forceinline__ void log_softmax_gradient(T* to, const T* g, const T* out, Long rows, Long columns) {
    typedef Wide<T> A;
    for_each_row<T, G, ITEMS, V, 2>({g, out}, rows, columns, [&](Long row, const auto& share) {
        A total = 0;
        share.each([&](Long, const auto& x) {
            for (const A value : x[0]) total += value;
        });
        total = reduce<Sum, G>(total);
        share.each([&](Long column, const auto& x) {
            Pack<T, V> pack;
#pragma unroll
            for (int v = 0; v < V; ++v) pack.at[v] = narrowed<T>(x[0][v] - exponential(x[1][v]) * total);
            store<T, V>(to + row * columns + column, pack);
        });
    });
}

// ── cross-entropy ───────────────────────────────────────────────────────────────────────────────────────────────

// Minus the logarithm of the target's probability; 0 for the index `ignored`, NaN for another that names no class.
template <class T, class I, int G, int ITEMS, int V>
__device__ __forceinline__ void cross_entropy(
    Wide<T>* out, const T* x, const I* targets, Long ignored, Long rows, Long columns) {
    typedef Wide<T> A;
    for_each_row<T, G, ITEMS, V, 1>({x}, rows, columns, [&](Long row, const auto& share) {
        const A top = maximum_of<G>(share);
        const A total = sum_of_exponentials<G>(share, top);
        if (share.lane == 0 && row < rows) {
            const Long target = static_cast<Long>(targets[row]);
            const bool named = target >= 0 && target < columns;
            const A at = named ? widen(x[row * columns + target]) : A(0);
            out[row] = named ? log(total) - (at - top) : target == ignored ? A(0) : nan_of<A>();
        }
    });
}

// How many targets are not `ignored`; one block of G threads counts.
template <class A, int G, class I> __device__ __forceinline__ A counted(const I* targets, Long ignored, Long rows) {
    Long count = 0;
    for (Long row = threadIdx.x; row < rows; row += G) count += static_cast<Long>(targets[row]) != ignored;
    return static_cast<A>(reduce<Sum, G>(count));
}

// The sum of the losses, or their mean over the rows that count. One block of G threads.
template <class T, class I, int G>
__device__ __forceinline__ void total_loss(
    T* out, const Wide<T>* losses, const I* targets, Long ignored, Long mean, Long rows) {
    typedef Wide<T> A;
    A total = 0;
    for (Long row = threadIdx.x; row < rows; row += G) total += losses[row];
    total = reduce<Sum, G>(total);
    if (mean) total /= counted<A, G>(targets, ignored, rows);
    if (threadIdx.x == 0) *out = narrowed<T>(total);
}

// What each row has of the cotangent of a mean; where no row counts, no row moves. One block of G threads.
template <class T, class I, int G>
__device__ __forceinline__ void loss_share(Wide<T>* out, const T* g, const I* targets, Long ignored, Long rows) {
    const Wide<T> count = counted<Wide<T>, G>(targets, ignored, rows);
    if (threadIdx.x == 0) *out = widen(*g) / (count > 0 ? count : Wide<T>(1));
}

// (softmax - one_hot) * g, in which g has one element per row, or one for all (stride 0).
template <class T, class I, int G, int ITEMS, int V>
__device__ __forceinline__ void cross_entropy_gradient(
    T* to, const Wide<T>* g, const T* x, const I* targets, Long stride, Long ignored, Long rows, Long columns) {
    typedef Wide<T> A;
    for_each_row<T, G, ITEMS, V, 1>({x}, rows, columns, [&](Long row, auto& share) {
        const A top = maximum_of<G>(share);
        const A scale = A(1) / to_exponentials<G, ITEMS>(share, top);
        const Long target = row < rows ? static_cast<Long>(targets[row]) : 0;
        const bool named = target >= 0 && target < columns;
        const A factor = row >= rows || target == ignored ? A(0) : named ? g[row * stride] : nan_of<A>();
        share.each([&](Long column, const auto& values) {
            Pack<T, V> pack;
#pragma unroll
            for (int v = 0; v < V; ++v) {
                const A p = exponential_of<ITEMS>(values[0][v], top) * scale;
                pack.at[v] = narrowed<T>((p - (column + v == target ? A(1) : A(0))) * factor);
            }
            store<T, V>(to + row * columns + column, pack);
        });
    });
}

// ── normalisation ───────────────────────────────────────────────────────────────────────────────────────────────

template <class A> struct Moments { A mean, scale; };  // scale = 1 / sqrt(variance + eps)

// Of operand K of a row, by the two-pass formula. What is not CENTERED has mean 0.
template <bool CENTERED, int K, int G, class S, class A>
__device__ __forceinline__ Moments<A> moments(const S& share, Long columns, A eps) {
    A mean = 0, squares = 0;
    if constexpr (CENTERED) {
        share.each([&](Long, const auto& x) {
            for (const A value : x[K]) mean += value;
        });
        mean = reduce<Sum, G>(mean) / static_cast<A>(columns);
    }
    share.each([&](Long, const auto& x) {
        for (const A value : x[K]) squares += (value - mean) * (value - mean);
    });
    const A variance = reduce<Sum, G>(squares) / static_cast<A>(columns);
    return {mean, A(1) / sqrt(variance + eps)};
}

// A pack of weights or biases; without any (a null pointer) `otherwise`.
template <class T, int V> __device__ __forceinline__ void fetch_or(const T* from, Long column, Wide<T> otherwise, Wide<T> (&to)[V]) {
    const Pack<T, V> pack = from == nullptr ? Pack<T, V>{} : load<T, V>(from + column);
#pragma unroll
    for (int v = 0; v < V; ++v) to[v] = from == nullptr ? otherwise : widen(pack.at[v]);
}

template <class T, bool CENTERED, int G, int ITEMS, int V>
__device__ __forceinline__ void norm(
    T* out, const T* x, const T* weight, const T* bias, double eps, Long rows, Long columns) {
    typedef Wide<T> A;
    for_each_row<T, G, ITEMS, V, 1>({x}, rows, columns, [&](Long row, const auto& share) {
        const Moments<A> m = moments<CENTERED, 0, G>(share, columns, static_cast<A>(eps));
        share.store_each(out + row * columns, [&](Long column, const auto& values) {
            A w[V], b[V];
            fetch_or<T, V>(weight, column, A(1), w);
            fetch_or<T, V>(bias, column, A(-0.0), b);  // which leaves a zero its sign
            Pack<T, V> pack;
#pragma unroll
            for (int v = 0; v < V; ++v)
                pack.at[v] = narrowed<T>((values[0][v] - m.mean) * m.scale * w[v] + b[v]);
            return pack;
        });
    });
}

// With h = (x - mean) * scale and d = g * weight: scale * (d - mean(d) - h * mean(d * h)).
template <class T, bool CENTERED, int G, int ITEMS, int V>
__device__ __forceinline__ void norm_gradient(
    T* to, const T* g, const T* x, const T* weight, double eps, Long rows, Long columns) {
    typedef Wide<T> A;
    for_each_row<T, G, ITEMS, V, 2>({x, g}, rows, columns, [&](Long row, const auto& share) {
        const Moments<A> m = moments<CENTERED, 0, G>(share, columns, static_cast<A>(eps));
        A plain = 0, weighted = 0;
        share.each([&](Long column, const auto& values) {
            A w[V];
            fetch_or<T, V>(weight, column, A(1), w);
#pragma unroll
            for (int v = 0; v < V; ++v) {
                const A d = values[1][v] * w[v];
                if constexpr (CENTERED) plain += d;
                weighted += d * (values[0][v] - m.mean) * m.scale;
            }
        });
        if constexpr (CENTERED) plain = reduce<Sum, G>(plain) / static_cast<A>(columns);
        weighted = reduce<Sum, G>(weighted) / static_cast<A>(columns);
        share.store_each(to + row * columns, [&](Long column, const auto& values) {
            A w[V];
            fetch_or<T, V>(weight, column, A(1), w);
            Pack<T, V> pack;
#pragma unroll
            for (int v = 0; v < V; ++v) {
                const A h = (values[0][v] - m.mean) * m.scale;
                pack.at[v] = narrowed<T>(m.scale * (values[1][v] * w[v] - plain - h * weighted));
            }
            return pack;
        });
    });
}

// What a group of threads has added up, of all groups of the block, in the order of the groups: a row of `to`.
template <class A, int G, int ITEMS, int V> __device__ __forceinline__ void store_sums(A* to, const A (&total)[ITEMS][V], Long columns) {
    constexpr int BLOCK = G < 128 ? 128 : G;
    const int lane = static_cast<int>(threadIdx.x % G);
    __shared__ A shared[ITEMS * V][G < BLOCK ? BLOCK : 1];
    if constexpr (G < BLOCK) {
        __syncthreads();  // an earlier sum may still be read
#pragma unroll
        for (int item = 0; item < ITEMS; ++item)
#pragma unroll
            for (int v = 0; v < V; ++v) shared[item * V + v][threadIdx.x] = total[item][v];
        __syncthreads();
        if (threadIdx.x >= G) return;
    }
#pragma unroll
    for (int item = 0; item < ITEMS; ++item) {
        const Long column = (static_cast<Long>(item) * G + lane) * V;
        Pack<A, V> pack;
#pragma unroll
        for (int v = 0; v < V; ++v) {
            pack.at[v] = total[item][v];
            if constexpr (G < BLOCK)
                for (int other = 1; other < BLOCK / G; ++other) pack.at[v] += shared[item * V + v][other * G + lane];
        }
        if (column < columns) store<A, V>(to + column, pack);
    }
}
template <class A, int V> __device__ __forceinline__ void add_to(A* sums, const A (&terms)[V]) {
    Pack<A, V> pack = load<A, V>(sums);
#pragma unroll
    for (int v = 0; v < V; ++v) pack.at[v] += terms[v];
    store<A, V>(sums, pack);
}

// Sums over the rows that a block takes: of g * h, a row of `to` for each block, and then, for what is CENTERED and has a
// bias, of g. `reduce_columns` adds those rows up. Each operand is read once, for both sums. A thread keeps those of its
// columns; of rows too long for that, which are a block's alone, they are in `to`.
template <class T, bool CENTERED, int G, int ITEMS, int V>
__device__ __forceinline__ void norm_weight_gradient(
    Wide<T>* to, const T* g, const T* x, double eps, Long rows, Long columns) {
    typedef Wide<T> A;
    const int lane = static_cast<int>(threadIdx.x % G);
    A* const sums = to + static_cast<Long>(blockIdx.x) * columns;
    A* const plain = sums + static_cast<Long>(gridDim.x) * columns;
    A total[ITEMS > 0 ? ITEMS : 1][V] = {}, bias[ITEMS > 0 ? ITEMS : 1][V] = {};
    if constexpr (ITEMS == 0)
        for (Long at = static_cast<Long>(lane) * V; at < columns; at += G * V) {
            store<A, V>(sums + at, Pack<A, V>{});
            if constexpr (CENTERED) store<A, V>(plain + at, Pack<A, V>{});
        }
    for_each_row<T, G, ITEMS, V, 2>({x, g}, rows, columns, [&](Long, const auto& share) {
        const Moments<A> m = moments<CENTERED, 0, G>(share, columns, static_cast<A>(eps));
        share.each_item([&](int item, Long column, const auto& values) {
            A term[V];
#pragma unroll
            for (int v = 0; v < V; ++v) term[v] = values[1][v] * (values[0][v] - m.mean) * m.scale;
            if constexpr (ITEMS > 0) {
#pragma unroll
                for (int v = 0; v < V; ++v) {
                    total[item][v] += term[v];
                    if constexpr (CENTERED) bias[item][v] += values[1][v];
                }
            } else {
                add_to<A, V>(sums + column, term);
                if constexpr (CENTERED) add_to<A, V>(plain + column, values[1]);
            }
        });
    });
    if constexpr (ITEMS > 0) {
        store_sums<A, G, ITEMS, V>(sums, total, columns);
        if constexpr (CENTERED) store_sums<A, G, ITEMS, V>(plain, bias, columns);
    }
}
