// Statistics over some axes of a contiguous array that are not its last ones, as it lies: those of columns, and those of
// planes, which are each channel's runs of neighbours in every image.
//
// COLUMNS: (batches, rows, columns), over the rows. A block takes 32 packs of columns, a band of so many rows (`piece`), as
// many rows at a time as it has warps. PLANES: (rows, columns, run), over rows and run, which is counted in packs. A block
// takes `piece` packs of one channel. Which elements a thread takes, and in which order they are added, depends on the shape
// only.
#include "elementwise.cuh"

constexpr int CHANNEL_BLOCK = 256;

// One thread's share: V neighbours at a time, from `from` on. `channel` is that of the first of them.
template <bool PLANES, class Index, int V, int BLOCK = CHANNEL_BLOCK> struct Part {
    Index from, end, step, channel, channels, part, parts, run, columns;
    Long start;

    // BACKWARDS, the last part first: of a larger array it is what the cache still has, when all has just been read.
    __device__ __forceinline__ Part(Long rows, Long columns, Long run, Long piece, bool backwards = false)
        : run(static_cast<Index>(run)), columns(static_cast<Index>(columns)) {
        const Index length = static_cast<Index>(PLANES ? rows * run : rows);
        const Index y = static_cast<Index>(backwards ? gridDim.y - 1 - blockIdx.y : blockIdx.y);
        parts = (length + static_cast<Index>(piece) - 1) / static_cast<Index>(piece);
        const Index batch = PLANES ? 0 : y / parts;
        part = y - batch * parts;
        const Index first = part * static_cast<Index>(piece), last = first + static_cast<Index>(piece);
        end = last < length ? last : length;
        if constexpr (PLANES) {
            channel = static_cast<Index>(blockIdx.x);
            channels = this->columns;
            from = first + static_cast<Index>(threadIdx.x);
            step = BLOCK;
            start = static_cast<Long>(channel) * this->run * V;
        } else {
            const Index column = (static_cast<Index>(blockIdx.x) * 32 + static_cast<Index>(threadIdx.x % 32)) * V;
            channel = batch * this->columns + column;
            channels = static_cast<Index>(run) * this->columns;  // `run` is the number of batches here
            from = column < this->columns ? first + static_cast<Index>(threadIdx.x / 32) : end;
            step = BLOCK / 32;
            start = static_cast<Long>(batch) * rows * columns + column;
        }
    }
    __device__ __forceinline__ Long at(Index i) const {
        if constexpr (PLANES) {
            const Index row = i / run;
            return start + (static_cast<Long>(row) * (columns - 1) * run + i) * V;
        } else {
            return start + static_cast<Long>(i) * columns;
        }
    }
    // Whether this thread has what its block has found, after `meet`.
    __device__ __forceinline__ bool tells() const {
        return PLANES ? threadIdx.x == 0 : threadIdx.x < 32 && has_column();
    }
    __device__ __forceinline__ bool has_column() const {
        return (static_cast<Long>(blockIdx.x) * 32 + threadIdx.x % 32) * V < columns;
    }
    // f(places, what `read` gave there) of some packs at once: all are read before the first is used, which may store.
    template <int TOGETHER, class R, class F> __device__ __forceinline__ void each(R read, F f) const {
        Index i = from;
        for (; i + (TOGETHER - 1) * step < end; i += TOGETHER * step) {
            Long places[TOGETHER];
            decltype(read(Long())) found[TOGETHER];
#pragma unroll
            for (int k = 0; k < TOGETHER; ++k) places[k] = at(i + k * step);
#pragma unroll
            for (int k = 0; k < TOGETHER; ++k) found[k] = read(places[k]);
            f(places, found);
        }
#pragma unroll 1
        for (; i < end; i += step) {
            const Long places[1] = {at(i)};
            const decltype(read(Long())) found[1] = {read(places[0])};
            f(places, found);
        }
    }
};

// What the threads of a block have found becomes one thing for each of its channels, joined two and two in one order.
template <bool PLANES, int V, int BLOCK = CHANNEL_BLOCK, class M, class J> __device__ __forceinline__ void meet(M (&own)[V], J join) {
    constexpr int WIDTH = PLANES ? 1 : V;
    __shared__ M shared[BLOCK * WIDTH];
    if constexpr (PLANES) {
#pragma unroll
        for (int v = 1; v < V; ++v) own[0] = join(own[0], own[v]);
    }
#pragma unroll
    for (int v = 0; v < WIDTH; ++v) shared[v * BLOCK + threadIdx.x] = own[v];
#pragma unroll 1
    for (int distance = BLOCK / 2; distance >= (PLANES ? 1 : 32); distance /= 2) {
        __syncthreads();
        if (static_cast<int>(threadIdx.x) < distance) {
#pragma unroll
            for (int v = 0; v < WIDTH; ++v) {
                own[v] = join(own[v], shared[v * BLOCK + threadIdx.x + distance]);
                shared[v * BLOCK + threadIdx.x] = own[v];
            }
        }
    }
}

