// Attention of halves that never writes a matrix of scores: tiles of them live in registers, between tensor cores.
//
// A warp has 16 * TILES rows of what it computes, targets or sources, and walks over the other side, N at a time; of a row
// what is known of the softmax so far changes with each tile: the largest score, and the sum of the exponentials. Backward,
// weights are computed again from the scores and these two: for the query by rows of targets, for key and value by rows of
// sources, so that nothing is added up by several blocks. Sums and exponentials are float32 (Dao 2023).
#pragma once
#include "common.cuh"

// Targets, sources and features; heads along three axes; and of each operand the strides of these, of its rows and its
// columns, in elements. Numbers for each target lie `pitch` apart for each head, both of its `sums` one after the other.
struct Heads {
    int targets, sources, features, second, third, pitch;
    int query[5], key[5], value[5], out[5], g[5], by_query[5], by_key[5], by_value[5], mask[5];
};
struct Head { int index, first, second, third; };
__device__ __forceinline__ Long place(const Head& head, const int (&strides)[5]) {
    return Long(head.first) * strides[0] + Long(head.second) * strides[1] + Long(head.third) * strides[2];
}
// The head and the tile of this block: the tiles of a head are neighbours, or with `apart` the heads of a tile.
__device__ __forceinline__ Head head_of_block(const Heads& at, int tiles, bool apart, int& tile) {
    const int block = static_cast<int>(blockIdx.x), heads = static_cast<int>(gridDim.x) / tiles;
    const int index = apart ? block % heads : block / tiles;
    tile = apart ? block / heads : block % tiles;
    return {index, index / at.third / at.second, index / at.third % at.second, index % at.third};
}

// ── memory ──────────────────────────────────────────────────────────────────────────────────────────────────────

extern __shared__ Words<16> shared_memory[];
// Rows of D elements lie 16 bytes further apart than they are long: the same columns of eight are in different banks.
template <int D> constexpr int PITCH = D + 8;

__device__ __forceinline__ unsigned shared_address(const void* x) {
    return static_cast<unsigned>(__cvta_generic_to_shared(x));
}
// 16 bytes on their way into shared memory; zeros where they are not `there`.
__device__ __forceinline__ void fetch_pack(unsigned to, const void* from, bool there) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(to), "l"(from), "r"(there ? 16 : 0) : "memory");
}
__device__ __forceinline__ void fetched() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// All that was fetched has come, to all threads, and what they did before is done.
__device__ __forceinline__ void await() {
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
}
// ROWS rows, of which there are `rows`; zeros behind them, and behind the features.
template <int ROWS, int D, int THREADS, class T>
__device__ __forceinline__ void fetch(T* to, const T* from, int stride, int rows, int features) {
    constexpr int PACKS = D / 8, STEP = THREADS / PACKS;
    const int first = static_cast<int>(threadIdx.x) / PACKS, column = static_cast<int>(threadIdx.x) % PACKS * 8;
    if (THREADS % PACKS != 0 && first >= STEP) return;
    const int end = column < features ? rows : 0;
    const unsigned start = shared_address(to + first * PITCH<D> + column);
    from += first * stride + column;
#pragma unroll
    for (int row = 0; row < ROWS; row += STEP) {
        if (ROWS % STEP != 0 && first + row >= ROWS) break;
        fetch_pack(start + row * PITCH<D> * 2, from, first + row < end);
        from += STEP * stride;
    }
}

// ── products ────────────────────────────────────────────────────────────────────────────────────────────────────

// Four matrices of 8 by 8, to whose rows the 32 lanes point, in turn: a lane gets two neighbours of a row of each.
__device__ __forceinline__ void read_matrices(unsigned (&to)[4], unsigned from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" :
        "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(from));
}
// The same of their transposes.
__device__ __forceinline__ void read_turned(unsigned (&to)[4], unsigned from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];" :
        "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(from));
}
// c += x y, of 16 by 16 and 16 by 8.
__device__ __forceinline__ void multiply(float (&c)[4], const unsigned (&x)[4], unsigned y, unsigned below, Half) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" :
        "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y), "r"(below));
}
__device__ __forceinline__ void multiply(float (&c)[4], const unsigned (&x)[4], unsigned y, unsigned below, Bfloat16) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" :
        "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y), "r"(below));
}

