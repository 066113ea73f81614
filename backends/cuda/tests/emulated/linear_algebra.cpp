// What CuPy calls of cuBLAS, by definition and in double precision, and of cuSOLVER, by the LAPACK that SciPy's wheel
// brings (OPENBLAS is its path). Matrices are column-major. A status of 0 is success. Products are work for a stream; all
// else is done at once, when that stream's work is.
#include <algorithm>
#include <complex>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>
#include <dlfcn.h>
#include "device.h"
#include "halves.h"

typedef int Status;
typedef void* Handle;
typedef std::complex<float> Complex64;
typedef std::complex<double> Complex128;

// The macro for each letter of a library's names: its element type, and the type of the element's parts.
#define FOR_EACH_TYPE(macro) \
    macro(S, float, float) macro(D, double, double) macro(C, Complex64, float) macro(Z, Complex128, double)

namespace {

constexpr Status INVALID = 7, CUSOLVER_INVALID = 3, UNSUPPORTED = 15;
constexpr int WORKSPACE = 16; // what each function says it needs, and leaves alone

template <class T> struct PartOf { typedef T type; };
template <class T> struct PartOf<std::complex<T>> { typedef T type; };
template <class T> using Part = typename PartOf<T>::type;
template <class T> constexpr bool COMPLEX = !std::is_same_v<T, Part<T>>;
template <class T> using Wide = std::conditional_t<COMPLEX<T>, Complex128, double>;

template <class T> Wide<T> widen(T x) { return Wide<T>(x); }
template <> double widen(Bfloat16 x) { return widened(x); }
template <class T> T narrow(Wide<T> x) { return static_cast<T>(x); }
template <> Bfloat16 narrow(double x) { return rounded(x); }
double conjugate(double x) { return x; }
Complex128 conjugate(Complex128 x) { return std::conj(x); }

// ── products ────────────────────────────────────────────────────────────────────────────────────────────────────

// A matrix as an operation sees it: 0 as it lies, 1 transposed, 2 conjugated too.
template <class T> struct Matrix {
    const T* data;
    int64_t leading;
    int operation;
    Wide<T> operator()(int64_t i, int64_t j) const {
        const Wide<T> x = widen(operation ? data[j + i * leading] : data[i + j * leading]);
        return operation == 2 ? conjugate(x) : x;
    }
};

// alpha a b + beta c, of m × k and k × n, and a bias for each row, if there is one; c is not read where beta is 0.
template <class T, class R>
void multiply(int m, int n, int k, Wide<T> alpha, Matrix<T> a, Matrix<T> b, Wide<T> beta, R* c, int64_t leading,
              const R* bias) {
    for (int64_t j = 0; j < n; ++j)
        for (int64_t i = 0; i < m; ++i) {
            Wide<T> sum = 0;
            for (int64_t l = 0; l < k; ++l) sum += a(i, l) * b(l, j);
            R& to = c[i + j * leading];
            sum = beta == Wide<T>(0) ? alpha * sum : alpha * sum + beta * widen(to);
            to = narrow<R>(bias ? sum + widen(bias[i]) : sum);
        }
}

struct Gemm { // the arguments of a batch of products, as cuBLAS orders them
    int operation_a, operation_b, m, n, k;
    const void* alpha;
    const void* a; int type_a, leading_a; int64_t stride_a;
    const void* b; int type_b, leading_b; int64_t stride_b;
    const void* beta;
    void* c; int type_c, leading_c; int64_t stride_c;
    int count, compute;
    const void* bias = nullptr;

