/* What translated PTX needs of C: registers' types, arithmetic that C lacks, and the threads of a grid, one at a time.
 *
 * A kernel without barriers runs each thread from its start to its end. One with barriers is a state machine: a thread
 * returns where it waits, and is called again, to go on there, when those that it waits for have come as far. */
#include <fenv.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint8_t u8; typedef uint16_t u16; typedef uint32_t u32; typedef uint64_t u64; typedef unsigned __int128 u128;
typedef int8_t s8; typedef int16_t s16; typedef int32_t s32; typedef int64_t s64; typedef __int128 s128;
typedef float f32; typedef double f64;

/* ── failing: a kernel returns a sentence ─────────────────────────────────────────────────────────────────────── */

static jmp_buf failed;
static char sentence[512];
static void fail(const char* format, ...) {
    va_list values;
    va_start(values, format);
    vsnprintf(sentence, sizeof sentence, format, values);
    va_end(values);
    longjmp(failed, 1);
}

/* ── memory ───────────────────────────────────────────────────────────────────────────────────────────────────── */

#define READ(type, address) ({ type value_; memcpy(&value_, (void*)(address), sizeof value_); value_; })
#define WRITE(type, address, x) ({ type value_ = (x); memcpy((void*)(address), &value_, sizeof value_); })
#define ALIGNED(address, bytes) \
    if ((address) % (bytes)) fail("misaligned address: %#llx is no multiple of %d", (unsigned long long)(address), bytes)

/* ── counting, with -DCOUNTED ─────────────────────────────────────────────────────────────────────────────────── */

#ifdef COUNTED
u64 counted[3]; /* instructions, bytes read from the device's memory, bytes written to it; until somebody sets them to 0 */
#define COUNT(what, n) counted[what] += n;
#else
#define COUNT(what, n)
#endif
enum { INSTRUCTIONS, BYTES_READ, BYTES_WRITTEN };

/* ── floating point: registers hold bits ──────────────────────────────────────────────────────────────────────── */

static inline f32 decode_f32(u32 bits) { f32 x; memcpy(&x, &bits, 4); return x; }
static inline u32 encode_f32(f32 x) { u32 bits; memcpy(&bits, &x, 4); return bits; }
static inline f64 decode_f64(u64 bits) { f64 x; memcpy(&x, &bits, 8); return x; }
static inline u64 encode_f64(f64 x) { u64 bits; memcpy(&bits, &x, 8); return bits; }
static inline f64 decode_f16(u16 bits) { _Float16 x; memcpy(&x, &bits, 2); return x; }
static inline u16 encode_f16(f64 x) {
    const _Float16 rounded = (_Float16)x;
    u16 bits;
    memcpy(&bits, &rounded, 2);
    return x != x ? 0x7FFF : bits;
}
static inline f64 decode_bf16(u16 bits) { return decode_f32((u32)bits << 16); }
static inline u16 encode_bf16(f64 x) {
    if (x != x) return 0x7FFF;
    f32 rounded = (f32)x;
    u32 bits = encode_f32(rounded);
    if (rounded != x) { /* to odd, so that rounding twice is rounding once */
        if (fabs((f64)rounded) > fabs(x)) --bits;
        bits |= 1;
    }
    return (u16)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}
static inline f32 flushed(f32 x) { return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x; } /* .ftz */
static inline f64 saturated(f64 x) { return x > 0 ? fmin(x, 1) : 0; } /* .sat; NaN is 0 */
static inline f64 upper_half(f64 x) { return decode_f64(encode_f64(x) & 0xFFFFFFFF00000000); } /* .approx.ftz.f64 */

/* A NaN counts only where both are; −0 is less than 0. The others hand on a NaN. */
static inline f64 lesser(f64 x, f64 y) { return x != x ? y : y != y ? x : x == y ? (signbit(x) ? x : y) : x < y ? x : y; }
static inline f64 greater(f64 x, f64 y) { return -lesser(-x, -y); }
static inline f64 lesser_or_nan(f64 x, f64 y) { return x != x || y != y ? NAN : lesser(x, y); }
static inline f64 greater_or_nan(f64 x, f64 y) { return x != x || y != y ? NAN : greater(x, y); }

