// Functions of whole rows of a contiguous matrix: softmaxes, cross-entropy, normalisation, and their gradients.
//
// G threads share a row (a part of a warp, a warp, or the whole block). With ITEMS > 0 each keeps its ITEMS packs of the
// row in registers: the row is read once. Longer rows (ITEMS == 0) are read again for each pass, from the cache.
// Sums are kept in the wide type, and added in an order that depends on the shape only.
#include "common.cuh"

template <bool SHORT> struct ColumnOf { typedef Long type; };
template <> struct ColumnOf<true> { typedef int type; };

// One thread's share of a row of N operands. PEELED rows start anywhere in matrices that start at a multiple of 16 bytes:
// what lies before the first whole pack and behind the last is shared out one element a thread. The second operand has a
// type of its own.
template <class T, int G, int ITEMS, int V, int N, bool PEELED = false, class U = T> struct Share {
    typedef Wide<T> A;
    typedef T Element;
    static constexpr int TOGETHER = N > 1 ? 2 : 4;  // packs of a longer row that are read before the first is used
    typedef typename ColumnOf<(ITEMS > 0)>::type Column;
    const T* from;
    const U* other;  // where N is 2
    Column columns;
    int lane, head;  // elements before the first whole pack
    A kept[ITEMS > 0 ? ITEMS : 1][N][V];
    A end[N][1];  // this thread's element outside of whole packs

    __device__ __forceinline__ void begin(Long row) {
        if constexpr (PEELED) head = columns > 0 ? static_cast<int>((-row * columns) & (V - 1)) : 0;
    }
    __device__ __forceinline__ Column first() const { return PEELED ? head : 0; }
    __device__ __forceinline__ Column last() const { return PEELED ? columns - ((columns - head) & (V - 1)) : columns; }
    __device__ __forceinline__ Column column(int item) const { return first() + (static_cast<Column>(item) * G + lane) * V; }
    __device__ __forceinline__ Column end_column() const { return lane < head ? lane : last() + (lane - head); }

    template <int W> __device__ __forceinline__ void fetch(Long column, A (&to)[N][W]) const {
        widen_all(load<T, W>(from + column), to[0]);
        if constexpr (N > 1) widen_all(load<U, W>(other + column), to[1]);
    }
    __device__ __forceinline__ void keep() {
        if constexpr (ITEMS > 0) {
#pragma unroll
            for (int item = 0; item < ITEMS; ++item)
                if (column(item) < last()) fetch(column(item), kept[item]);
        }
        if constexpr (PEELED)
            if (end_column() < columns) fetch(end_column(), end);
    }
    // Each element of what is kept becomes f of itself.
    template <class F> __device__ __forceinline__ void change(F f) {
#pragma unroll
        for (int item = 0; item < ITEMS; ++item)
            if (column(item) < last())
                for (A& value : kept[item][0]) value = f(value);
        if constexpr (PEELED)
            if (end_column() < columns) end[0][0] = f(end[0][0]);
    }
    // f(item, column, the operands of its V elements, or of one). Of longer rows some packs are read before f is called for
    // the first of them, which may store: no load goes past a store.
    template <class F> __device__ __forceinline__ void each_item(F f) const {
        if constexpr (ITEMS > 0) {
#pragma unroll
            for (int item = 0; item < ITEMS; ++item)
                if (column(item) < last()) f(item, column(item), kept[item]);
        } else {
            for (Long at = first() + static_cast<Long>(lane) * V; at < last(); at += static_cast<Long>(TOGETHER) * G * V) {
                Pack<T, V> packs[TOGETHER];
                Pack<U, V> others[TOGETHER];
#pragma unroll
                for (int i = 0; i < TOGETHER; ++i) {
                    if (at + i * G * V >= last()) break;
                    packs[i] = load<T, V>(from + at + i * G * V);
                    if constexpr (N > 1) others[i] = load<U, V>(other + at + i * G * V);
                }
#pragma unroll
                for (int i = 0; i < TOGETHER; ++i) {
                    if (at + i * G * V >= last()) break;
                    A values[N][V];
                    widen_all(packs[i], values[0]);
                    if constexpr (N > 1) widen_all(others[i], values[1]);
                    f(0, at + i * G * V, values);
                }
            }
        }
        if constexpr (PEELED)
            if (end_column() < columns) f(ITEMS, end_column(), end);
    }
    // f(item, column, operands) gives the pack that is stored there; then(item, column, pack) is called after that. Of what
    // is kept all are made before the first is stored: no load goes past a store, and what f loads would come one after the
    // other.
    template <class R, class F, class S> __device__ __forceinline__ void store_each(R* to, F f, S then) const {
        if constexpr (ITEMS > 0) {
            Pack<R, V> made[ITEMS];
            each_item([&](int item, Long column, const auto& values) { made[item] = f(item, column, values); });
#pragma unroll
            for (int item = 0; item < ITEMS; ++item)
                if (column(item) < columns) store(to + column(item), made[item]), then(item, column(item), made[item]);
        } else {
            each_item([&](int item, Long column, const auto& values) {
                const Pack<R, V> made = f(item, column, values);
                store(to + column, made), then(item, column, made);
            });
        }
    }
    // The same where f loads nothing.
    template <class R, class F> __device__ __forceinline__ void put_each(R* to, F f) const {
        each_item([&](int, Long column, const auto& values) { store(to + column, f(column, values)); });
    }
    template <class F> __device__ __forceinline__ void each(F f) const {
        each_item([&](int, Long column, const auto& values) { f(column, values); });
    }
};