// Rows of a product, 16 * TILES of each warp: a lane has two neighbours of row lane / 4, and two of the one 8 further down,
// of each 8 columns.
template <int TILES, int N> struct Rows {
    float at[TILES][N / 8][4] = {};
    // f(number, row, column) of all.
    template <class F> __device__ __forceinline__ void each(F f) {
        const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
        for (int tile = 0; tile < TILES; ++tile)
#pragma unroll
            for (int eight = 0; eight < N / 8; ++eight)
#pragma unroll
                for (int i = 0; i < 4; ++i)
                    f(at[tile][eight][i], tile, i / 2, 16 * tile + i / 2 * 8 + lane / 4, eight * 8 + lane % 4 * 2 + i % 2);
    }
    // Each row by a factor.
    __device__ __forceinline__ void scale(const float (&factor)[TILES][2]) {
        each([&](float& x, int tile, int half, int, int) { x *= factor[tile][half]; });
    }
};
// The address from which this lane reads of a matrix in shared memory: as the left side, or the turned right one.
template <int D, class T> __device__ __forceinline__ unsigned left_address(const T* x) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    return shared_address(x + lane % 16 * PITCH<D> + lane / 16 * 8);
}
template <int D, class T> __device__ __forceinline__ unsigned right_address(const T* x) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    return shared_address(x + (lane / 16 * 8 + lane % 8) * PITCH<D> + lane / 8 % 2 * 8);
}
// The left side of a product: rows in shared memory, read at each use, or once where that is KEPT.
template <int TILES, int D, bool KEPT> struct Left {
    unsigned from, kept[KEPT ? D / 16 : 1][TILES][4];
    template <class T> __device__ __forceinline__ explicit Left(const T* rows) : from(left_address<D>(rows)) {}
    __device__ __forceinline__ void read(unsigned (&to)[TILES][4], int k) const {
#pragma unroll
        for (int tile = 0; tile < TILES; ++tile) read_matrices(to[tile], from + (tile * 16 * PITCH<D> + k) * 2);
    }
    __device__ __forceinline__ void keep() {
        if constexpr (KEPT)
#pragma unroll
            for (int k = 0; k < D; k += 16) read(kept[k / 16], k);
    }
};
// The products of rows with N rows of another matrix in shared memory.
template <class T, int TILES, int N, int D, bool KEPT>
__device__ __forceinline__ void add_by_rows(Rows<TILES, N>& c, const Left<TILES, D, KEPT>& left, const T* right) {
    const unsigned from = right_address<D>(right);
#pragma unroll
    for (int k = 0; k < D; k += 16) {
        unsigned x[TILES][4];
        if constexpr (KEPT) memcpy(x, left.kept[k / 16], sizeof(x));
        else left.read(x, k);
#pragma unroll
        for (int n = 0; n < N; n += 16) {
            unsigned y[4];
            read_matrices(y, from + (n * PITCH<D> + k) * 2);
#pragma unroll
            for (int tile = 0; tile < TILES; ++tile) {
                multiply(c.at[tile][n / 8], x[tile], y[0], y[1], T());
                multiply(c.at[tile][n / 8 + 1], x[tile], y[2], y[3], T());
            }
        }
    }
}
// c += x y: 16 columns of x from `k` on, as the left side, with as many rows in shared memory, which are D long.
template <class T, int D, int TILES, int COLUMNS>
__device__ __forceinline__ void add_turned(Rows<TILES, COLUMNS>& c, const unsigned (&x)[TILES][4], unsigned from, int k) {
#pragma unroll
    for (int n = 0; n < COLUMNS; n += 16) {
        unsigned y[4];
        read_turned(y, from + (k * PITCH<D> + n) * 2);
#pragma unroll
        for (int tile = 0; tile < TILES; ++tile) {
            multiply(c.at[tile][n / 8], x[tile], y[0], y[1], T());
            multiply(c.at[tile][n / 8 + 1], x[tile], y[2], y[3], T());
        }
    }
}
// c += x y: what lanes have of x with N rows in shared memory.
template <class T, int TILES, int N, int D>
__device__ __forceinline__ void add_by_columns(Rows<TILES, D>& c, const Rows<TILES, N>& x, const T* right) {
    const unsigned from = left_address<D>(right);
#pragma unroll
    for (int k = 0; k < N; k += 16) {
        unsigned narrow[TILES][4];
#pragma unroll
        for (int tile = 0; tile < TILES; ++tile)
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const float (&pair)[4] = x.at[tile][k / 8 + i / 2];
                narrow[tile][i] = both_narrow(pair[i % 2 * 2], pair[i % 2 * 2 + 1], T());
            }
        add_turned<T, D>(c, narrow, from, k);
    }
}
// c += x y: rows of x in shared memory with some columns of N rows there, which are D long.
template <class T, int D, int N, int TILES, int COLUMNS>
__device__ __forceinline__ void add_shared(Rows<TILES, COLUMNS>& c, const T* left, const T* right) {
    const Left<TILES, N, false> rows(left);
    const unsigned from = left_address<D>(right);
#pragma unroll
    for (int k = 0; k < N; k += 16) {
        unsigned x[TILES][4];
        rows.read(x, k);
        add_turned<T, D>(c, x, from, k);
    }
}
// Rows as halves into shared memory, in which they are D long.
template <int D, int TILES, int N, class T> __device__ __forceinline__ void put_rows(T* to, const Rows<TILES, N>& c) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int tile = 0; tile < TILES; ++tile)
#pragma unroll
        for (int i = 0; i < N / 4; ++i) {
            const unsigned both = both_narrow(c.at[tile][i / 2][i % 2 * 2], c.at[tile][i / 2][i % 2 * 2 + 1], T());
            memcpy(to + (tile * 16 + i % 2 * 8 + lane / 4) * PITCH<D> + i / 2 * 8 + lane % 4 * 2, &both, 4);
        }
}
// COLUMNS of some rows to memory, by way of shared memory that only this warp uses, in packs.
template <int D, int TILES, int COLUMNS, class T>
__device__ __forceinline__ void store_rows(
    T* to, int stride, int rows, int features, T* by, const Rows<TILES, COLUMNS>& c) {
    __syncwarp();
    put_rows<D>(by, c);
    __syncwarp();
    for (int i = static_cast<int>(threadIdx.x) % 32; i < TILES * 2 * COLUMNS; i += 32) {
        const int row = i / (COLUMNS / 8), column = i % (COLUMNS / 8) * 8;
        if (row < rows && column < features)
            *reinterpret_cast<Words<16>*>(to + row * stride + column) =
                *reinterpret_cast<const Words<16>*>(by + row * PITCH<D> + column);
    }
}

