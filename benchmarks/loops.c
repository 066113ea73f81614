/* What a case costs where nothing is recorded or allocated: its loops, one for each operation, by all threads.
   Statistics of rows and columns are kept for the gradients, and column sums go by blocks that stay in the cache. */

#include <math.h>

#define SHARED _Pragma("omp parallel for schedule(static)")
#define ADDED(...) _Pragma(#__VA_ARGS__)
#define BLOCK 128
#define LEAST(a, b) ((a) < (b) ? (a) : (b))

void affine(const float *restrict x, const float *restrict w, const float *restrict b, float *restrict out, long n) {
    for (long i = 0; i < n; i++) { float y = x[i] * w[i] + b[i]; out[i] = y > 0 ? y : 0; }
}

static void product(const float *restrict x, const float *restrict y, float *restrict out, long n) {
    SHARED for (long i = 0; i < n; i++) out[i] = x[i] * y[i];
}

static void repeated(float g, const float *restrict y, float *restrict out, long n) {
    SHARED for (long i = 0; i < n; i++) out[i] = g * y[i];
}

static void sum(const float *restrict x, const float *restrict y, float *restrict out, long n) {
    SHARED for (long i = 0; i < n; i++) out[i] = x[i] + y[i];
}

static float total(const float *restrict x, long rows, long n) {
    double all = 0;
    ADDED(omp parallel for schedule(static) reduction(+ : all))
    for (long i = 0; i < rows; i++) {
        float row = 0;
        ADDED(omp simd reduction(+ : row))
        for (long j = 0; j < n; j++) row += x[i * n + j];
        all += row;
    }
    return all;
}

/* sum(layer_norm(x) ** 2): into value, and gradients by x, weight and bias. */
void layer_norm(const float *restrict x, const float *restrict w, const float *restrict b, float *restrict value,
                float *restrict dx, float *restrict dw, float *restrict db, float *restrict y, float *restrict g,
                float *restrict g1, float *restrict g2, float *restrict mean, float *restrict scale,
                long rows, long n) {
    SHARED for (long i = 0; i < rows; i++) {
        const float *restrict r = x + i * n;
        float m = 0, v = 0;
        ADDED(omp simd reduction(+ : m))
        for (long j = 0; j < n; j++) m += r[j];
        m /= n;
        ADDED(omp simd reduction(+ : v))
        for (long j = 0; j < n; j++) v += (r[j] - m) * (r[j] - m);
        float s = 1 / sqrtf(v / n + 1e-5f);
        mean[i] = m, scale[i] = s;
        for (long j = 0; j < n; j++) y[i * n + j] = (r[j] - m) * s * w[j] + b[j];
    }
    product(y, y, g, rows * n);
    *value = total(g, rows, n);
    repeated(1, y, g1, rows * n);
    repeated(1, y, g2, rows * n);
    sum(g1, g2, g, rows * n);
    SHARED for (long i = 0; i < rows; i++) {
        const float *restrict r = x + i * n, *restrict e = g + i * n;
        float a = 0, c = 0, m = mean[i], s = scale[i];
        ADDED(omp simd reduction(+ : a, c))
        for (long j = 0; j < n; j++) { float d = e[j] * w[j]; a += d; c += d * (r[j] - m); }
        a /= n, c *= s * s / n;
        for (long j = 0; j < n; j++) dx[i * n + j] = (e[j] * w[j] - a - (r[j] - m) * c) * s;
    }
    SHARED for (long k = 0; k < n; k += BLOCK) {
        float part[BLOCK] = {0}, also[BLOCK] = {0};
        long width = LEAST(BLOCK, n - k);
        for (long i = 0; i < rows; i++) {
            const float *restrict r = x + i * n + k, *restrict e = g + i * n + k;
            for (long j = 0; j < width; j++) { part[j] += e[j] * (r[j] - mean[i]) * scale[i]; also[j] += e[j]; }
        }
        for (long j = 0; j < width; j++) dw[k + j] = part[j], db[k + j] = also[j];
    }
}

/* sum(batch_norm(x) * x), likewise. */
void batch_norm(const float *restrict x, const float *restrict w, const float *restrict b, float *restrict value,
                float *restrict dx, float *restrict dw, float *restrict db, float *restrict y, float *restrict g,
                float *restrict g1, float *restrict g2, float *restrict mean, float *restrict scale,
                long rows, long n) {
    SHARED for (long k = 0; k < n; k += BLOCK) {
        float m[BLOCK] = {0}, v[BLOCK] = {0};
        long width = LEAST(BLOCK, n - k);
        for (long i = 0; i < rows; i++)
            for (long j = 0; j < width; j++) m[j] += x[i * n + k + j];
        for (long j = 0; j < width; j++) m[j] /= rows;
        for (long i = 0; i < rows; i++)
            for (long j = 0; j < width; j++) { float d = x[i * n + k + j] - m[j]; v[j] += d * d; }
        for (long j = 0; j < width; j++) mean[k + j] = m[j], scale[k + j] = v[j] = 1 / sqrtf(v[j] / rows + 1e-5f);
        for (long i = 0; i < rows; i++)
            for (long j = 0; j < width; j++) {
                long at = i * n + k + j;
                y[at] = (x[at] - m[j]) * v[j] * w[k + j] + b[k + j];
            }
    }
    product(y, x, g, rows * n);
    *value = total(g, rows, n);
    repeated(1, x, g1, rows * n);
    repeated(1, y, g2, rows * n);
    SHARED for (long k = 0; k < n; k += BLOCK) {
        float a[BLOCK] = {0}, c[BLOCK] = {0};
        long width = LEAST(BLOCK, n - k);
        const float *restrict m = mean + k, *restrict s = scale + k;
        for (long i = 0; i < rows; i++)
            for (long j = 0; j < width; j++) {
                long at = i * n + k + j;
                a[j] += g1[at], c[j] += g1[at] * (x[at] - m[j]) * s[j];
            }
        for (long j = 0; j < width; j++) dw[k + j] = c[j], db[k + j] = a[j], a[j] /= rows, c[j] *= s[j] / rows;
        for (long i = 0; i < rows; i++)
            for (long j = 0; j < width; j++) {
                long at = i * n + k + j;
                g[at] = (g1[at] - a[j] - (x[at] - m[j]) * c[j]) * s[j] * w[k + j];
            }
    }
    sum(g, g2, dx, rows * n);
}

/* cross_entropy(x, targets): into value, and the gradient by x. A row's logarithm of its sum is kept for that. */
void cross_entropy(const float *restrict x, const long long *restrict targets, float *restrict value,
                   float *restrict dx, float *restrict log_sum, long rows, long n) {
    double all = 0;
    ADDED(omp parallel for schedule(static) reduction(+ : all))
    for (long i = 0; i < rows; i++) {
        const float *restrict r = x + i * n;
        float m = r[0], s = 0;
        ADDED(omp simd reduction(max : m))
        for (long j = 0; j < n; j++) m = r[j] > m ? r[j] : m;
        ADDED(omp simd reduction(+ : s))
        for (long j = 0; j < n; j++) s += expf(r[j] - m);
        log_sum[i] = m + logf(s);
        all += log_sum[i] - r[targets[i]];
    }
    *value = all / rows;
    SHARED for (long i = 0; i < rows; i++) {
        for (long j = 0; j < n; j++) dx[i * n + j] = expf(x[i * n + j] - log_sum[i]) / rows;
        dx[i * n + targets[i]] -= 1.0f / rows;
    }
}