// Calls body(row, share) for every row, of which `length(row)` columns are read; threads beyond the last row go along with
// an empty one, for the barriers.
template <class T, int G, int ITEMS, int V, int N, bool PEELED = false, class U, class F, class L>
__device__ __forceinline__ void for_each_row_of(const T* x, const U* y, Long rows, Long columns, L length, F body) {
    const Long together = blockDim.x / G;
    const Long step = together * gridDim.x;
    for (Long first = static_cast<Long>(blockIdx.x) * together; first < rows; first += step) {
        const Long row = first + threadIdx.x / G;
        Share<T, G, ITEMS, V, N, PEELED, U> share;
        share.from = x + row * columns;
        share.other = y + row * columns;
        share.columns = row < rows ? static_cast<decltype(share.columns)>(length(row)) : 0;
        share.lane = static_cast<int>(threadIdx.x % G);
        share.begin(row);
        share.keep();
        body(row, share);
    }
}
template <class T, int G, int ITEMS, int V, int N, bool PEELED = false, class U, class F>
__device__ __forceinline__ void for_each_row(const T* x, const U* y, Long rows, Long columns, F body) {
    for_each_row_of<T, G, ITEMS, V, N, PEELED>(x, y, rows, columns, [&](Long) { return columns; }, body);
}

// A pack of f(v), as wide as the operands are.
template <class T, class A, int N, int W, class F>
__device__ __forceinline__ Pack<T, W> packed(const A (&)[N][W], F f) {
    A made[W];
#pragma unroll
    for (int v = 0; v < W; ++v) made[v] = f(v);
    return narrow_all<T>(made);
}

// ── softmax, its logarithm, and the logarithm of its denominator ────────────────────────────────────────────────

// The largest element of a row, and the sum of exp(x - top); NaN where top is not finite.
template <class A> struct Denominator { A top, total; };

template <int G, class S> __device__ __forceinline__ auto maximum_of(const S& share) {
    typename S::A top = -infinity<typename S::A>();
    share.each([&](Long, const auto& x) {
        for (const auto value : x[0]) top = Max::of(top, value);
    });
    return reduce<Max, G>(top);
}