/* To an integer's nearest: NaN is 0, or of 64 bits the topmost bit. */
#define CLAMP(type, least, beyond, nan) \
    static inline type clamp_##type(f64 x) { \
        return x != x ? nan : x <= (f64)(least) ? (type)(least) : x >= beyond ? (type)~(type)(least) : (type)x; \
    }
CLAMP(s8, INT8_MIN, 0x1p7, 0) CLAMP(u8, 0, 0x1p8, 0) CLAMP(s16, INT16_MIN, 0x1p15, 0) CLAMP(u16, 0, 0x1p16, 0)
CLAMP(s32, INT32_MIN, 0x1p31, 0) CLAMP(u32, 0, 0x1p32, 0)
CLAMP(s64, INT64_MIN, 0x1p63, INT64_MIN) CLAMP(u64, 0, 0x1p64, (u64)1 << 63)

/* ── integers ─────────────────────────────────────────────────────────────────────────────────────────────────── */

static inline u64 ones(u32 n) { return n >= 64 ? ~(u64)0 : ((u64)1 << n) - 1; }
/* `length` bits of x in place of those of y that begin at `start`. */
static inline u64 insert(u64 x, u64 y, u32 start, u32 length) {
    start &= 255, length &= 255;
    const u64 mask = start >= 64 ? 0 : ones(length) << start;
    return (y & ~mask) | ((start >= 64 ? 0 : x << start) & mask);
}
/* `length` bits of x that begin at `start`; beyond its width is its sign where it has one. */
static inline u64 extract(s64 x, u32 start, u32 length, u32 width, int is_signed) {
    start &= 255, length &= 255;
    if (!length) return 0;
    const u32 top = start + length < width ? start + length - 1 : width - 1;
    const u64 found = start >= width ? 0 : (u64)x >> start & ones(length < width - start ? length : width - start);
    const u32 kept = start >= width ? 0 : top - start + 1;
    return is_signed && x >> top & 1 ? found | ~ones(kept) : found;
}
static inline u64 reversed(u64 x, int width) {
    u64 result = 0;
    for (int i = 0; i < width; ++i) result |= (x >> i & 1) << (width - 1 - i);
    return result;
}
/* The place of the highest bit that differs from the sign's; of none, all ones. */
static inline u32 highest(s64 x) { return (x = x < 0 ? ~x : x) ? 63 - __builtin_clzll(x) : ~0u; }
static inline u32 leading_zeros(u64 x, int width) { return x ? __builtin_clzll(x) - (64 - width) : width; }
static inline u32 permute(u32 x, u32 y, u32 selector) {
    const u64 bytes = (u64)y << 32 | x;
    u32 result = 0;
    for (int i = 0; i < 4; ++i) {
        const u32 which = selector >> 4 * i & 15;
        const u8 byte = bytes >> 8 * (which & 7);
        result |= (u32)(which & 8 ? (byte & 128 ? 255 : 0) : byte) << 8 * i;
    }
    return result;
}

/* ── threads ──────────────────────────────────────────────────────────────────────────────────────────────────── */

enum { WARP = 32, ENDED = -1 };
typedef enum { RUNS, WAITS_FOR_BLOCK, WAITS_FOR_LANES, WAITS_FOR_WARP } State; /* the last orders memory, too */
typedef struct {
    u32 tid[3], ntid[3], ctaid[3], nctaid[3], number, lane, dynamic;
    char* shared;
} Position;
typedef struct {
    Position position;
    int next; /* where it goes on, or ENDED */
    State state;
    u32 lanes;   /* that it waits for */
    u64 given;   /* to the other lanes */
    u64* taken;  /* what each lane gave */
    u32 arrived, alive;
} Thread;
typedef void (*Whole)(const Position*, void** parameters);
typedef State (*Step)(Thread*, void** parameters);