// ── scores ──────────────────────────────────────────────────────────────────────────────────────────────────────

[[maybe_unused]] constexpr float LOG2_E = 1.44269504088896340736f, LEAST = -2e38f;

// Scores as exponents of 2 but for a factor, which is 1 where a mask of numbers is added: they hide by minus infinity.
template <class M, bool MASKED, bool CAUSAL> struct Scores {
    const M* mask;
    const Heads& at;
    float scale;
    __device__ __forceinline__ float factor() const { return MASKED && sizeof(M) > 1 ? 1.0f : scale; }
    // Whether something may be hidden among targets from `target` on, and sources before `end`.
    __device__ __forceinline__ bool hides(int target, int end) const {
        return MASKED || end > at.sources || (CAUSAL && end > target + 1);
    }
    __device__ __forceinline__ void hide(float& score, int target, int source) const {
        if (source >= at.sources || target >= at.targets || (CAUSAL && source > target)) {
            score = -infinity<float>();
        } else if constexpr (MASKED) {
            const M own = mask[Long(target) * at.mask[3] + Long(source) * at.mask[4]];
            if constexpr (sizeof(M) == 1) score = own.value ? score : -infinity<float>();
            else {
                const float more = widen(own);  // a row of the least numbers hides nothing: infinity does
                score = score * scale + (more < LEAST && more > -infinity<float>() ? LEAST : more) * LOG2_E;
            }
        }
    }
};
template <class F> __device__ __forceinline__ float of_row(float x, F f) {  // the four lanes that have it
    x = f(x, __shfl_xor_sync(0xFFFFFFFFu, x, 1));
    return f(x, __shfl_xor_sync(0xFFFFFFFFu, x, 2));
}

// ── the result ──────────────────────────────────────────────────────────────────────────────────────────────────