    template <class T, class R, class Scalar> Status run() const {
        if (emulated_idles()) return 0;
        const Scalar scale = *static_cast<const Scalar*>(alpha), kept = *static_cast<const Scalar*>(beta);
        char line[200];
        const int end = snprintf(line, sizeof line, "product %d %d %d %d %d %d %p %d %p %d %p %d %d", operation_a,
                                 operation_b, m, n, k, count, a, leading_a, b, leading_b, c, leading_c, compute);
        if (bias) snprintf(line + end, sizeof line - end, " bias %p", bias);
        return !emulated_give(line, [call = *this, scale, kept]() -> const char* {
            call.all<T, R>(widen(scale), widen(kept));
            return nullptr;
        }, {a, b, c, bias});
    }
    template <class T, class R> void all(Wide<T> scale, Wide<T> kept) const {
        for (int64_t i = 0; i < count; ++i)
            multiply<T, R>(m, n, k, scale, {static_cast<const T*>(a) + i * stride_a, leading_a, operation_a},
                           {static_cast<const T*>(b) + i * stride_b, leading_b, operation_b}, kept,
                           static_cast<R*>(c) + i * stride_c, leading_c, static_cast<const R*>(bias));
    }
};

// What cuBLASLt is told of a product, and what it says of the algorithm.
struct Description { int compute, scale, operation_a = 0, operation_b = 0, epilogue = 1; const void* bias = nullptr; };
struct Layout { int type; uint64_t rows, columns; int64_t leading; };
struct Preference { uint64_t workspace = 0; uint32_t reductions = 7, alignments[4] = {256, 256, 256, 256}; };
struct Algorithm { uint64_t description, alignments[4], rest[3]; };
struct Heuristic { Algorithm algorithm; size_t workspace; Status state; float waves; int reserved[4]; };
constexpr int PLAIN = 1, BIAS = 4, COMPUTE_TYPE = 2;

template <class T> Status set_attribute(T& to, const void* from, size_t size) {
    if (size != sizeof to) return INVALID;
    memcpy(&to, from, size);
    return 0;
}

enum Type { REAL32 = 0, REAL64 = 1, REAL16 = 2, COMPLEX64 = 4, COMPLEX128 = 5, BFLOAT16 = 14 };
enum Compute { IN_32 = 68, IN_64 = 70, FAST_16 = 74, FAST_BFLOAT16 = 75, FAST_TF32 = 77 };
struct Product { Type factors, result; bool in_64; Status (Gemm::*run)() const; };
constexpr Product PRODUCTS[] = {
    {REAL32, REAL32, false, &Gemm::run<float, float, float>},
    {REAL64, REAL64, true, &Gemm::run<double, double, double>},
    {REAL16, REAL16, false, &Gemm::run<Half, Half, float>},
    {REAL16, REAL32, false, &Gemm::run<Half, float, float>},
    {BFLOAT16, BFLOAT16, false, &Gemm::run<Bfloat16, Bfloat16, float>},
    {BFLOAT16, REAL32, false, &Gemm::run<Bfloat16, float, float>},
    {COMPLEX64, COMPLEX64, false, &Gemm::run<Complex64, Complex64, Complex64>},
    {COMPLEX128, COMPLEX128, true, &Gemm::run<Complex128, Complex128, Complex128>},
};

Status gemm(const Gemm& call) {
    const int least_a = call.operation_a ? call.k : call.m, least_b = call.operation_b ? call.n : call.k;
    if (call.leading_a < std::max(1, least_a) || call.leading_b < std::max(1, least_b) ||
        call.leading_c < std::max(1, call.m) || call.m < 0 || call.n < 0 || call.k < 0)
        return INVALID;
    const bool fast = call.compute == FAST_16 || call.compute == FAST_BFLOAT16 || call.compute == FAST_TF32;
    if (fast && call.type_a != REAL32 && call.type_a != COMPLEX64) return UNSUPPORTED;
    if (!fast && call.compute != IN_32 && call.compute != IN_64) return UNSUPPORTED;
    for (const Product& each : PRODUCTS)
        if (call.type_a == each.factors && call.type_b == each.factors && call.type_c == each.result &&
            (call.compute == IN_64) == each.in_64)
            return (call.*each.run)();
    return UNSUPPORTED;
}

template <class T> constexpr Type TYPE =
    COMPLEX<T> ? (sizeof(T) == 8 ? COMPLEX64 : COMPLEX128) : (sizeof(T) == 4 ? REAL32 : REAL64);
template <class T> constexpr Compute COMPUTE = std::is_same_v<Part<T>, double> ? IN_64 : IN_32;

// `by_type(type, [&]<class T>(T*) { … })`: with the element type that a number of CUDA's stands for.
template <class Function> Status by_type(int type, Function function) {
    switch (type) {
        case REAL32: return function(static_cast<float*>(nullptr));
        case REAL64: return function(static_cast<double*>(nullptr));
        case COMPLEX64: return function(static_cast<Complex64*>(nullptr));
        case COMPLEX128: return function(static_cast<Complex128*>(nullptr));
        default: return CUSOLVER_INVALID;
    }
}

// ── LAPACK ──────────────────────────────────────────────────────────────────────────────────────────────────────

template <class T> constexpr char LETTER = "sdcz"[2 * COMPLEX<T> + std::is_same_v<Part<T>, double>];

// `lapack<float>("getrf", &m, …)` calls sgetrf. Lengths of strings follow the arguments, as Fortran has it.
template <class T, class... Arguments> void lapack(const std::string& name, Arguments... arguments) {
    static void* const library = dlopen(OPENBLAS, RTLD_NOW | RTLD_LOCAL);
    void* found = library ? dlsym(library, ("scipy_" + (LETTER<T> + name) + "_").c_str()) : nullptr;
    if (!found) {
        fprintf(stderr, "emulated: %s has no %c%s\n", OPENBLAS, LETTER<T>, name.c_str());
        abort();
    }
    reinterpret_cast<void (*)(Arguments...)>(found)(arguments...);
}
constexpr size_t ONE = 1; // the length of a string

template <class T> Status singular_values(char u_job, char v_job, int m, int n, T* a, int leading, Part<T>* s, T* u,
                                          int leading_u, T* v, int leading_v, int* info) {
    int size = 64 * (m + n) + 64;
    std::vector<T> work(size);
    std::vector<Part<T>> parts(10 * (m + n) + 10);
    if constexpr (COMPLEX<T>)
        lapack<T>("gesvd", &u_job, &v_job, &m, &n, a, &leading, s, u, &leading_u, v, &leading_v, work.data(), &size,
                  parts.data(), info, ONE, ONE);
    else
        lapack<T>("gesvd", &u_job, &v_job, &m, &n, a, &leading, s, u, &leading_u, v, &leading_v, work.data(), &size,
                  info, ONE, ONE);
    return 0;
}

// cuSOLVER's by Jacobi's method: v itself where LAPACK gives its conjugate transpose.
template <class T> Status singular_vectors(bool vectors, bool economic, int m, int n, T* a, int leading, Part<T>* s,
                                           T* u, int leading_u, T* v, int leading_v, int* info) {
    const int rank = std::min(m, n), rows = std::max(1, economic ? rank : n);
    const char job = !vectors ? 'N' : economic ? 'S' : 'A';
    std::vector<T> transposed(static_cast<size_t>(rows) * std::max(1, n));
    singular_values(job, job, m, n, a, leading, s, u, std::max(1, leading_u), transposed.data(), rows, info);
    const Matrix<T> seen = {transposed.data(), rows, 2};
    for (int64_t j = 0; vectors && j < rows; ++j)
        for (int64_t i = 0; i < n; ++i) v[i + j * leading_v] = narrow<T>(seen(i, j));
    return 0;
}

template <class T>
Status symmetric_eigenvalues(int vectors, int upper, int n, T* a, int leading, Part<T>* w, int* info) {
    char job = vectors ? 'V' : 'N', part = upper ? 'U' : 'L';
    int size = 64 * n + 64;
    std::vector<T> work(size);
    std::vector<Part<T>> parts(3 * n + 3);
    if constexpr (COMPLEX<T>)
        lapack<T>("heev", &job, &part, &n, a, &leading, w, work.data(), &size, parts.data(), info, ONE, ONE);
    else
        lapack<T>("syev", &job, &part, &n, a, &leading, w, work.data(), &size, info, ONE, ONE);
    return 0;
}

// Of a general matrix; the values are complex, the vectors of a real matrix in LAPACK's pairs, as cuSOLVER's are.
template <class T>
Status eigenvalues(int vectors, int n, T* a, int leading, void* values, T* v, int leading_v, int* info) {
    char none = 'N', job = vectors ? 'V' : 'N';
    int size = 64 * n + 64, one = 1;
    std::vector<T> work(size);
    std::vector<Part<T>> real(2 * n + 2), imaginary(n);
    auto* w = static_cast<std::complex<Part<T>>*>(values);
    T* left = nullptr;
    if constexpr (COMPLEX<T>) {
        lapack<T>("geev", &none, &job, &n, a, &leading, w, left, &one, v, &leading_v, work.data(), &size, real.data(),
                  info, ONE, ONE);
    } else {
        lapack<T>("geev", &none, &job, &n, a, &leading, real.data(), imaginary.data(), left, &one, v, &leading_v,
                  work.data(), &size, info, ONE, ONE);
        for (int i = 0; i < n; ++i) w[i] = {real[i], imaginary[i]};
    }
    return 0;
}

} // namespace