static u64 volume(const u32* sizes) { return (u64)sizes[0] * sizes[1] * sizes[2]; }
static void place(u32* index, u32 number, const u32* sizes) {
    index[0] = number % sizes[0], index[1] = number / sizes[0] % sizes[1], index[2] = number / sizes[0] / sizes[1];
}

/* In which order turns are taken, of blocks, warps and lanes: as EMULATED_ORDER says, by number without it, backwards if it
 * is 1, else shuffled by it. */
static u64 seed, salt;
static inline u64 mixed(u64 x) { return (x = (x ^ x >> 33) * 0xFF51AFD7ED558CCD) ^ x >> 29; }
static u64 common_divisor(u64 a, u64 b) { return b ? common_divisor(b, a % b) : a; }
typedef struct { u64 count, next, step; } Order;
static Order in_order(u64 count) {
    if (!seed || count < 2) return (Order){count, 0, 1};
    if (seed == 1) return (Order){count, count - 1, count - 1};
    const u64 drawn = mixed(seed << 32 ^ ++salt);
    Order it = {count, drawn % count, (drawn >> 32) % count};
    while (common_divisor(it.step, count) != 1) ++it.step;
    return it;
}
static inline u64 turn(Order* it) {
    const u64 now = it->next;
    it->next = now + it->step < it->count ? now + it->step : now + it->step - it->count;
    return now;
}

enum { READS, WRITES, ATOMIC };
#ifdef FIND_RACES
#include "races.h"
#define RACES(call) call;
#else
#define RACES(call)
#endif

static Position begin(const char* name, const unsigned* sizes, size_t dynamic, char* shared) {
    Position at = {.dynamic = (u32)dynamic, .shared = shared};
    memcpy(at.nctaid, sizes, sizeof at.nctaid);
    memcpy(at.ntid, sizes + 3, sizeof at.ntid);
    const char* setting = getenv("EMULATED_ORDER");
    seed = setting ? strtoull(setting, NULL, 10) : 0, salt = 0;
    RACES(begin_grid(name, volume(at.nctaid), volume(at.ntid), shared))
    return at;
}
static void set_block(Position* at, u32 block, size_t shared) {
    place(at->ctaid, block, at->nctaid);
    RACES(begin_block(block, shared))
}
static void set_thread(Position* at, u32 thread) {
    at->number = thread, at->lane = thread % WARP;
    place(at->tid, thread, at->ntid);
}

static const char* run_apart(Whole run, const char* name, const unsigned* sizes, size_t dynamic, char* shared,
                             void** parameters) {
    Position at = begin(name, sizes, dynamic, shared);
    if (setjmp(failed)) return sentence;
    Order blocks = in_order(volume(at.nctaid));
    for (u64 i = 0; i < blocks.count; ++i) {
        set_block(&at, turn(&blocks), 0);
        Order threads = in_order(volume(at.ntid));
        for (u64 j = 0; j < threads.count; ++j) {
            set_thread(&at, turn(&threads));
            RACES(begin_turn(at.number))
            run(&at, parameters);
        }
    }
    return NULL;
}

/* Bytes on their way into shared memory, of each thread: until it waits for them, what lies there is no number. */
typedef struct { u64 to, from; u32 size, given, group; } Fetch;
enum { MOST_FETCHES = 256 };
static struct { Fetch waiting[MOST_FETCHES]; u32 count, groups; } fetches[1024];
static void fetch(u32 number, u64 to, u64 from, u32 size, u32 given) {
    ALIGNED(to, size);
    if (given) ALIGNED(from, size);
    if (fetches[number].count == MOST_FETCHES) fail("more than %d copies are on their way", MOST_FETCHES);
    RACES(touch(READS, from, given); touch(WRITES, to, size))
    memset((void*)to, 0xFF, size);
    fetches[number].waiting[fetches[number].count++] = (Fetch){to, from, size, given, fetches[number].groups};
    COUNT(BYTES_READ, given)
}
static void fetches_committed(u32 number) { ++fetches[number].groups; }
static void fetches_awaited(u32 number, u32 left) { /* but for the last groups, so many */
    u32 kept = 0;
    for (u32 i = 0; i < fetches[number].count; ++i) {
        const Fetch it = fetches[number].waiting[i];
        if (it.group + left >= fetches[number].groups) {
            fetches[number].waiting[kept++] = it;
        } else {
            RACES(touch(WRITES, it.to, it.size))
            memcpy((void*)it.to, (void*)it.from, it.given);
            memset((void*)(it.to + it.given), 0, it.size - it.given);
        }
    }
    fetches[number].count = kept;
}