// ── mean and variance ───────────────────────────────────────────────────────────────────────────────────────────

// So many numbers, their mean, and the sum of the squares of what they deviate from it.
template <class A> struct Found { A count, mean, squares; };

template <class A> __device__ __forceinline__ Found<A> joined(const Found<A>& x, const Found<A>& y) {  // Chan et al. 1979
    const A count = x.count + y.count, share = count > 0 ? y.count / count : A(0), apart = y.mean - x.mean;
    if (!(y.count > 0)) return x;
    return {count, x.mean + apart * share, x.squares + y.squares + apart * apart * x.count * share};
}

// One read. Of some numbers at a time the two-pass formula, in registers, then they join those before. `to` is (parts, 2,
// channels): means, and sums of squares.
template <class T, bool PLANES, class Index, int V>
KERNEL void channel_moments(Wide<T>* to, const T* x, Long rows, Long columns, Long run, Long piece) {
    typedef Wide<T> A;
    constexpr int TOGETHER = V > 4 ? 4 : 8;
    const Part<PLANES, Index, V> part(rows, columns, run, piece);
    A mean[V] = {}, squares[V] = {}, count = 0;
    part.template each<TOGETHER>([&](Long at) { return load<T, V>(x + at); }, [&](const auto&, const auto& packs) {
        constexpr int N = sizeof(packs) / sizeof(packs[0]);
        A values[N][V];
#pragma unroll
        for (int k = 0; k < N; ++k) widen_all(packs[k], values[k]);
        const A all = count + A(N), share = A(N) / all, weight = count * share;
#pragma unroll
        for (int v = 0; v < V; ++v) {
            A here = 0, more = 0;
#pragma unroll
            for (int k = 0; k < N; ++k) here += values[k][v];
            here /= A(N);
#pragma unroll
            for (int k = 0; k < N; ++k) more += (values[k][v] - here) * (values[k][v] - here);
            const A apart = here - mean[v];
            mean[v] += apart * share;
            squares[v] += more + apart * apart * weight;
        }
        count = all;
    });
    Found<A> own[V];
#pragma unroll
    for (int v = 0; v < V; ++v) own[v] = {count, mean[v], squares[v]};
    meet<PLANES, V>(own, [](const Found<A>& x, const Found<A>& y) { return joined(x, y); });
    if (!part.tells()) return;
    A* const line = to + static_cast<Long>(part.part) * 2 * part.channels + part.channel;
#pragma unroll
    for (int v = 0; v < (PLANES ? 1 : V); ++v) line[v] = own[v].mean, line[part.channels + v] = own[v].squares;
}

// Those of all parts, of `length` numbers in pieces, as one: (2, channels).
template <class A>
KERNEL void merge_moments(A* to, const A* partial, Long length, Long piece, Long channels) {
    const Long channel = static_cast<Long>(blockIdx.x) * 32 + threadIdx.x % 32;
    Found<A> own[1] = {};
    if (channel < channels)
        for (Long part = threadIdx.x / 32; part * piece < length; part += 32) {
            const Long rest = length - part * piece;
            const A* const line = partial + part * 2 * channels + channel;
            own[0] = joined(own[0], Found<A>{static_cast<A>(rest < piece ? rest : piece), line[0], line[channels]});
        }
    meet<false, 1, 1024>(own, [](const Found<A>& x, const Found<A>& y) { return joined(x, y); });
    if (threadIdx.x < 32 && channel < channels) to[channel] = own[0].mean, to[channels + channel] = own[0].squares;
}

// What a thread needs to know of its channels: 0 where it has none.
template <bool PLANES, int V, class A, class P, class F> __device__ __forceinline__ void of_channels(const P& part, A (&to)[V], F f) {
    const bool has = PLANES || part.has_column();
#pragma unroll
    for (int v = 0; v < V; ++v) to[v] = PLANES && v > 0 ? to[0] : has ? f(part.channel + v) : A(0);
}