extern "C" {

#define SET_STREAM(name) \
    Status name(Handle, void* stream) { \
        emulated_choose(stream); \
        return 0; \
    }
#define ACCEPT(name) Status name(...) { return 0; }
#define CREATE(name) Status name(Handle* handle) { *handle = handle; return 0; } // nothing is kept: any address will do
#define ANSWER(name, ...) Status name(__VA_ARGS__, int* answer) { *answer = 0; return 0; }

// ── cuBLAS ──────────────────────────────────────────────────────────────────────────────────────────────────────

CREATE(cublasCreate_v2)
ACCEPT(cublasDestroy_v2)
SET_STREAM(cublasSetStream_v2)
ACCEPT(cublasSetPointerMode_v2)
ACCEPT(cublasSetWorkspace_v2)
ACCEPT(cublasSetMathMode)
ANSWER(cublasGetPointerMode_v2, Handle)
ANSWER(cublasGetMathMode, Handle)
Status cublasGetStream_v2(Handle, void** stream) { *stream = emulated_chosen(); return 0; }
Status cublasGetVersion_v2(Handle, int* version) { *version = 130000; return 0; }

Status cublasGemmEx(Handle, int operation_a, int operation_b, int m, int n, int k, const void* alpha, const void* a,
                    int type_a, int leading_a, const void* b, int type_b, int leading_b, const void* beta, void* c,
                    int type_c, int leading_c, int compute, int) {
    return gemm({operation_a, operation_b, m, n, k, alpha, a, type_a, leading_a, 0, b, type_b, leading_b, 0, beta, c,
                 type_c, leading_c, 0, 1, compute});
}
// cuBLASLt: only what adds a bias, or nothing, to one product in the type that the result has.
CREATE(cublasLtCreate)
Status cublasLtMatmulDescCreate(Description** made, int compute, int scale) {
    *made = new Description{compute, scale};
    return 0;
}
Status cublasLtMatmulDescSetAttribute(Description* of, int attribute, const void* from, size_t size) {
    switch (attribute) {
        case 3: return set_attribute(of->operation_a, from, size);
        case 4: return set_attribute(of->operation_b, from, size);
        case 7: return set_attribute(of->epilogue, from, size);
        case 8: return set_attribute(of->bias, from, size);
        default: return UNSUPPORTED;
    }
}
Status cublasLtMatrixLayoutCreate(Layout** made, int type, uint64_t rows, uint64_t columns, int64_t leading) {
    *made = new Layout{type, rows, columns, leading};
    return 0;
}
Status cublasLtMatmulPreferenceCreate(Preference** made) { *made = new Preference; return 0; }
Status cublasLtMatmulPreferenceDestroy(Preference* made) { delete made; return 0; }
Status cublasLtMatmulPreferenceSetAttribute(Preference* of, int attribute, const void* from, size_t size) {
    if (attribute == 1) return set_attribute(of->workspace, from, size);
    if (attribute == 3) return set_attribute(of->reductions, from, size);
    return attribute >= 5 && attribute <= 8 ? set_attribute(of->alignments[attribute - 5], from, size) : UNSUPPORTED;
}
Status cublasLtMatmulAlgoGetHeuristic(Handle, const Description* of, const Layout* a, const Layout* b, const Layout* c,
                                      const Layout* d, const Preference* wanted, int most, Heuristic* found, int* count) {
    *count = 0;
    const bool known = a->type == REAL32 || a->type == REAL16 || a->type == BFLOAT16;
    const bool alike = a->type == b->type && a->type == c->type && a->type == d->type;
    if (most < 1 || (of->epilogue == BIAS) == !of->bias || wanted->reductions != COMPUTE_TYPE) return INVALID;
    if (!known || !alike || (of->epilogue != BIAS && of->epilogue != PLAIN) || of->scale != REAL32) return UNSUPPORTED;
    *found = {};
    found->algorithm.description = reinterpret_cast<uint64_t>(of);
    for (int i = 0; i < 4; ++i) found->algorithm.alignments[i] = wanted->alignments[i];
    found->workspace = wanted->workspace < WORKSPACE ? 0 : WORKSPACE;
    *count = 1;
    return 0;
}
Status cublasLtMatmul(Handle, const Description* of, const void* alpha, const void* a, const Layout* at, const void* b,
                      const Layout* bt, const void* beta, const void* c, const Layout*, void* d, const Layout* dt,
                      const Algorithm* algorithm, void* workspace, size_t size, void* stream) {
    const void* const operands[4] = {a, b, c, d};
    if (algorithm->description != reinterpret_cast<uint64_t>(of) || (size && !workspace) || c != d) return INVALID;
    for (int i = 0; i < 4; ++i)
        if (reinterpret_cast<uint64_t>(operands[i]) % algorithm->alignments[i]) return INVALID;
    const bool turned = of->operation_a, other = of->operation_b;
    const int m = turned ? at->columns : at->rows, k = turned ? at->rows : at->columns, n = other ? bt->rows : bt->columns;
    if (static_cast<int>(other ? bt->columns : bt->rows) != k || static_cast<int>(dt->rows) != m ||
        static_cast<int>(dt->columns) != n)
        return INVALID;
    emulated_choose(stream);
    return gemm({of->operation_a, of->operation_b, m, n, k, alpha, a, at->type, static_cast<int>(at->leading), 0, b,
                 bt->type, static_cast<int>(bt->leading), 0, beta, d, dt->type, static_cast<int>(dt->leading), 0, 1,
                 of->compute, of->bias});
}
Status cublasGemmStridedBatchedEx(Handle, int operation_a, int operation_b, int m, int n, int k, const void* alpha,
                                  const void* a, int type_a, int leading_a, long long stride_a, const void* b,
                                  int type_b, int leading_b, long long stride_b, const void* beta, void* c, int type_c,
                                  int leading_c, long long stride_c, int count, int compute, int) {
    return gemm({operation_a, operation_b, m, n, k, alpha, a, type_a, leading_a, stride_a, b, type_b, leading_b,
                 stride_b, beta, c, type_c, leading_c, stride_c, count, compute});
}

#define PRODUCTS_OF(letter, T, Part) \
    Status cublas##letter##gemm_v2(Handle, int operation_a, int operation_b, int m, int n, int k, const T* alpha, \
                                   const T* a, int leading_a, const T* b, int leading_b, const T* beta, T* c, \
                                   int leading_c) { \
        return gemm({operation_a, operation_b, m, n, k, alpha, a, TYPE<T>, leading_a, 0, b, TYPE<T>, leading_b, 0, \
                     beta, c, TYPE<T>, leading_c, 0, 1, COMPUTE<T>}); \
    } \
    Status cublas##letter##gemmStridedBatched(Handle, int operation_a, int operation_b, int m, int n, int k, \
                                              const T* alpha, const T* a, int leading_a, long long stride_a, \
                                              const T* b, int leading_b, long long stride_b, const T* beta, T* c, \
                                              int leading_c, long long stride_c, int count) { \
        return gemm({operation_a, operation_b, m, n, k, alpha, a, TYPE<T>, leading_a, stride_a, b, TYPE<T>, leading_b, \
                     stride_b, beta, c, TYPE<T>, leading_c, stride_c, count, COMPUTE<T>}); \
    } \
    Status cublas##letter##gemmBatched(Handle, int operation_a, int operation_b, int m, int n, int k, const T* alpha, \
                                       const T* const* a, int leading_a, const T* const* b, int leading_b, \
                                       const T* beta, T* const* c, int leading_c, int count) { \
        Status status = 0; \
        emulated_now(); \
        for (int i = 0; i < count && !status; ++i) \
            status = gemm({operation_a, operation_b, m, n, k, alpha, a[i], TYPE<T>, leading_a, 0, b[i], TYPE<T>, \
                           leading_b, 0, beta, c[i], TYPE<T>, leading_c, 0, 1, COMPUTE<T>}); \
        return status; \
    } \
    Status cublas##letter##geam(Handle, int operation_a, int operation_b, int m, int n, const T* alpha, const T* a, \
                                int leading_a, const T* beta, const T* b, int leading_b, T* c, int leading_c) { \
        emulated_now(); \
        const Matrix<T> left = {a, leading_a, operation_a}, right = {b, leading_b, operation_b}; \
        for (int64_t j = 0; j < n; ++j) \
            for (int64_t i = 0; i < m; ++i) { \
                Wide<T> sum = 0; \
                if (*alpha != T(0)) sum += widen(*alpha) * left(i, j); \
                if (*beta != T(0)) sum += widen(*beta) * right(i, j); \
                c[i + j * leading_c] = narrow<T>(sum); \
            } \
        return 0; \
    }