typedef struct { Step step; char* memory; size_t size; u32 threads; u64 (*exchanged)[WARP]; void** parameters; } Block;
static inline Thread* thread(const Block* block, u32 number) { return (Thread*)(block->memory + number * block->size); }

static u32 lanes_that(const Block* block, u32 first, u32 last, int wait) {
    u32 lanes = 0;
    for (u32 i = first; i < last; ++i) {
        const Thread* each = thread(block, i);
        if (each->next != ENDED && (!wait || each->state >= WAITS_FOR_LANES)) lanes |= 1u << (i - first);
    }
    return lanes;
}
static void go_on(const Block* block, u32 number, u32 alive) {
    Thread* each = thread(block, number);
    each->alive = alive;
    RACES(begin_turn(number))
    each->state = block->step(each, block->parameters);
}
/* Lanes that have all come to where they wait for each other exchange what they gave, and go on at once, so that it is
 * read before it is written again. */
static int exchange(const Block* block, u32 first, u32 last) {
    const u32 alive = lanes_that(block, first, last, 0), waiting = lanes_that(block, first, last, 1);
    for (u32 i = first; i < last; ++i) {
        if (!(waiting >> (i - first) & 1)) continue;
        const u32 group = thread(block, i)->lanes & alive;
        if ((waiting & group) != group) continue;
        for (u32 lane = 0; lane < WARP; ++lane)
            if (group >> lane & 1) block->exchanged[first / WARP][lane] = thread(block, first + lane)->given;
        for (u32 lane = 0; lane < WARP; ++lane)
            if (group >> lane & 1) thread(block, first + lane)->arrived = group;
        RACES(in_block.warps[first / WARP] += thread(block, i)->state == WAITS_FOR_WARP)
        Order lanes = in_order(WARP);
        for (u32 k = 0; k < WARP; ++k) {
            const u32 lane = turn(&lanes);
            if (group >> lane & 1) go_on(block, first + lane, alive);
        }
        return 1;
    }
    return 0;
}
static void run_block(const Block* block, const char* name) {
    for (;;) {
        u32 ended = 0, at_barrier = 0;
        Order warps = in_order((block->threads + WARP - 1) / WARP);
        for (u32 k = 0; k < warps.count; ++k) {
            const u32 first = turn(&warps) * WARP;
            const u32 last = first + WARP < block->threads ? first + WARP : block->threads;
            const u32 alive = lanes_that(block, first, last, 0);
            Order lanes = in_order(last - first);
            for (u32 k = first; k < last; ++k) {
                const u32 i = first + turn(&lanes);
                if (thread(block, i)->next != ENDED) go_on(block, i, alive);
            }
            while (exchange(block, first, last)) continue;
            for (u32 i = first; i < last; ++i) {
                ended += thread(block, i)->next == ENDED;
                at_barrier += thread(block, i)->next != ENDED && thread(block, i)->state == WAITS_FOR_BLOCK;
            }
        }
        if (ended == block->threads) return;
        RACES(++in_block.now.barrier)
        if (ended + at_barrier != block->threads) fail("deadlock: threads of %s wait for each other", name);
    }
}
static const char* run_together(Step step, size_t size, const char* name, size_t fixed, const unsigned* sizes,
                                size_t dynamic, char* shared, void** parameters) {
    static char* memory;
    static size_t capacity;
    static u64 exchanged[1024 / WARP][WARP];
    Position at = begin(name, sizes, dynamic, shared);
    const u32 threads = volume(at.ntid);
    if (capacity < size * threads) memory = realloc(memory, capacity = size * threads);
    const Block block = {step, memory, size, threads, exchanged, parameters};
    if (setjmp(failed)) return sentence;
    Order blocks = in_order(volume(at.nctaid));
    for (u64 i = 0; i < blocks.count; ++i) {
        set_block(&at, turn(&blocks), fixed + dynamic);
        memset(shared, 0xFF, fixed + dynamic);
        for (u32 j = 0; j < threads; ++j) {
            set_thread(&at, j);
            fetches[j].count = fetches[j].groups = 0;
            *thread(&block, j) = (Thread){.position = at, .taken = exchanged[j / WARP]};
        }
        run_block(&block, name);
    }
    return NULL;
}