// What is kept becomes those exponentials. Longer rows stay as they are, and are read once: each thread adds up relative to
// the largest that it has met, and what it had is less by as much when it meets a larger one.
template <int G, int ITEMS, class S> __device__ __forceinline__ auto to_exponentials(S& share) {
    typedef typename S::A A;
    typedef typename S::Element T;
    if constexpr (ITEMS > 0) {
        const A top = maximum_of<G>(share);
        A total = 0;
        share.change([&](A value) {
            const A e = exponential_for<T>(value - top);
            total += e;
            return e;
        });
        return Denominator<A>{top, reduce<Sum, G>(total)};
    } else {
        A own = lowest<A>(), total = 0;  // not infinite: from there -inf is infinitely far away
        share.each([&](Long, const auto& x) {
            A larger = own;
            for (const A value : x[0]) larger = Max::of(larger, value);
            if (!(larger <= own)) {
                total *= exponential_in_sum<T>(own - larger);
                own = larger;
            }
            for (const A value : x[0]) total += exponential_in_sum<T>(value - own);
        });
        const A top = reduce<Max, G>(total == 0 ? -infinity<A>() : own);
        total = reduce<Sum, G>(total == 0 ? A(0) : total * exponential_in_sum<T>(own - top));
        return Denominator<A>{top, top - top == 0 ? total : nan_of<A>()};
    }
}
template <class T, int ITEMS, class A> __device__ __forceinline__ A exponential_of(A value, A top) {
    return ITEMS == 0 ? exponential_for<T>(value - top) : value;
}

template <class T, int G, int ITEMS, int V, bool PEELED = false>
KERNEL void softmax(T* out, const T* x, Long rows, Long columns) {
    typedef Wide<T> A;
    for_each_row<T, G, ITEMS, V, 1, PEELED>(x, x, rows, columns, [&](Long row, auto& share) {
        const Denominator<A> found = to_exponentials<G, ITEMS>(share);
        const A scale = A(1) / found.total;
        share.put_each(out + row * columns, [&](Long, const auto& values) {
            return packed<T>(values, [&](int v) { return exponential_of<T, ITEMS>(values[0][v], found.top) * scale; });
        });
    });
}

template <class T, int G, int ITEMS, int V, bool PEELED = false>
KERNEL void log_softmax(T* out, const T* x, Long rows, Long columns) {
    typedef Wide<T> A;
    for_each_row<T, G, ITEMS, V, 1, PEELED>(x, x, rows, columns, [&](Long row, const auto& share) {
        auto changed = share;
        const Denominator<A> found = to_exponentials<G, ITEMS>(changed);
        const A shift = log(found.total);
        share.put_each(out + row * columns, [&](Long, const auto& values) {
            return packed<T>(values, [&](int v) { return (values[0][v] - found.top) - shift; });
        });
    });
}

template <class T, int G, int ITEMS, int V, bool PEELED = false>
KERNEL void logsumexp(T* out, const T* x, Long rows, Long columns) {
    typedef Wide<T> A;
    for_each_row<T, G, ITEMS, V, 1, PEELED>(x, x, rows, columns, [&](Long row, auto& share) {
        const Denominator<A> found = to_exponentials<G, ITEMS>(share);
        if (share.lane == 0 && row < rows)
            out[row] = narrowed<T>(found.top - found.top == 0 ? found.top + log(found.total) : found.top);
    });
}

// out * (g - sum(g * out))
template <class T, int G, int ITEMS, int V, bool PEELED = false>
KERNEL void softmax_gradient(T* to, const T* g, const T* out, Long rows, Long columns) {
    typedef Wide<T> A;
    for_each_row<T, G, ITEMS, V, 2, PEELED>(g, out, rows, columns, [&](Long row, const auto& share) {
        A total = 0;
        share.each([&](Long, const auto& x) {
            int v = 0;
            for (const A value : x[0]) total += value * x[1][v++];
        });
        total = reduce<Sum, G>(total);
        share.put_each(to + row * columns, [&](Long, const auto& x) {
            return packed<T>(x, [&](int v) { return x[1][v] * (x[0][v] - total); });
        });
    });
}

// g - exp(out) * sum(g)
template <class T, int G, int ITEMS, int V, bool PEELED = false>
KERNEL void log_softmax_gradient(T* to, const T* g, const T* out, Long rows, Long columns) {
    typedef Wide<T> A;
    for_each_row<T, G, ITEMS, V, 2, PEELED>(g, out, rows, columns, [&](Long row, const auto& share) {
        A total = 0;
        share.each([&](Long, const auto& x) {
            for (const A value : x[0]) total += value;
        });
        total = reduce<Sum, G>(total);
        share.put_each(to + row * columns, [&](Long, const auto& x) {
            return packed<T>(x, [&](int v) { return x[0][v] - exponential_for<T>(x[1][v]) * total; });
        });
    });
}