FOR_EACH_TYPE(PRODUCTS_OF)

#define BATCHED_SOLVERS_OF(letter, T, Part) \
    Status cublas##letter##getrfBatched(Handle, int n, T** a, int leading, int* pivots, int* info, int count) { \
        emulated_now(); \
        std::vector<int> unused(n); \
        for (int64_t i = 0; i < count; ++i) \
            lapack<T>("getrf", &n, &n, a[i], &leading, pivots ? pivots + i * n : unused.data(), info + i); \
        return 0; \
    } \
    Status cublas##letter##getriBatched(Handle, int n, T** a, int leading, int* pivots, T** result, \
                                        int leading_result, int* info, int count) { \
        emulated_now(); \
        int size = 64 * n + 64; \
        std::vector<T> work(size); \
        for (int64_t i = 0; i < count; ++i) { \
            for (int64_t j = 0; j < n; ++j) \
                memcpy(result[i] + j * leading_result, a[i] + j * leading, sizeof(T) * n); \
            lapack<T>("getri", &n, result[i], &leading_result, pivots + i * n, work.data(), &size, info + i); \
        } \
        return 0; \
    } \
    Status cublas##letter##getrsBatched(Handle, int operation, int n, int columns, T** a, int leading, int* pivots, \
                                        T** b, int leading_b, int* info, int count) { \
        emulated_now(); \
        char transpose = "NTC"[operation]; \
        for (int64_t i = 0; i < count; ++i) \
            lapack<T>("getrs", &transpose, &n, &columns, a[i], &leading, pivots + i * n, b[i], &leading_b, info, ONE); \
        return 0; \
    }