// `sums` gets for each target its largest score, as an exponent of 2: infinity where it sees nothing, and up to a multiple of
// the rows of a block, so that all weights are 0 there; and `pitch` later one by the sum of its exponentials. As one number,
// the logarithm of all, a large score would leave no digits for the sum.
template <class T, class M, bool MASKED, bool CAUSAL, int D, int WARPS, int TILES, int N>
KERNEL void attention(
    T* out, float* sums, const T* query, const T* key, const T* value, const M* mask, const Heads at, double scale) {
    constexpr int ROWS = WARPS * TILES * 16, THREADS = WARPS * 32;
    T* const queries = reinterpret_cast<T*>(shared_memory);
    T* const keys = queries + ROWS * PITCH<D>;
    T* const values = keys + N * PITCH<D>;
    const int tiles = (at.targets + ROWS - 1) / ROWS, warp = static_cast<int>(threadIdx.x) / 32;
    int tile;
    const Head head = head_of_block(at, tiles, CAUSAL, tile);
    if (CAUSAL) tile = tiles - 1 - tile;  // those that see most come first
    const int from = tile * ROWS, own = from + warp * TILES * 16;
    query += place(head, at.query) + Long(from) * at.query[3];
    key += place(head, at.key);
    value += place(head, at.value);
    const Scores<M, MASKED, CAUSAL> scores{mask + place(head, at.mask), at, static_cast<float>(scale) * LOG2_E};
    const int end = CAUSAL && from + ROWS < at.sources ? from + ROWS : at.sources;

    fetch<ROWS, D, THREADS>(queries, query, at.query[3], at.targets - from, at.features);
    fetch<N, D, THREADS>(keys, key, at.key[3], end, at.features);
    fetched();
    Left<TILES, D, (D <= 64 && N <= 64)> left(queries + warp * TILES * 16 * PITCH<D>);
    Rows<TILES, D> c;
    float top[TILES][2], total[TILES][2] = {};
#pragma unroll
    for (int i = 0; i < TILES * 2; ++i) top[i / 2][i % 2] = -infinity<float>();
    for (int start = 0; start < end; start += N) {
        await();
        if (start == 0) left.keep();
        fetch<N, D, THREADS>(values, value + Long(start) * at.value[3], at.value[3], at.sources - start, at.features);
        fetched();
        Rows<TILES, N> s;
        const bool sees = !CAUSAL || start < own + TILES * 16;
        if (sees || D > 64) add_by_rows(s, left, keys);  // a branch takes registers, of which there are few then
        await();
        if (start + N < end) {
            fetch<N, D, THREADS>(keys, key + Long(start + N) * at.key[3], at.key[3], at.sources - start - N, at.features);
            fetched();
        }
        if (!sees) continue;
        if (scores.hides(own, start + N))
            s.each([&](float& x, int, int, int row, int column) { scores.hide(x, own + row, start + column); });
        float fade[TILES][2], shift[TILES][2];
#pragma unroll
        for (int t = 0; t < TILES; ++t)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                float most = top[t][half];
#pragma unroll
                for (int i = 0; i < N / 4; ++i) most = larger(most, s.at[t][i / 2][half * 2 + i % 2]);
                most = of_row(most, [](float x, float y) { return larger(x, y); });
                shift[t][half] = most == -infinity<float>() ? 0.0f : most * scores.factor();
                fade[t][half] = flushed_power_of_two(top[t][half] * scores.factor() - shift[t][half]);
                top[t][half] = most;
                total[t][half] *= fade[t][half];
            }
        s.each([&](float& x, int t, int half, int, int) {
            x = flushed_power_of_two(x * scores.factor() - shift[t][half]);
            total[t][half] += x;
        });
        bool fades = false;  // later, most of the time, nothing does
#pragma unroll
        for (int i = 0; i < TILES * 2; ++i) fades |= fade[i / 2][i % 2] != 1.0f;
        if (__any_sync(0xFFFFFFFFu, fades)) c.scale(fade);
        add_by_columns(c, s, values);
    }