// ── weights of attention ────────────────────────────────────────────────────────────────────────────────────────

// Of a row the columns that it sees: all, or with `targets` in a matrix no more than up to its diagonal.
__device__ __forceinline__ Long seen_columns(Long row, Long targets, Long columns) {
    if (targets == 0) return columns;
    const Long seen = (row >> 32 == 0 && targets >> 32 == 0 ? static_cast<unsigned>(row) % static_cast<unsigned>(targets)
                                                            : row % targets) + 1;
    return seen < columns ? seen : columns;
}
// Stores f(column, operands) where something is seen, and zeros behind it: no less than a pack at a time.
template <class T, int G, int ITEMS, int V, class S, class H, class F>
__device__ __forceinline__ void store_seen(T* to, const S& share, const H& hidden, Long columns, F f) {
    if constexpr (ITEMS > 0) {
#pragma unroll
        for (int item = 0; item < ITEMS; ++item) {
            const Long column = share.column(item);
            if (column < share.columns) store(to + column, f(column, share.kept[item]));
            else if (column < columns) store(to + column, Pack<T, V>{});
        }
    } else {
        hidden.each([&](Long column, const auto& values) { store(to + column, f(column, values)); });
        for (Long at = (share.columns + V - 1) / V * V + share.lane * V; at < columns; at += G * V)
            store(to + at, Pack<T, V>{});
    }
}

// Where the mask of a row begins: rows along three axes, each with a stride. Bools say what is seen, numbers are added.
struct MaskRows { Long second, third, strides[3]; };
__device__ __forceinline__ Long mask_row(Long row, const MaskRows& where) {
    if (where.third == 1 && where.second == 1) return row * where.strides[0];
    const Long above = row / where.third;
    return above / where.second * where.strides[0] + above % where.second * where.strides[1] +
           row % where.third * where.strides[2];
}
template <class A> __device__ __forceinline__ A masked(A score, bool seen) { return seen ? score : -infinity<A>(); }
template <class A> __device__ __forceinline__ A masked(A score, A added) { return score + added; }
__device__ __forceinline__ bool widen(Bool x) { return x.value != 0; }

// A longer row as `hide(column, operands)` leaves it, each time that it is read.
template <class S, int V, class F> struct Hidden {
    typedef typename S::A A;
    typedef typename S::Element Element;
    const S& share;
    F hide;
    template <class G> __device__ __forceinline__ void each(G f) const {
        share.each([&](Long column, const auto& values) {
            A own[1][V];
#pragma unroll
            for (int v = 0; v < V; ++v) own[0][v] = values[0][v];
            hide(column, own);
            f(column, own);
        });
    }
};

// softmax of what is seen; 0 in a row that a mask leaves nothing of. W elements of the mask are read at once, 0 without one.
template <class T, class M, int W, int G, int ITEMS, int V>
KERNEL void attention_weights(
    T* out, const T* x, const M* mask, const MaskRows where, Long targets, Long rows, Long columns) {
    typedef Wide<T> A;
    const auto length = [&](Long row) { return seen_columns(row, targets, columns); };
    for_each_row_of<T, G, ITEMS, V, 1>(x, x, rows, columns, length, [&](Long row, auto& share) {
        const Long end = share.columns;
        [[maybe_unused]] const M* const own = W > 0 && row < rows ? mask + mask_row(row, where) : nullptr;
        const auto hide = [&](Long column, A (&values)[1][V]) {
            if constexpr (W > 0) {
                const Pack<M, V> pack = load<M, V, W>(own + column);
#pragma unroll
                for (int v = 0; v < V; ++v) values[0][v] = masked(values[0][v], widen(pack.at[v]));
            }
            if (column + V > end)
#pragma unroll
                for (int v = 0; v < V; ++v)
                    if (column + v >= end) values[0][v] = -infinity<A>();
        };
        const auto finish = [&](auto& hidden) {
            const Denominator<A> found = to_exponentials<G, ITEMS>(hidden);
            const bool blind = W > 0 && found.top == -infinity<A>();
            const A scale = A(1) / found.total;
            store_seen<T, G, ITEMS, V>(out + row * columns, share, hidden, row < rows ? columns : 0, [&](Long, const auto& values) {
                return packed<T>(values, [&](int v) {
                    return blind ? A(0) : exponential_of<T, ITEMS>(values[0][v], found.top) * scale;
                });
            });
        };
        if constexpr (ITEMS > 0) {
#pragma unroll
            for (int item = 0; item < ITEMS; ++item)
                if (share.column(item) < end) hide(share.column(item), share.kept[item]);
            finish(share);
        } else {
            Hidden<Share<T, G, ITEMS, V, 1>, V, decltype(hide)> hidden{share, hide};
            finish(hidden);
        }
    });
}