// (x - mean) / sqrt(squares * share + eps) * weight + bias, of which the last two may be null; `share` is 1 / count.
template <class T, bool PLANES, class Index, int V>
KERNEL void channel_norm(
    T* out, const T* x, const Wide<T>* means, const Wide<T>* squares, const T* weight, const T* bias, double share,
    double eps, Long rows, Long columns, Long run, Long piece) {
    typedef Wide<T> A;
    const Part<PLANES, Index, V> part(rows, columns, run, piece, true);
    A mean[V], scale[V], w[V], b[V];
    of_channels<PLANES, V>(part, mean, [&](Index c) { return means[c]; });
    of_channels<PLANES, V>(part, scale, [&](Index c) { return A(1) / sqrt(squares[c] * static_cast<A>(share) + static_cast<A>(eps)); });
    of_channels<PLANES, V>(part, w, [&](Index c) { return weight == nullptr ? A(1) : widen(weight[c]); });
    of_channels<PLANES, V>(part, b, [&](Index c) { return bias == nullptr ? A(-0.0) : widen(bias[c]); });  // a zero keeps its sign
    part.template each<4>([&](Long at) { return load<T, V>(x + at); }, [&](const auto& places, const auto& packs) {
        constexpr int N = sizeof(packs) / sizeof(packs[0]);
#pragma unroll
        for (int k = 0; k < N; ++k) {
            A values[V];
            widen_all(packs[k], values);
#pragma unroll
            for (int v = 0; v < V; ++v) values[v] = (values[v] - mean[v]) * scale[v] * w[v] + b[v];
            store<T, V>(out + places[k], narrow_all<T>(values));
        }
    });
}

// ── gradients ───────────────────────────────────────────────────────────────────────────────────────────────────

template <class A> struct Sums { A plain, weighted; };
template <class T, int V> struct Both { Pack<T, V> g, x; };

// Sums of g, and of g * h, with h = (x - mean) / sqrt(squares * share + eps): (2, parts, channels).
template <class T, bool PLANES, class Index, int V>
KERNEL void channel_sums(
    Wide<T>* to, const T* g, const T* x, const Wide<T>* means, const Wide<T>* squares, double share, double eps, Long rows,
    Long columns, Long run, Long piece) {
    typedef Wide<T> A;
    const Part<PLANES, Index, V> part(rows, columns, run, piece);
    A mean[V], scale[V];
    of_channels<PLANES, V>(part, mean, [&](Index c) { return means[c]; });
    of_channels<PLANES, V>(part, scale, [&](Index c) { return A(1) / sqrt(squares[c] * static_cast<A>(share) + static_cast<A>(eps)); });
    Sums<A> own[V] = {};
    const auto read = [&](Long at) { return Both<T, V>{load<T, V>(g + at), load<T, V>(x + at)}; };
    part.template each<V * sizeof(T) < 16 ? 4 : 2>(read, [&](const auto&, const auto& packs) {
        constexpr int N = sizeof(packs) / sizeof(packs[0]);
#pragma unroll
        for (int k = 0; k < N; ++k) {
            A cotangent[V], values[V];
            widen_all(packs[k].g, cotangent);
            widen_all(packs[k].x, values);
#pragma unroll
            for (int v = 0; v < V; ++v) {
                own[v].plain += cotangent[v];
                own[v].weighted += cotangent[v] * ((values[v] - mean[v]) * scale[v]);
            }
        }
    });
    meet<PLANES, V>(own, [](const Sums<A>& x, const Sums<A>& y) { return Sums<A>{x.plain + y.plain, x.weighted + y.weighted}; });
    if (!part.tells()) return;
    A* const line = to + static_cast<Long>(part.part) * part.channels + part.channel;
#pragma unroll
    for (int v = 0; v < (PLANES ? 1 : V); ++v) {
        line[v] = own[v].plain;
        line[static_cast<Long>(part.parts) * part.channels + v] = own[v].weighted;
    }
}

