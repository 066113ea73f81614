// What micrograd_cuda calls of cuDNN, by definition and in double precision. It refuses what cuDNN would, and proposes
// algorithms first that nobody should take. A status of 0 is success.
#include <algorithm>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>
#include "device.h"
#include "halves.h"

typedef int Status;
extern "C" Status cudaGetDevice(int* device);

namespace {

constexpr Status BAD = 2000, UNSUPPORTED = 3000;
enum Type { REAL32 = 0, REAL64 = 1, REAL16 = 2, BFLOAT16 = 9 };
enum Made { FORWARD, BACKWARD_DATA, BACKWARD_FILTER };
constexpr const char* NAMES[] = {"Forward", "BackwardData", "BackwardFilter"};

typedef std::vector<int> Numbers;
struct Handle { int device; void* stream; };
struct Tensor { int type = -1; Numbers lengths, strides; };
struct Filter { int type = -1; Numbers lengths; };
struct Windows { Numbers padding, stride, dilation; int compute = -1, groups = 1, math = 0; };
struct Found { int algorithm; Status status; float time; size_t memory; int determinism, math, reserved[3]; };

bool known(int type) { return type == REAL32 || type == REAL64 || type == REAL16 || type == BFLOAT16; }
bool positive(const Numbers& lengths) {
    int64_t product = 1;
    for (int each : lengths) {
        product *= each;
        if (each < 1 || product > INT_MAX) return false;
    }
    return lengths.size() >= 4 && lengths.size() <= 5;
}
Numbers packed(const Numbers& lengths) {
    Numbers strides(lengths.size(), 1);
    for (size_t axis = lengths.size() - 1; axis; --axis) strides[axis - 1] = strides[axis] * lengths[axis];
    return strides;
}

struct Call { // by what is made of what, with three spatial axes
    Made made;
    int type, groups, math, algorithm;
    Numbers image, weight, result, padding, stride, dilation;
    const void *first, *second;
    void *workspace, *out;
    size_t size;
    double scale, kept;

    bool fits(const Tensor& x, const Filter& w, const Tensor& y, const Windows& at) {
        if (x.type != w.type || x.type != y.type || at.compute != (x.type == REAL64 ? REAL64 : REAL32)) return false;
        if (x.strides != packed(x.lengths) || y.strides != packed(y.lengths)) return false;
        image = x.lengths, weight = w.lengths, result = y.lengths;
        padding = at.padding, stride = at.stride, dilation = at.dilation;
        if (image.size() != weight.size() || image.size() != result.size() || image.size() != padding.size() + 2)
            return false;
        type = x.type, groups = at.groups, math = at.math;
        if (image[0] != result[0] || weight[0] != result[1] || weight[1] * groups != image[1] || weight[0] % groups)
            return false;
        for (size_t axis = 0; axis < padding.size(); ++axis) {
            const int64_t reach = int64_t(dilation[axis]) * (weight[axis + 2] - 1);
            const int64_t free = image[axis + 2] + 2 * int64_t(padding[axis]) - reach - 1;
            if (free < 0 || free / stride[axis] + 1 != result[axis + 2]) return false;
        }
        return true;
    }

    void deepen() { // an image is a body of depth 1
        if (image.size() == 5) return;
        for (Numbers* each : {&image, &weight, &result}) each->insert(each->begin() + 2, 1);
        padding.insert(padding.begin(), 0), stride.insert(stride.begin(), 1), dilation.insert(dilation.begin(), 1);
    }

    // `visit(image, weight, result)` for each product, by where its three numbers are: -1 is a zero of the padding.
    template <class Visit> void each(Visit visit) const {
        const int inputs = weight[1], outputs = weight[0] / groups;
        int at[3], from[3];
        for (int n = 0; n < image[0]; ++n)
            for (int k = 0; k < weight[0]; ++k)
                for (int c = 0; c < inputs; ++c) {
                    const int64_t plane = n * image[1] + k / outputs * inputs + c, row = n * result[1] + k;
                    for (int64_t tap = 0; tap < int64_t(weight[2]) * weight[3] * weight[4]; ++tap)
                        for (int64_t to = 0; to < int64_t(result[2]) * result[3] * result[4]; ++to) {
                            split(tap, &weight[2], from), split(to, &result[2], at);
                            bool inside = true;
                            int64_t where = plane;
                            for (int axis = 0; axis < 3; ++axis) {
                                const int i = at[axis] * stride[axis] + from[axis] * dilation[axis] - padding[axis];
                                inside = inside && i >= 0 && i < image[axis + 2];
                                where = where * image[axis + 2] + i;
                            }
                            visit(inside ? where : -1,
                                  (int64_t(k) * inputs + c) * weight[2] * weight[3] * weight[4] + tap,
                                  row * result[2] * result[3] * result[4] + to);
                        }
                }
    }
    static void split(int64_t number, const int* lengths, int* found) {
        for (int axis = 2; axis >= 0; number /= lengths[axis--]) found[axis] = int(number % lengths[axis]);
    }