// out * (g - sum(g * out)), of which nothing is read behind the diagonal.
template <class T, int G, int ITEMS, int V>
KERNEL void attention_weights_gradient(
    T* to, const T* g, const T* out, Long targets, Long rows, Long columns) {
    typedef Wide<T> A;
    const auto length = [&](Long row) { return seen_columns(row, targets, columns); };
    for_each_row_of<T, G, ITEMS, V, 2>(g, out, rows, columns, length, [&](Long row, const auto& share) {
        A total = 0;
        share.each([&](Long, const auto& x) {
            int v = 0;
            for (const A value : x[0]) total += value * x[1][v++];
        });
        total = reduce<Sum, G>(total);
        store_seen<T, G, ITEMS, V>(to + row * columns, share, share, row < rows ? columns : 0, [&](Long, const auto& x) {
            return packed<T>(x, [&](int v) { return x[1][v] * (x[0][v] - total); });
        });
    });
}

// ── cross-entropy ───────────────────────────────────────────────────────────────────────────────────────────────

// What the gradient needs of the rows: of each the largest logit and 1 / the sum of exp(x - top); at the end how many
// targets are not `ignored`.
template <class A> struct Statistics { A top, scale; };

// Minus the logarithm of the target's probability; 0 for the index `ignored`, NaN for another that names no class. Their
// sum, or their mean over the rows that count, is made by the block that comes last, out of what the blocks have found: in
// their order, whichever that is. `losses` may be null. `arrived` is 0, and is so again at the end.
template <class T, class I, class R, int G, int ITEMS, int V, bool PEELED = false>
KERNEL void cross_entropy(
    R* out, R* losses, Wide<T>* statistics, Wide<T>* partial, unsigned* arrived, const T* x, const I* targets,
    Long ignored, Long mean, Long rows, Long columns) {
    typedef Wide<T> A;
    constexpr int BLOCK = G < 128 ? 128 : G;
    A loss = 0, count = 0;  // of the rows whose first lane this is
    for_each_row<T, G, ITEMS, V, 1, PEELED>(x, x, rows, columns, [&](Long row, auto& share) {
        const Denominator<A> found = to_exponentials<G, ITEMS>(share);
        if (share.lane == 0 && row < rows) {
            const Long target = static_cast<Long>(targets[row]);
            const bool named = target >= 0 && target < columns;
            const A at = named ? widen(x[row * columns + target]) : A(0);
            const A own = named && target != ignored ? log(found.total) - (at - found.top)
                        : target == ignored ? A(0) : nan_of<A>();
            reinterpret_cast<Statistics<A>*>(statistics)[row] = {found.top, A(1) / found.total};
            if (losses != nullptr) losses[row] = narrowed<R>(own);
            loss += own;
            count += target == ignored ? A(0) : A(1);
        }
    });
    if constexpr (G < BLOCK) {
        loss = reduce<Sum, BLOCK>(loss);
        count = reduce<Sum, BLOCK>(count);
    }
    if (!last_to_arrive(arrived, [&] { partial[blockIdx.x * 2] = loss, partial[blockIdx.x * 2 + 1] = count; })) return;
    loss = count = 0;
    for (unsigned block = threadIdx.x; block < gridDim.x; block += BLOCK)
        loss += partial[block * 2], count += partial[block * 2 + 1];
    loss = reduce<Sum, BLOCK>(loss);
    count = reduce<Sum, BLOCK>(count);
    if (threadIdx.x > 0) return;
    *out = narrowed<R>(mean ? loss / count : loss);
    statistics[rows * 2] = count;
}