// scale * weight * (g - plain * share - h * weighted * share) of those sums; the weight may be null.
template <class T, bool PLANES, class Index, int V>
KERNEL void channel_norm_gradient(
    T* to, const T* g, const T* x, const Wide<T>* means, const Wide<T>* squares, const Wide<T>* plain, const Wide<T>* weighted,
    const T* weight, double share, double eps, Long rows, Long columns, Long run, Long piece) {
    typedef Wide<T> A;
    const Part<PLANES, Index, V> part(rows, columns, run, piece, true);
    const A part_of = static_cast<A>(share);
    const auto scale = [&](Index c) { return A(1) / sqrt(squares[c] * part_of + static_cast<A>(eps)); };
    A mean[V], factor[V], shift[V], slope[V];
    of_channels<PLANES, V>(part, mean, [&](Index c) { return means[c]; });
    of_channels<PLANES, V>(part, factor, [&](Index c) { return scale(c) * (weight == nullptr ? A(1) : widen(weight[c])); });
    of_channels<PLANES, V>(part, shift, [&](Index c) { return plain[c] * part_of; });
    of_channels<PLANES, V>(part, slope, [&](Index c) { return weighted[c] * part_of * scale(c); });
    const auto read = [&](Long at) { return Both<T, V>{load<T, V>(g + at), load<T, V>(x + at)}; };
    part.template each<V * sizeof(T) < 16 ? 4 : 2>(read, [&](const auto& places, const auto& packs) {
        constexpr int N = sizeof(packs) / sizeof(packs[0]);
#pragma unroll
        for (int k = 0; k < N; ++k) {
            A cotangent[V], values[V];
            widen_all(packs[k].g, cotangent);
            widen_all(packs[k].x, values);
#pragma unroll
            for (int v = 0; v < V; ++v)
                values[v] = factor[v] * (cotangent[v] - shift[v] - (values[v] - mean[v]) * slope[v]);
            store<T, V>(to + places[k], narrow_all<T>(values));
        }
    });
}

// ── sums, products, extremes ────────────────────────────────────────────────────────────────────────────────────

// What the threads have found for their channels: (parts, channels). At the end comes the division that makes a sum a mean.
template <class R, bool PLANES, int BLOCK, class O, class A, int V, class P>
__device__ __forceinline__ void tell(O* to, const P& part, A (&own)[V], double divisor) {
    meet<PLANES, V, BLOCK>(own, [](A x, A y) { return R::of(x, y); });
    if (!part.tells()) return;
    constexpr int WIDTH = PLANES ? 1 : V;
    Pack<O, WIDTH> found;
#pragma unroll
    for (int v = 0; v < WIDTH; ++v) found.at[v] = narrowed<O>(own[v] / static_cast<A>(divisor));
    store<O, WIDTH>(to + static_cast<Long>(part.part) * part.channels + part.channel, found);
}

template <class R, class T, class O, bool PLANES, int BLOCK, class Index, int V>
KERNEL void reduce_channels(O* to, const T* x, double divisor, Long rows, Long columns, Long run, Long piece) {
    typedef Wide<T> A;
    const Part<PLANES, Index, V, BLOCK> part(rows, columns, run, piece);
    A own[V];
#pragma unroll
    for (int v = 0; v < V; ++v) own[v] = R::template first<A>();
    part.template each<4>([&](Long at) { return load<T, V>(x + at); }, [&](const auto&, const auto& packs) {
        constexpr int N = sizeof(packs) / sizeof(packs[0]);
#pragma unroll
        for (int k = 0; k < N; ++k) {
            A values[V];
            widen_all(packs[k], values);
#pragma unroll
            for (int v = 0; v < V; ++v) own[v] = R::of(own[v], values[v]);
        }
    });
    tell<R, PLANES, BLOCK>(to, part, own, divisor);
}

// What a function of g and x gives, the gradient of an activation, is kept; and the sums of its columns.
template <class F, class T, class O, class Index, int V>
KERNEL void gradient_columns(
    O* to, T* kept, const T* g, const T* x, Long rows, Long columns, Long run, Long piece) {
    typedef Wide<T> A;
    const Part<false, Index, V> part(rows, columns, run, piece);
    A own[V] = {};
    const auto read = [&](Long at) { return Both<T, V>{load<T, V>(g + at), load<T, V>(x + at)}; };
    part.template each<4>(read, [&](const auto& places, const auto& packs) {
        constexpr int N = sizeof(packs) / sizeof(packs[0]);
#pragma unroll
        for (int k = 0; k < N; ++k) {
            A gradient[V], given[V];
            widen_all(packs[k].g, gradient);
            widen_all(packs[k].x, given);
#pragma unroll
            for (int v = 0; v < V; ++v) gradient[v] = F::of(gradient[v], given[v]);
            store<T, V>(kept + places[k], narrow_all<T>(gradient));
#pragma unroll
            for (int v = 0; v < V; ++v) own[v] += widen(narrowed<T>(gradient[v]));
        }
    });
    tell<Sum, false, CHANNEL_BLOCK>(to, part, own, 1);
}