    template <class T, class Widen, class Narrow> void run(Widen widen, Narrow narrow) const {
        const T *a = static_cast<const T*>(first), *b = static_cast<const T*>(second);
        const Numbers& shape = made == FORWARD ? result : made == BACKWARD_DATA ? image : weight;
        std::vector<double> sums(int64_t(shape[0]) * shape[1] * shape[2] * shape[3] * shape[4]);
        each([&](int64_t x, int64_t w, int64_t y) {
            switch (made) { // by infinity a zero is NaN
                case FORWARD: sums[y] += (x < 0 ? 0.0 : widen(a[x])) * widen(b[w]); break;
                case BACKWARD_DATA: if (x >= 0) sums[x] += widen(a[w]) * widen(b[y]); break;
                case BACKWARD_FILTER: sums[w] += (x < 0 ? 0.0 : widen(a[x])) * widen(b[y]); break;
            }
        });
        T* to = static_cast<T*>(out);
        for (size_t i = 0; i < sums.size(); ++i)
            to[i] = narrow(kept == 0 ? scale * sums[i] : scale * sums[i] + kept * widen(to[i]));
    }
    template <class T> void run() const {
        run<T>([](T x) { return double(x); }, [](double x) { return static_cast<T>(x); });
    }
    const char* done() const {
        memset(workspace, 0xA5, size); // where it should be nobody's
        if (type == REAL32) run<float>();
        if (type == REAL64) run<double>();
        if (type == REAL16) run<Half>();
        if (type == BFLOAT16) run<Bfloat16>(widened, rounded);
        return nullptr;
    }
};

constexpr size_t SOME = 64, MUCH = size_t(1) << 40;

// Nobody should take any but the last: they are not the same each time, transform images, round factors, are refused,
// at once or when their workspace is asked for, or want more memory than there is.
std::vector<Found> proposals(Made made, int math) {
    std::vector<Found> found = {{0, 0, 1, SOME, 0, math}, {5, 0, 2, SOME, 1, math}, {1, 0, 3, SOME, 1, 2}};
    if (made == FORWARD)
        found.insert(found.end(),
                     {{3, 0, 4, SOME, 1, math}, {2, 0, 5, MUCH, 1, math}, {0, UNSUPPORTED, -1, 0, 1, math}});
    found.push_back({1, 0, 6, SOME, 1, math == 3 ? 0 : math});
    return found;
}

Status space(Made made, int algorithm, size_t* size) {
    if (made == FORWARD && algorithm == 3) return UNSUPPORTED;
    *size = made == FORWARD && algorithm == 2 ? MUCH : SOME;
    return 0;
}

} // namespace

extern "C" {

Status cudnnCreate(Handle** made) { return cudaGetDevice(&(*made = new Handle{})->device); }
Status cudnnSetStream(Handle* handle, void* stream) {
    handle->stream = stream;
    int device;
    return cudaGetDevice(&device) || device != handle->device ? BAD : 0;
}
Status cudnnCreateTensorDescriptor(Tensor** made) { *made = new Tensor; return 0; }
Status cudnnCreateFilterDescriptor(Filter** made) { *made = new Filter; return 0; }
Status cudnnCreateConvolutionDescriptor(Windows** made) { *made = new Windows; return 0; }

Status cudnnSetTensorNdDescriptor(Tensor* of, int type, int axes, const int* lengths, const int* strides) {
    *of = {type, Numbers(lengths, lengths + axes), Numbers(strides, strides + axes)};
    return known(type) && positive(of->lengths) ? 0 : BAD;
}
Status cudnnSetFilterNdDescriptor(Filter* of, int type, int format, int axes, const int* lengths) {
    *of = {type, Numbers(lengths, lengths + axes)};
    return known(type) && !format && positive(of->lengths) ? 0 : BAD;
}
Status cudnnSetConvolutionNdDescriptor(Windows* of, int axes, const int* padding, const int* stride,
                                       const int* dilation, int mode, int compute) {
    of->padding.assign(padding, padding + axes), of->stride.assign(stride, stride + axes);
    of->dilation.assign(dilation, dilation + axes), of->compute = compute;
    for (int axis = 0; axis < axes; ++axis)
        if (padding[axis] < 0 || stride[axis] < 1 || dilation[axis] < 1) return BAD;
    return mode == 1 && (compute == REAL32 || compute == REAL64) ? 0 : BAD; // 1: the kernel is not turned around
}
Status cudnnSetConvolutionGroupCount(Windows* of, int groups) { of->groups = groups; return groups < 1 ? BAD : 0; }
Status cudnnSetConvolutionMathType(Windows* of, int math) { of->math = math; return math < 0 || math > 3 ? BAD : 0; }

} // extern "C"