FOR_EACH_TYPE(BATCHED_SOLVERS_OF)

// ── cuSOLVER ────────────────────────────────────────────────────────────────────────────────────────────────────

CREATE(cusolverDnCreate)
CREATE(cusolverDnCreateParams)
CREATE(cusolverDnCreateGesvdjInfo)
CREATE(cusolverDnCreateSyevjInfo)
ACCEPT(cusolverDnDestroy)
ACCEPT(cusolverDnDestroyParams)
ACCEPT(cusolverDnDestroyGesvdjInfo)
ACCEPT(cusolverDnDestroySyevjInfo)
SET_STREAM(cusolverDnSetStream)
ACCEPT(cusolverDnXgesvdjSetTolerance)
ACCEPT(cusolverDnXgesvdjSetMaxSweeps)
ACCEPT(cusolverDnXgesvdjSetSortEig)
ACCEPT(cusolverDnXsyevjSetTolerance)
ACCEPT(cusolverDnXsyevjSetMaxSweeps)
ACCEPT(cusolverDnXsyevjSetSortEig)
Status cusolverDnGetStream(Handle, void** stream) { *stream = emulated_chosen(); return 0; }
Status cusolverGetProperty(int which, int* value) { *value = which ? 0 : 12; return 0; } // 12.0.0
Status cusolverGetVersion(int* version) { *version = 12000; return 0; }

