// A GPU played by the host, for tests: CUDA's words in C++, and threads that take turns.
//
// The threads of a block run one after the other as fibers. At a barrier each waits for all of them; a shuffle is two
// barriers around a place in memory per thread. Blocks run one after the other. Reads and writes that only a barrier
// separates on a GPU therefore fail here as well when the barrier is missing: a fiber runs as far as it can.
#pragma once
#define MICROGRAD_HOST
#include <cmath>
#include <cstdint>
#include <cstring>
#include <ucontext.h>
#include <utility>
#include <vector>

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(block)
#define __shared__ static

using std::cos; using std::erf; using std::erfc; using std::exp; using std::expm1; using std::log; using std::log1p;
using std::pow; using std::sin; using std::sqrt; using std::tanh; using std::log2; using std::log10; using std::tan;
using std::asin; using std::acos; using std::atan; using std::sinh; using std::cosh; using std::asinh; using std::acosh;
using std::atanh; using std::atan2; using std::fabs; using std::fmod; using std::floor; using std::ceil; using std::trunc;
using std::rint; using std::copysign; using std::nextafter;

struct Dim { unsigned x, y, z; };
static Dim threadIdx, blockIdx, blockDim, gridDim;

namespace host {

struct Fiber {
    ucontext_t context;
    std::vector<char> stack = std::vector<char>(1 << 16);
    bool done;
};
static std::vector<Fiber> fibers;
static ucontext_t scheduler;
static unsigned current;
static char exchanged[1024][16];
static void (*body)(void**);
static void** parameters;

static void start() {
    body(parameters);
    fibers[current].done = true;
    swapcontext(&fibers[current].context, &scheduler);
}
static void wait() {
    swapcontext(&fibers[current].context, &scheduler);
    threadIdx.x = current;
}
static void run_block(unsigned threads) {
    if (fibers.size() < threads) fibers = std::vector<Fiber>(threads);
    for (unsigned i = 0; i < threads; ++i) {
        Fiber& fiber = fibers[i];
        fiber.done = false;
        getcontext(&fiber.context);
        fiber.context.uc_stack.ss_sp = fiber.stack.data();
        fiber.context.uc_stack.ss_size = fiber.stack.size();
        fiber.context.uc_link = nullptr;
        makecontext(&fiber.context, start, 0);
    }
    for (bool running = true; running;) {
        running = false;
        for (unsigned i = 0; i < threads; ++i) {
            if (fibers[i].done) continue;
            current = threadIdx.x = i;
            swapcontext(&scheduler, &fibers[i].context);
            running = running || !fibers[i].done;
        }
    }
}
template <class... A, std::size_t... N>
void call(void (*kernel)(A...), void** values, std::index_sequence<N...>) {
    kernel(*static_cast<std::remove_reference_t<A>*>(values[N])...);
}
template <class... A> void call(void (*kernel)(A...), void** values) {
    call(kernel, values, std::index_sequence_for<A...>());
}
// Bytes of each parameter, for the test that what is passed has the size that is expected; 0 ends the list.
template <class... A> void sizes(void (*)(A...), unsigned* to) {
    const unsigned found[] = {static_cast<unsigned>(sizeof(A))..., 0u};
    std::memcpy(to, found, sizeof(found));
}
static void launch(void (*call)(void**), const unsigned* grid, unsigned block, void** values, bool barriers) {
    body = call;
    parameters = values;
    gridDim = {grid[0], grid[1], 1};
    blockDim = {block, 1, 1};
    for (blockIdx.y = 0; blockIdx.y < grid[1]; ++blockIdx.y)
        for (blockIdx.x = 0; blockIdx.x < grid[0]; ++blockIdx.x) {
            if (barriers) run_block(block);
            else for (threadIdx.x = 0; threadIdx.x < block; ++threadIdx.x) call(values);
        }
}

}  // namespace host

inline void __syncthreads() { host::wait(); }
inline void __threadfence() {}
template <class A> A __shfl_xor_sync(unsigned, A value, int distance) {
    std::memcpy(host::exchanged[threadIdx.x], &value, sizeof(A));
    host::wait();
    A other;
    std::memcpy(&other, host::exchanged[threadIdx.x ^ static_cast<unsigned>(distance)], sizeof(A));
    host::wait();
    return other;
}
inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
    return static_cast<unsigned long long>(static_cast<unsigned __int128>(x) * y >> 64);
}
template <class A> A atomicAdd(A* to, A value) { const A old = *to; *to += value; return old; }
template <class A> A atomicOr(A* to, A value) { const A old = *to; *to |= value; return old; }

inline float from_bits(unsigned x) { float out; std::memcpy(&out, &x, 4); return out; }
inline unsigned to_bits(float x) { unsigned out; std::memcpy(&out, &x, 4); return out; }

struct Half;
float widen(Half x);
void narrow(float x, Half& out);

namespace host {
inline float half_to_float(unsigned short h) {
    const int exponent = h >> 10 & 31, fraction = h & 1023;
    const float size = exponent == 31 ? (fraction ? NAN : INFINITY)
        : exponent ? std::ldexp(static_cast<float>(fraction + 1024), exponent - 25)
        : std::ldexp(static_cast<float>(fraction), -24);
    return h & 0x8000 ? -size : size;
}
inline unsigned short float_to_half(float x) {
    const unsigned short sign = std::signbit(x) ? 0x8000 : 0;
    if (x != x) return sign | 0x7E00;
    const float size = std::fabs(x);
    if (size >= 65520.0f) return sign | 0x7C00;
    int exponent;
    std::frexp(size, &exponent);  // size is in [2 ** (exponent - 1), 2 ** exponent)
    exponent = exponent - 1 < -14 ? -14 : exponent - 1;
    const unsigned steps = static_cast<unsigned>(std::nearbyint(std::ldexp(size, 10 - exponent)));  // ties to even
    return sign | static_cast<unsigned short>(size == 0 ? 0 : steps < 1024 ? steps : ((exponent + 14) << 10) + steps);
}
}  // namespace host
#define MICROGRAD_HOST_HALF \
    inline float widen(Half x) { return host::half_to_float(x.bits); } \
    inline void narrow(float x, Half& out) { out.bits = host::float_to_half(x); }