#pragma unroll
    for (int t = 0; t < TILES; ++t)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const float sum = of_row(total[t][half], [](float x, float y) { return x + y; });
            const int row = own + t * 16 + half * 8 + static_cast<int>(threadIdx.x) % 32 / 4;
            const bool blind = (MASKED && sum == 0.0f) || row >= at.targets;
            total[t][half] = blind ? 0.0f : 1.0f / sum;
            if (threadIdx.x % 4 == 0) {
                float* const to = sums + Long(head.index) * 2 * at.pitch + row;
                *to = blind ? infinity<float>() : top[t][half] * scores.factor();
                to[at.pitch] = total[t][half];
            }
        }
    c.scale(total);
    store_rows<D>(out + place(head, at.out) + Long(own) * at.out[3], at.out[3], at.targets - own, at.features,
               queries + warp * TILES * 16 * PITCH<D>, c);
}

// ── the result of few targets ───────────────────────────────────────────────────────────────────────────────────

// A block has one target, and `chunk` sources: D / 8 lanes read one of them, 8 features each. `parts` gets for each block
// the weighted sum of values, D numbers; then the largest score, and the sum of exponentials, both to base 2.
template <class T, class M, bool MASKED, bool CAUSAL, int D>
KERNEL void attention_of_few(
    float* parts, const T* query, const T* key, const T* value, const M* mask, const Heads at, double scale, Long chunk, Long count) {
    constexpr int LANES = D / 8, GROUPS = 128 / LANES;
    const int row = static_cast<int>(blockIdx.x / count), index = row / at.targets, target = row % at.targets;
    const Head head{index, index / at.third / at.second, index / at.third % at.second, index % at.third};
    const int start = static_cast<int>(blockIdx.x % count * chunk), end = static_cast<int>(start + chunk < at.sources ? start + chunk : at.sources);
    const int group = static_cast<int>(threadIdx.x) / LANES, column = static_cast<int>(threadIdx.x) % LANES * 8;
    const bool there = column < at.features;
    const Scores<M, MASKED, CAUSAL> scores{mask + place(head, at.mask), at, static_cast<float>(scale) * LOG2_E};
    query += place(head, at.query) + Long(target) * at.query[3] + column;
    key += place(head, at.key) + column;
    value += place(head, at.value) + column;
    Pack<T, 8> own{};
    if (there) own = load<T, 8>(query);
    float top = -infinity<float>(), total = 0.0f, sum[8] = {};
    for (int first = start; first < end; first += GROUPS) {
        const int source = first + group;
        const bool sees = source < end && !(CAUSAL && source > target);
        Pack<T, 8> k{}, v{};
        if (there && sees) {
            k = load<T, 8>(key + Long(source) * at.key[3]);
            v = load<T, 8>(value + Long(source) * at.value[3]);
        }
        float score = 0.0f;
#pragma unroll
        for (int i = 0; i < 8; ++i) score += widen(own.at[i]) * widen(k.at[i]);
        score = reduce<Sum, LANES>(score);
        if (sees) scores.hide(score, target, source); else score = -infinity<float>();
        score *= scores.factor();
        const float most = larger(top, score), shift = most == -infinity<float>() ? 0.0f : most;
        const float fade = flushed_power_of_two(top - shift), weight = flushed_power_of_two(score - shift);
        top = most;
        total = total * fade + weight;
#pragma unroll
        for (int i = 0; i < 8; ++i) sum[i] = sum[i] * fade + weight * widen(v.at[i]);
    }
    const float most = reduce<Max, 128>(top), shift = most == -infinity<float>() ? 0.0f : most;
    const float fade = flushed_power_of_two(top - shift), all = reduce<Sum, 128>(column ? 0.0f : total * fade);
    __shared__ float found[GROUPS][D];
#pragma unroll
    for (int i = 0; i < 8; ++i) found[group][column + i] = sum[i] * fade;
    __syncthreads();
    parts += Long(blockIdx.x) * (D + 2);
    for (int i = static_cast<int>(threadIdx.x); i < D; i += 128) {
        float x = 0.0f;
        for (int each = 0; each < GROUPS; ++each) x += found[each][i];
        parts[i] = x;
    }
    if (threadIdx.x == 0) {
        parts[D] = most;
        parts[D + 1] = all;
    }
}