// The size of the workspace is the last argument, or the last but what follows it.
#define SIZE(name, ...) Status name##_bufferSize(__VA_ARGS__, int* size) { *size = WORKSPACE; return 0; }
#define SIZE_THEN(name, after, ...) \
    Status name##_bufferSize(__VA_ARGS__, int* size, after) { *size = WORKSPACE; return 0; }
#define JUST_A_HANDLE Handle
#define A_HANDLE_AND_A_COUNT Handle, int

#define FACTORS_OF(letter, T, Part) \
    SIZE(cusolverDn##letter##potrf, Handle, int, int, T*, int) \
    Status cusolverDn##letter##potrf(Handle, int upper, int n, T* a, int leading, T*, int, int* info) { \
        emulated_now(); \
        char part = upper ? 'U' : 'L'; \
        lapack<T>("potrf", &part, &n, a, &leading, info, ONE); \
        return 0; \
    } \
    Status cusolverDn##letter##potrfBatched(Handle handle, int upper, int n, T** a, int leading, int* info, \
                                            int count) { \
        emulated_now(); \
        for (int i = 0; i < count; ++i) \
            cusolverDn##letter##potrf(handle, upper, n, a[i], leading, nullptr, 0, info + i); \
        return 0; \
    } \
    SIZE(cusolverDn##letter##getrf, Handle, int, int, T*, int) \
    Status cusolverDn##letter##getrf(Handle, int m, int n, T* a, int leading, T*, int* pivots, int* info) { \
        emulated_now(); \
        std::vector<int> unused(std::min(m, n)); \
        lapack<T>("getrf", &m, &n, a, &leading, pivots ? pivots : unused.data(), info); \
        return 0; \
    } \
    Status cusolverDn##letter##getrs(Handle, int operation, int n, int columns, const T* a, int leading, \
                                     const int* pivots, T* b, int leading_b, int* info) { \
        emulated_now(); \
        char transpose = "NTC"[operation]; \
        lapack<T>("getrs", &transpose, &n, &columns, a, &leading, pivots, b, &leading_b, info, ONE); \
        return 0; \
    } \
    SIZE(cusolverDn##letter##geqrf, Handle, int, int, T*, int) \
    Status cusolverDn##letter##geqrf(Handle, int m, int n, T* a, int leading, T* tau, T*, int, int* info) { \
        emulated_now(); \
        int size = 64 * n + 64; \
        std::vector<T> work(size); \
        lapack<T>("geqrf", &m, &n, a, &leading, tau, work.data(), &size, info); \
        return 0; \
    }