// (softmax - one_hot) * g, in which g has one element per row, or one for all (stride 0); of a mean each row that counts has
// its share, and where none counts none moves.
template <class T, class I, class U, class R, int G, int ITEMS, int V, bool PEELED = false>
KERNEL void cross_entropy_gradient(
    R* to, const U* g, const Wide<T>* statistics, const T* x, const I* targets, Long stride, Long mean, Long ignored,
    Long rows, Long columns) {
    typedef Wide<T> A;
    const A count = statistics[rows * 2], divisor = mean && count > 0 ? count : A(1);
    for_each_row<T, G, ITEMS, V, 1, PEELED>(x, x, rows, columns, [&](Long row, const auto& share) {
        if (row >= rows) return;
        const Statistics<A> found = reinterpret_cast<const Statistics<A>*>(statistics)[row];
        const Long target = static_cast<Long>(targets[row]);
        const bool named = target >= 0 && target < columns;
        const A factor = target == ignored ? A(0) : named ? widen(g[row * stride]) / divisor : nan_of<A>();
        share.put_each(to + row * columns, [&](Long column, const auto& values) {
            return packed<R>(values, [&](int v) {
                const A p = exponential_for<T>(values[0][v] - found.top) * found.scale;
                return (p - (column + v == target ? A(1) : A(0))) * factor;
            });
        });
    });
}

// ── normalisation ───────────────────────────────────────────────────────────────────────────────────────────────

struct Nothing { template <class... X> __device__ __forceinline__ void operator()(X&&...) const {} };  // to do

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