// What the blocks of a target have found, added up: a block for each target. `sums` as of `attention`.
template <class T, bool MASKED, int D>
KERNEL void attention_of_parts(T* out, float* sums, const float* parts, const Heads at, Long count) {
    const int row = static_cast<int>(blockIdx.x), index = row / at.targets, target = row % at.targets;
    const Head head{index, index / at.third / at.second, index / at.third % at.second, index % at.third};
    parts += Long(row) * count * (D + 2);
    float most = -infinity<float>(), total = 0.0f;
    for (int i = 0; i < count; ++i) most = larger(most, parts[i * (D + 2) + D]);
    const float shift = most == -infinity<float>() ? 0.0f : most;
    for (int i = 0; i < count; ++i) total += parts[i * (D + 2) + D + 1] * flushed_power_of_two(parts[i * (D + 2) + D] - shift);
    const bool blind = MASKED && total == 0.0f;
    for (int i = static_cast<int>(threadIdx.x); i < at.features; i += 128) {
        float x = 0.0f;
        for (int each = 0; each < count; ++each)
            x += parts[each * (D + 2) + i] * flushed_power_of_two(parts[each * (D + 2) + D] - shift);
        out[place(head, at.out) + Long(target) * at.out[3] + i * at.out[4]] = narrowed<T>(x * (blind ? 0.0f : 1.0f / total));
    }
    sums += Long(index) * 2 * at.pitch;
    if (threadIdx.x == 0) {
        sums[target] = blind ? infinity<float>() : most;
        sums[at.pitch + target] = blind ? 0.0f : 1.0f / total;
    }
    if (target == 0)
        for (int i = at.targets + static_cast<int>(threadIdx.x); i < at.pitch; i += 128) {
            sums[i] = infinity<float>();
            sums[at.pitch + i] = 0.0f;
        }
}

// ── gradients ───────────────────────────────────────────────────────────────────────────────────────────────────

// By the query. On the way `dots` gets for each target the sum of g * out, as `sums` is laid out.
template <class T, class M, bool MASKED, bool CAUSAL, int D, int WARPS, int TILES, int N>
KERNEL void attention_query_gradient(
    T* by_query, float* dots, const float* sums, const T* g, const T* out, const T* query, const T* key, const T* value,
    const M* mask, const Heads at, double scale) {
    constexpr int ROWS = WARPS * TILES * 16, THREADS = WARPS * 32;
    T* const queries = reinterpret_cast<T*>(shared_memory);
    T* const slopes = queries + ROWS * PITCH<D>;
    T* const keys = slopes + ROWS * PITCH<D>;  // twice
    T* const values = keys + 2 * N * PITCH<D>;
    const int tiles = (at.targets + ROWS - 1) / ROWS, warp = static_cast<int>(threadIdx.x) / 32;
    int tile;
    const Head head = head_of_block(at, tiles, CAUSAL, tile);
    if (CAUSAL) tile = tiles - 1 - tile;
    const int from = tile * ROWS, own = from + warp * TILES * 16;
    key += place(head, at.key);
    value += place(head, at.value);
    g += place(head, at.g);
    out += place(head, at.out);
    const Scores<M, MASKED, CAUSAL> scores{mask + place(head, at.mask), at, static_cast<float>(scale) * LOG2_E};
    const int end = CAUSAL && from + ROWS < at.sources ? from + ROWS : at.sources;

    fetch<ROWS, D, THREADS>(queries, query + place(head, at.query) + Long(from) * at.query[3], at.query[3], at.targets - from, at.features);
    fetch<ROWS, D, THREADS>(slopes, g + Long(from) * at.g[3], at.g[3], at.targets - from, at.features);
    fetch<N, D, THREADS>(keys, key, at.key[3], end, at.features);
    fetch<N, D, THREADS>(values, value, at.value[3], end, at.features);
    fetched();
    float sum[TILES][2], dot[TILES][2];
#pragma unroll
    for (int t = 0; t < TILES; ++t)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int row = own + t * 16 + half * 8 + static_cast<int>(threadIdx.x) % 32 / 4;
            float own_dot = 0;
            if (row < at.targets)
                for (int column = static_cast<int>(threadIdx.x) % 4 * 8; column < at.features; column += 32) {
                    float x[8], y[8];
                    widen_all(load<T, 8>(g + Long(row) * at.g[3] + column), x);
                    widen_all(load<T, 8>(out + Long(row) * at.out[3] + column), y);
#pragma unroll
                    for (int i = 0; i < 8; ++i) own_dot += x[i] * y[i];
                }
            dot[t][half] = of_row(own_dot, [](float x, float y) { return x + y; });
            sum[t][half] = sums[Long(head.index) * 2 * at.pitch + row];
            if (threadIdx.x % 4 == 0) dots[Long(head.index) * at.pitch + row] = dot[t][half];
        }
    const Left<TILES, D, false> left(queries + warp * TILES * 16 * PITCH<D>), slope(slopes + warp * TILES * 16 * PITCH<D>);
    Rows<TILES, D> c;
    int stage = 0;
    for (int start = 0; start < end; start += N, stage = 1 - stage) {
        await();
        if (start + N < end) {
            const int next = start + N;
            fetch<N, D, THREADS>(keys + (1 - stage) * N * PITCH<D>, key + Long(next) * at.key[3], at.key[3], at.sources - next, at.features);
            fetch<N, D, THREADS>(values + (1 - stage) * N * PITCH<D>, value + Long(next) * at.value[3], at.value[3], at.sources - next, at.features);
            fetched();
        }
        if (CAUSAL && start >= own + TILES * 16) continue;
        Rows<TILES, N> s, moved;
        add_by_rows(s, left, keys + stage * N * PITCH<D>);
        add_by_rows(moved, slope, values + stage * N * PITCH<D>);
        if (scores.hides(own, start + N))
            s.each([&](float& x, int, int, int row, int column) { scores.hide(x, own + row, start + column); });
#pragma unroll
        for (int t = 0; t < TILES; ++t)
#pragma unroll
            for (int i = 0; i < N / 2; ++i) {
                const int half = i % 4 / 2;
                float& x = s.at[t][i / 4][i % 4];
                x = flushed_power_of_two(x * scores.factor() - sum[t][half]) * (moved.at[t][i / 4][i % 4] - dot[t][half]);
            }
        add_by_columns(c, s, keys + stage * N * PITCH<D>);
    }