FOR_EACH_TYPE(FACTORS_OF)

#define ORTHOGONAL(name, routine, T) \
    SIZE(name, Handle, int, int, int, const T*, int, const T*) \
    Status name(Handle, int m, int n, int k, T* a, int leading, const T* tau, T*, int, int* info) { \
        emulated_now(); \
        int size = 64 * n + 64; \
        std::vector<T> work(size); \
        lapack<T>(routine, &m, &n, &k, a, &leading, tau, work.data(), &size, info); \
        return 0; \
    }
ORTHOGONAL(cusolverDnSorgqr, "orgqr", float)
ORTHOGONAL(cusolverDnDorgqr, "orgqr", double)
ORTHOGONAL(cusolverDnCungqr, "ungqr", Complex64)
ORTHOGONAL(cusolverDnZungqr, "ungqr", Complex128)

#define SINGULAR_VALUES_OF(letter, T, Part) \
    SIZE(cusolverDn##letter##gesvd, Handle, int, int) \
    Status cusolverDn##letter##gesvd(Handle, signed char u_job, signed char v_job, int m, int n, T* a, int leading, \
                                     Part* s, T* u, int leading_u, T* v, int leading_v, T*, int, Part*, int* info) { \
        emulated_now(); \
        if (m < n) return CUSOLVER_INVALID; \
        return singular_values(u_job, v_job, m, n, a, leading, s, u, leading_u, v, leading_v, info); \
    } \
    SIZE_THEN(cusolverDn##letter##gesvdj, JUST_A_HANDLE, Handle, int, int, int, int, const T*, int, const Part*, \
              const T*, int, const T*, int) \
    Status cusolverDn##letter##gesvdj(Handle, int vectors, int economic, int m, int n, T* a, int leading, Part* s, \
                                      T* u, int leading_u, T* v, int leading_v, T*, int, int* info, Handle) { \
        emulated_now(); \
        return singular_vectors(vectors, economic, m, n, a, leading, s, u, leading_u, v, leading_v, info); \
    } \
    SIZE_THEN(cusolverDn##letter##gesvdjBatched, A_HANDLE_AND_A_COUNT, Handle, int, int, int, const T*, int, \
              const Part*, const T*, int, const T*, int) \
    Status cusolverDn##letter##gesvdjBatched(Handle, int vectors, int m, int n, T* a, int leading, Part* s, T* u, \
                                             int leading_u, T* v, int leading_v, T*, int, int* info, Handle, \
                                             int count) { \
        emulated_now(); \
        if (m > 32 || n > 32) return CUSOLVER_INVALID; \
        for (int64_t i = 0; i < count; ++i) \
            singular_vectors(vectors, false, m, n, a + i * leading * n, leading, s + i * std::min(m, n), \
                             u + i * leading_u * m, leading_u, v + i * leading_v * n, leading_v, info + i); \
        return 0; \
    }