template <class T, class W, class R, bool CENTERED, int G, int ITEMS, int V>
KERNEL void norm(
    R* out, const T* x, const W* weight, const W* bias, double eps, Long rows, Long columns) {
    typedef Wide<T> A;
    for_each_row<T, G, ITEMS, V, 1>(x, x, rows, columns, [&](Long row, const auto& share) {
        const Moments<A> m = moments<CENTERED, 0, G>(share, columns, static_cast<A>(eps));
        share.store_each(out + row * columns, [&](int, Long column, const auto& values) {
            A w[V], b[V];
            fetch_or<W, V>(weight, column, A(1), w);
            fetch_or<W, V>(bias, column, A(-0.0), b);  // which leaves a zero its sign
            return packed<R>(values, [&](int v) { return (values[0][v] - m.mean) * m.scale * w[v] + b[v]; });
        }, Nothing());
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

// The gradient of x, unless `to` is null: scale * (d - mean(d) - h * mean(d * h)), with h = (x - mean) * scale and d = g *
// weight. And sums over the rows that a block takes: with WEIGHTS of g * h, a row of `partial` for each block, and then, for
// what is CENTERED and has a bias, of g. `reduce_channels` adds those rows up. Each operand is read once for all. A thread keeps
// the sums of its columns; of rows too long for that, which are a block's alone, they are in `partial`.
//
// And MORE: `added`, unless it is null, is added to the gradient, `half` is that in another type, and the last sums are those of
// its columns, as what reads `half`, or `to` where that is null, would find them.
template <class T, class U, class W, class R, class H, bool CENTERED, bool WEIGHTS, bool MORE, int G, int ITEMS, int V>
KERNEL void norm_gradients(
    R* to, H* half, Wide<T>* partial, const U* g, const T* x, const W* weight, const R* added, double eps, Long rows,
    Long columns) {
    typedef Wide<T> A;
    constexpr int OF_WEIGHTS = WEIGHTS ? CENTERED ? 2 : 1 : 0, KINDS = OF_WEIGHTS + MORE;
    const int lane = static_cast<int>(threadIdx.x % G);
    const Long apart = static_cast<Long>(gridDim.x) * columns;
    A* const sums = partial + static_cast<Long>(blockIdx.x) * columns;
    A own[KINDS > 0 ? KINDS : 1][ITEMS > 0 ? ITEMS : 1][V] = {};
    if constexpr (ITEMS == 0)
        for (int kind = 0; kind < KINDS; ++kind)
            for (Long at = static_cast<Long>(lane) * V; at < columns; at += G * V)
                store<A, V>(sums + kind * apart + at, Pack<A, V>{});
    const auto add = [&](int kind, [[maybe_unused]] int item, [[maybe_unused]] Long column, const A (&terms)[V]) {
        if constexpr (ITEMS > 0)
#pragma unroll
            for (int v = 0; v < V; ++v) own[kind][item][v] += terms[v];
        else
            add_to<A, V>(sums + kind * apart + column, terms);
    };
    for_each_row<T, G, ITEMS, V, 2>(x, g, rows, columns, [&](Long row, const auto& share) {
        [[maybe_unused]] Pack<R, V> more[ITEMS > 0 ? ITEMS : 1];
        if constexpr (MORE && ITEMS > 0)
#pragma unroll
            for (int item = 0; item < ITEMS; ++item)  // before all that waits for other threads
                if (added != nullptr && share.column(item) < share.last())
                    more[item] = load<R, V>(added + row * columns + share.column(item));
        const Moments<A> m = moments<CENTERED, 0, G>(share, columns, static_cast<A>(eps));
        if (to != nullptr) {
            A plain = 0, weighted = 0;
            share.each([&](Long column, const auto& values) {
                A w[V];
                fetch_or<W, V>(weight, column, A(1), w);
#pragma unroll
                for (int v = 0; v < V; ++v) {
                    const A d = values[1][v] * w[v];
                    if constexpr (CENTERED) plain += d;
                    weighted += d * (values[0][v] - m.mean) * m.scale;
                }
            });
            if constexpr (CENTERED) plain = reduce<Sum, G>(plain) / static_cast<A>(columns);
            weighted = reduce<Sum, G>(weighted) / static_cast<A>(columns);
            const auto made = [&]([[maybe_unused]] int item, Long column, const auto& values) {
                A w[V], found[V];
                fetch_or<W, V>(weight, column, A(1), w);
#pragma unroll
                for (int v = 0; v < V; ++v) {
                    const A h = (values[0][v] - m.mean) * m.scale;
                    found[v] = m.scale * (values[1][v] * w[v] - plain - h * weighted);
                }
                if constexpr (MORE)
                    if (added != nullptr) {
                        if constexpr (ITEMS == 0) more[item] = load<R, V>(added + row * columns + column);
#pragma unroll
                        for (int v = 0; v < V; ++v) found[v] += widen(more[item].at[v]);
                    }
                return narrow_all<R>(found);
            };
            share.store_each(to + row * columns, made, [&]([[maybe_unused]] int item, [[maybe_unused]] Long column,
                                                           [[maybe_unused]] const Pack<R, V>& pack) {
                if constexpr (MORE) {
                    A found[V];
                    widen_all(pack, found);
                    if (half != nullptr) {
                        const Pack<H, V> halves = narrow_all<H>(found);
                        store<H, V>(half + row * columns + column, halves);
                        widen_all(halves, found);
                    }
                    add(OF_WEIGHTS, item, column, found);
                }
            });
        }
        if constexpr (WEIGHTS)
            share.each_item([&](int item, Long column, const auto& values) {
                A terms[V];
#pragma unroll
                for (int v = 0; v < V; ++v) terms[v] = values[1][v] * (values[0][v] - m.mean) * m.scale;
                add(0, item, column, terms);
                if constexpr (CENTERED) add(1, item, column, values[1]);
            });
    });
    if constexpr (ITEMS > 0)
#pragma unroll
        for (int kind = 0; kind < KINDS; ++kind) store_sums<A, G, ITEMS, V>(sums + kind * apart, own[kind], columns);
}
