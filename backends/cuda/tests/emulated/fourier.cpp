// What CuPy calls of cuFFT, by the definition of a Fourier transform and in double precision. A status of 0 is success.
#include <cmath>
#include <complex>
#include <cstdint>
#include <utility>
#include <vector>
#include "device.h"

namespace {

typedef int Status;
typedef std::complex<double> Complex128;
constexpr size_t WORKSPACE = 16; // what a plan says it needs, and leaves alone

typedef std::vector<int> Index;
struct Layout { // of a batch of arrays, each within a larger one
    Index embedded;
    int64_t stride, distance;
    int64_t at(const Index& index, int64_t batch) const {
        int64_t offset = 0;
        for (size_t axis = 0; axis < index.size(); ++axis) offset = offset * embedded[axis] + index[axis];
        return offset * stride + batch * distance;
    }
};
struct Plan { Index shape; Layout input, output; int batch; };
std::vector<Plan> plans;

int product(const Index& numbers) {
    int result = 1;
    for (int each : numbers) result *= each;
    return result;
}

// Along each axis, by the definition.
void transform(std::vector<Complex128>& x, const Index& shape, int sign) {
    size_t stride = 1;
    for (size_t axis = shape.size(); axis-- > 0; stride *= shape[axis]) {
        const int64_t n = shape[axis];
        std::vector<Complex128> result(x.size());
        for (size_t at = 0; at < x.size(); ++at) {
            const int64_t frequency = at / stride % n;
            const size_t first = at - frequency * stride;
            for (int64_t i = 0; i < n; ++i)
                result[at] += x[first + i * stride] * std::polar(1.0, sign * 2 * M_PI * (i * frequency % n) / n);
        }
        x = std::move(result);
    }
}

// T is a real type. Of a real array only the first half of the last axis is kept: the rest mirrors it.
template <class T> Status execute(int number, const void* from, void* to, int sign, bool from_real, bool to_real) {
    emulated_now();
    const Plan& plan = plans.at(number);
    const auto* complex_from = static_cast<const std::complex<T>*>(from);
    auto* complex_to = static_cast<std::complex<T>*>(to);
    const int size = product(plan.shape), half = plan.shape.back() / 2;
    auto unravel = [&](int at) {
        Index index(plan.shape.size());
        for (size_t axis = index.size(); axis-- > 0; at /= plan.shape[axis]) index[axis] = at % plan.shape[axis];
        return index;
    };
    for (int batch = 0; batch < plan.batch; ++batch) {
        std::vector<Complex128> x(size);
        for (int at = 0; at < size; ++at) {
            Index index = unravel(at);
            const bool mirrored = to_real && index.back() > half;
            if (mirrored)
                for (size_t axis = 0; axis < index.size(); ++axis)
                    index[axis] = (plan.shape[axis] - index[axis]) % plan.shape[axis];
            const int64_t offset = plan.input.at(index, batch);
            x[at] = from_real ? Complex128(static_cast<const T*>(from)[offset]) : Complex128(complex_from[offset]);
            if (mirrored) x[at] = std::conj(x[at]);
        }
        transform(x, plan.shape, sign);
        for (int at = 0; at < size; ++at) {
            const Index index = unravel(at);
            if (from_real && index.back() > half) continue;
            const int64_t offset = plan.output.at(index, batch);
            if (to_real) static_cast<T*>(to)[offset] = static_cast<T>(x[at].real());
            else complex_to[offset] = std::complex<T>(x[at]);
        }
    }
    return 0;
}

} // namespace

extern "C" {

#define ACCEPT(name) Status name(...) { return 0; }
ACCEPT(cufftSetAutoAllocation)
Status cufftSetStream(int, void* stream) {
    emulated_choose(stream);
    return 0;
}
ACCEPT(cufftSetWorkArea)
ACCEPT(cufftDestroy)
Status cufftGetVersion(int* version) { *version = 12000; return 0; }
Status cufftCreate(int* plan) {
    *plan = static_cast<int>(plans.size());
    plans.push_back({});
    return 0;
}
Status cufftMakePlanMany(int plan, int rank, int* shape, int* embedded_input, int stride_input, int distance_input,
                         int* embedded_output, int stride_output, int distance_output, int type, int batch,
                         size_t* size) {
    constexpr int real_to_complex = 0x2A, complex_to_real = 0x2C, in_double = 0x40;
    const Index whole(shape, shape + rank);
    Index half = whole;
    half.back() = half.back() / 2 + 1;
    const Index& stored_input = (type & ~in_double) == complex_to_real ? half : whole;
    const Index& stored_output = (type & ~in_double) == real_to_complex ? half : whole;
    Layout input = {stored_input, 1, product(stored_input)}, output = {stored_output, 1, product(stored_output)};
    if (embedded_input) {
        input = {Index(embedded_input, embedded_input + rank), stride_input, distance_input};
        output = {Index(embedded_output, embedded_output + rank), stride_output, distance_output};
    }
    plans.at(plan) = {whole, input, output, batch};
    *size = WORKSPACE;
    return 0;
}
Status cufftMakePlan1d(int plan, int length, int type, int batch, size_t* size) {
    return cufftMakePlanMany(plan, 1, &length, nullptr, 1, 0, nullptr, 1, 0, type, batch, size);
}
#define EXECUTE(name, T, sign, from_real, to_real) \
    Status name(int plan, const void* from, void* to) { return execute<T>(plan, from, to, sign, from_real, to_real); }
EXECUTE(cufftExecR2C, float, -1, true, false)
EXECUTE(cufftExecD2Z, double, -1, true, false)
EXECUTE(cufftExecC2R, float, 1, false, true)
EXECUTE(cufftExecZ2D, double, 1, false, true)
Status cufftExecC2C(int plan, const void* from, void* to, int sign) {
    return execute<float>(plan, from, to, sign, false, false);
}
Status cufftExecZ2Z(int plan, const void* from, void* to, int sign) {
    return execute<double>(plan, from, to, sign, false, false);
}

} // extern "C"