FOR_EACH_TYPE(SINGULAR_VALUES_OF)

#define EIGENVALUES(name, T) \
    SIZE_THEN(name, JUST_A_HANDLE, Handle, int, int, int, const T*, int, const Part<T>*) \
    Status name(Handle, int vectors, int upper, int n, T* a, int leading, Part<T>* w, T*, int, int* info, Handle) { \
        emulated_now(); \
        return symmetric_eigenvalues(vectors, upper, n, a, leading, w, info); \
    } \
    SIZE_THEN(name##Batched, A_HANDLE_AND_A_COUNT, Handle, int, int, int, const T*, int, const Part<T>*) \
    Status name##Batched(Handle, int vectors, int upper, int n, T* a, int leading, Part<T>* w, T*, int, int* info, \
                         Handle, int count) { \
        emulated_now(); \
        for (int64_t i = 0; i < count; ++i) \
            symmetric_eigenvalues(vectors, upper, n, a + i * leading * n, leading, w + i * n, info + i); \
        return 0; \
    }
EIGENVALUES(cusolverDnSsyevj, float)
EIGENVALUES(cusolverDnDsyevj, double)
EIGENVALUES(cusolverDnCheevj, Complex64)
EIGENVALUES(cusolverDnZheevj, Complex128)

Status cusolverDnXsyevd_bufferSize(Handle, Handle, int, int, int64_t, int, const void*, int64_t, int, const void*, int,
                                   size_t* device, size_t* host) {
    *device = *host = WORKSPACE;
    return 0;
}
Status cusolverDnXsyevd(Handle, Handle, int vectors, int upper, int64_t n, int type, void* a, int64_t leading, int,
                        void* w, int, void*, size_t, void*, size_t, int* info) {
    emulated_now();
    return by_type(type, [&]<class T>(T*) {
        return symmetric_eigenvalues(vectors, upper, static_cast<int>(n), static_cast<T*>(a),
                                     static_cast<int>(leading), static_cast<Part<T>*>(w), info);
    });
}
Status cusolverDnXgeev_bufferSize(Handle, Handle, int, int, int64_t, int, const void*, int64_t, int, const void*, int,
                                  const void*, int64_t, int, const void*, int64_t, int, size_t* device, size_t* host) {
    *device = *host = WORKSPACE;
    return 0;
}
Status cusolverDnXgeev(Handle, Handle, int, int vectors, int64_t n, int type, void* a, int64_t leading, int, void* w,
                       int, void*, int64_t, int, void* v, int64_t leading_v, int, void*, size_t, void*, size_t,
                       int* info) {
    emulated_now();
    return by_type(type, [&]<class T>(T*) {
        return eigenvalues(vectors, static_cast<int>(n), static_cast<T*>(a), static_cast<int>(leading), w,
                           static_cast<T*>(v), static_cast<int>(leading_v), info);
    });
}

} // extern "C"