/* ── what lanes gave each other ───────────────────────────────────────────────────────────────────────────────── */

/* Of the lane that `mode` (up, down, butterfly, index) names, or one's own where that lies outside the segment. */
static inline u32 shuffled(const Thread* thread, char mode, u32 by, u32 bounds, u8* within) {
    const u32 lane = thread->position.lane, segment = bounds >> 8 & 31, least = lane & segment;
    const u32 most = least | (bounds & 31 & ~segment);
    by &= 31;
    const u32 from = mode == 'u' ? lane - by : mode == 'd' ? lane + by : mode == 'b' ? lane ^ by : least | (by & ~segment);
    *within = mode == 'u' ? (s32)from >= (s32)most : from <= most;
    return (u32)thread->taken[*within ? from : lane];
}
#define EACH_LANE(thread, i) for (u32 i = 0; i < WARP; ++i) if ((thread)->arrived >> i & 1)
static inline u32 equal_lanes(const Thread* thread, u64 x) {
    u32 lanes = 0;
    EACH_LANE(thread, i) lanes |= (u32)(thread->taken[i] == x) << i;
    return lanes;
}
static inline u32 ballot(const Thread* thread) { return thread->arrived & ~equal_lanes(thread, 0); }

/* ── tensor cores ─────────────────────────────────────────────────────────────────────────────────────────────── */

static inline void whole_warp(const Thread* thread) {
    if (thread->arrived != ~0u) fail("a product of matrices without all lanes of a warp");
}
/* Two neighbours of a row of a matrix of 8 by 8 halves, or with `turned` of its transpose; a lane points to each row. */
static inline u32 matrix_row(const Thread* thread, u32 matrix, u32 turned) {
    const u32 row = thread->position.lane / 4, column = thread->position.lane % 4 * 2;
    const u64* rows = thread->taken + matrix * 8;
    whole_warp(thread);
    for (u32 i = 0; i < 2; ++i) RACES(touch(READS, turned ? rows[column + i] + row * 2 : rows[row] + (column + i) * 2, 2))
    if (!turned) return READ(u32, rows[row] + column * 2);
    return READ(u16, rows[column] + row * 2) | (u32)READ(u16, rows[column + 1] + row * 2) << 16;
}
/* One of a lane's four elements of c + x y, of 16 by 16 and 16 by 8: each lane gives four registers of x, and two of y. */
#define PRODUCT(kind) \
    static inline f32 product_##kind(const Thread* thread, u32 i, f32 c) { \
        const u32 row = thread->position.lane / 4, column = thread->position.lane % 4 * 2 + i % 2; \
        f64 total = c; \
        whole_warp(thread); \
        for (u32 k = 0; k < 16; ++k) { \
            const u32 x = ((const u32*)thread->taken[row * 4 + k % 8 / 2])[i / 2 + k / 8 * 2]; \
            const u32 y = ((const u32*)thread->taken[column * 4 + k % 8 / 2])[4 + k / 8]; \
            total += decode_##kind((u16)(x >> k % 2 * 16)) * decode_##kind((u16)(y >> k % 2 * 16)); \
        } \
        return (f32)total; \
    }
PRODUCT(f16) PRODUCT(bf16)