#pragma unroll
    for (int t = 0; t < TILES; ++t)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int row = own + t * 16 + half * 8 + static_cast<int>(threadIdx.x) % 32 / 4;
            sum[t][half] = sums[(Long(head.index) * 2 + 1) * at.pitch + row] * static_cast<float>(scale);
        }
    c.scale(sum);
    store_rows<D>(by_query + place(head, at.by_query) + Long(own) * at.by_query[3], at.by_query[3], at.targets - own, at.features,
               queries + warp * TILES * 16 * PITCH<D>, c);
}

// By key and value: rows are sources, columns targets. SPLIT warps share their rows: each computes the weights of some of the
// columns, which they exchange, and adds up some of the features.
template <class T, class M, bool MASKED, bool CAUSAL, int D, int WARPS, int TILES, int N, int SPLIT = 1>
KERNEL void attention_source_gradients(
    T* by_key, T* by_value, const float* sums, const float* dots, const T* g, const T* query, const T* key, const T* value,
    const M* mask, const Heads at, double scale) {
    constexpr int ROWS = WARPS * TILES * 16 / SPLIT, THREADS = WARPS * 32, COLUMNS = N / SPLIT, FEATURES = D / SPLIT;
    T* const keys = reinterpret_cast<T*>(shared_memory);
    T* const values = keys + ROWS * PITCH<D>;
    T* const queries = values + ROWS * PITCH<D>;  // twice, as what follows
    T* const slopes = queries + 2 * N * PITCH<D>;
    float* const facts = reinterpret_cast<float*>(slopes + 2 * N * PITCH<D>);  // of N targets: both sums, and the dots
    T* const exchanged = reinterpret_cast<T*>(facts + 6 * N);  // weights, and what they move by
    const int tiles = (at.sources + ROWS - 1) / ROWS, warp = static_cast<int>(threadIdx.x) / 32;
    const int first = warp / SPLIT * TILES * 16, part = warp % SPLIT;  // row, and which of the warps that share it
    int tile;
    const Head head = head_of_block(at, tiles, CAUSAL, tile);
    const int from = tile * ROWS, own = from + first;
    query += place(head, at.query);
    g += place(head, at.g);
    sums += Long(head.index) * 2 * at.pitch;
    dots += Long(head.index) * at.pitch;
    const Scores<M, MASKED, CAUSAL> scores{mask + place(head, at.mask), at, static_cast<float>(scale) * LOG2_E};
    const auto fetch_targets = [&](int stage, int start) {
        fetch<N, D, THREADS>(queries + stage * N * PITCH<D>, query + Long(start) * at.query[3], at.query[3], at.targets - start, at.features);
        fetch<N, D, THREADS>(slopes + stage * N * PITCH<D>, g + Long(start) * at.g[3], at.g[3], at.targets - start, at.features);
        const int i = static_cast<int>(threadIdx.x);
        if (i < 3 * N / 4) {
            const float* const known = i < N / 4 ? sums : i < N / 2 ? sums + at.pitch : dots;
            fetch_pack(shared_address(facts + stage * 3 * N + i * 4), known + start + i * 4 % N, true);
        }
        fetched();
    };
    fetch<ROWS, D, THREADS>(keys, key + place(head, at.key) + Long(from) * at.key[3], at.key[3], at.sources - from, at.features);
    fetch<ROWS, D, THREADS>(values, value + place(head, at.value) + Long(from) * at.value[3], at.value[3], at.sources - from, at.features);
    const int begin = CAUSAL ? from / N * N : 0;  // targets before that see none of these
    if (begin < at.targets) fetch_targets(0, begin);
    else fetched();
    const Left<TILES, D, false> left(keys + first * PITCH<D>), right(values + first * PITCH<D>);
    Rows<TILES, FEATURES> of_key, of_value;
    int stage = 0;
    for (int start = begin; start < at.targets; start += N, stage = 1 - stage) {
        await();
        if (start + N < at.targets) fetch_targets(1 - stage, start + N);
        const bool sees = !CAUSAL || start + N > own;
        if (SPLIT == 1 && !sees) continue;
        const T* const query_tile = queries + stage * N * PITCH<D>;
        const T* const slope_tile = slopes + stage * N * PITCH<D>;
        T* const weights = exchanged + first * PITCH<N>;
        T* const moves = weights + ROWS * PITCH<N>;
        if (sees) {
            Rows<TILES, COLUMNS> s, moved;
            add_by_rows(s, left, query_tile + part * COLUMNS * PITCH<D>);
            add_by_rows(moved, right, slope_tile + part * COLUMNS * PITCH<D>);
            const int target = start + part * COLUMNS;
            if (scores.hides(target, own + TILES * 16))
                s.each([&](float& x, int, int, int row, int column) { scores.hide(x, target + column, own + row); });
            const float* const sum = facts + stage * 3 * N + part * COLUMNS;
            s.each([&](float& x, int, int, int, int column) {
                x = flushed_power_of_two(x * scores.factor() - sum[column]) * sum[N + column];
            });
            if constexpr (SPLIT == 1) add_by_columns(of_value, s, slope_tile);
            else put_rows<N>(weights + part * COLUMNS, s);
#pragma unroll
            for (int t = 0; t < TILES; ++t)
#pragma unroll
                for (int i = 0; i < COLUMNS / 2; ++i)
                    s.at[t][i / 4][i % 4] *= moved.at[t][i / 4][i % 4] - sum[2 * N + i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2];
            if constexpr (SPLIT == 1) add_by_columns(of_key, s, query_tile);
            else put_rows<N>(moves + part * COLUMNS, s);
        }
        if constexpr (SPLIT > 1) {
            __syncthreads();
            if (sees) {
                add_shared<T, D, N>(of_value, weights, slope_tile + part * FEATURES);
                add_shared<T, D, N>(of_key, moves, query_tile + part * FEATURES);
            }
        }
    }
    of_key.each([&](float& x, int, int, int, int) { x *= static_cast<float>(scale); });
    await();
    const int column = part * FEATURES, shared = first * PITCH<D> + column;
    store_rows<D>(by_key + place(head, at.by_key) + Long(own) * at.by_key[3] + column, at.by_key[3], at.sources - own,
                  at.features - column, keys + shared, of_key);
    store_rows<D>(by_value + place(head, at.by_value) + Long(own) * at.by_value[3] + column, at.by_value[3], at.sources - own,
                  at.features - column, values + shared, of_value);
}