namespace {

Status find(Made made, const Tensor* x, const Filter* w, const Tensor* y, const Windows* at, int most, int* count,
            Found* results) {
    Call call;
    if (most < 1 || !call.fits(*x, *w, *y, *at)) return BAD;
    const std::vector<Found> all = proposals(made, at->math);
    *count = std::min<int>(most, all.size());
    std::copy_n(all.begin(), *count, results);
    return 0;
}

Status convolve(Made made, Handle* handle, const void* one, const Tensor* x, const Filter* w, const Tensor* y,
                const Windows* at, int algorithm, const void* first, const void* second, void* workspace, size_t size,
                const void* zero, void* out) {
    Call call;
    size_t needed;
    if (!call.fits(*x, *w, *y, *at)) return BAD;
    if (space(made, algorithm, &needed)) return UNSUPPORTED;
    for (const void* each : {first, second, const_cast<const void*>(out)})
        if (!each || reinterpret_cast<uintptr_t>(each) % 16) return BAD;
    if (size < needed || !workspace) return BAD;
    char line[300];
    snprintf(line, sizeof line, "convolution %s type %d groups %d math %d algorithm %d %p %p %p %p", NAMES[made],
             call.type, call.groups, call.math, algorithm, first, second, workspace, out);
    const bool twice = call.type == REAL64;
    call.scale = twice ? *static_cast<const double*>(one) : *static_cast<const float*>(one);
    call.kept = twice ? *static_cast<const double*>(zero) : *static_cast<const float*>(zero);
    call.made = made, call.algorithm = algorithm, call.first = first, call.second = second, call.out = out;
    call.workspace = workspace, call.size = size;
    call.deepen();
    emulated_choose(handle->stream);
    return emulated_give(line, [call]() { return call.done(); }, {first, second, workspace, out}) ? 0 : 5000;
}

} // namespace

extern "C" {

// Of the three kinds all functions order their arguments alike: what is read, the windows, and what is made.
#define CONVOLUTION(Name, MADE, First, Second, Result, x, w, y) \
    Status cudnnGetConvolution##Name##AlgorithmMaxCount(Handle*, int* count) { \
        *count = proposals(MADE, 0).size(); \
        return 0; \
    } \
    Status cudnnGetConvolution##Name##Algorithm_v7(Handle*, const First* first, const Second* second, \
                                                   const Windows* at, const Result* result, int most, int* count, \
                                                   Found* results) { \
        return find(MADE, x, w, y, at, most, count, results); \
    } \
    Status cudnnGetConvolution##Name##WorkspaceSize(Handle*, const First* first, const Second* second, \
                                                    const Windows* at, const Result* result, int algorithm, \
                                                    size_t* size) { \
        Call call; \
        return call.fits(*x, *w, *y, *at) ? space(MADE, algorithm, size) : BAD; \
    } \
    Status cudnnConvolution##Name(Handle* handle, const void* one, const First* first, const void* a, \
                                  const Second* second, const void* b, const Windows* at, int algorithm, \
                                  void* workspace, size_t size, const void* zero, const Result* result, void* out) { \
        return convolve(MADE, handle, one, x, w, y, at, algorithm, a, b, workspace, size, zero, out); \
    }
CONVOLUTION(Forward, FORWARD, Tensor, Filter, Tensor, first, second, result)
CONVOLUTION(BackwardData, BACKWARD_DATA, Filter, Tensor, Tensor, result, first, second)
CONVOLUTION(BackwardFilter, BACKWARD_FILTER, Tensor, Tensor, Filter, first, result, second)

} // extern "C"
