// The training step of gpt.py in C: its numbers are doubles, and its gradients are written by hand.
#include <math.h>
#include <string.h>
enum { V = 27, D = 16, H = 4, K = D / H, L = 16, F = 4 * D };
typedef double R;
typedef struct {
    R tokens[V][D], positions[L][D], query[D][D], key[D][D], value[D][D], attended[D][D], up[F][D], down[D][F];
} Weights;

static void times(const R *w, const R *x, R *y, int n, int m) {
    for (int i = 0; i < n; i++) { R s = 0; for (int j = 0; j < m; j++) s += w[i * m + j] * x[j]; y[i] = s; }
}
static void back(const R *w, R *gw, const R *x, R *gx, const R *gy, int n, int m) {
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++) { gw[i * m + j] += gy[i] * x[j]; gx[j] += gy[i] * w[i * m + j]; }
}
static R norm(const R *x, R *y) {
    R s = 0; for (int j = 0; j < D; j++) s += x[j] * x[j];
    s = 1 / sqrt(s / D + 1e-5); for (int j = 0; j < D; j++) y[j] = x[j] * s; return s;
}
static void norm_back(const R *x, R s, const R *gy, R *gx) {
    R dot = 0; for (int j = 0; j < D; j++) dot += gy[j] * x[j];
    for (int j = 0; j < D; j++) gx[j] += s * gy[j] - x[j] * dot * s * s * s / D;
}
static void softmax(R *x, int n) {
    R top = x[0], s = 0; for (int i = 1; i < n; i++) if (x[i] > top) top = x[i];
    for (int i = 0; i < n; i++) s += x[i] = exp(x[i] - top);
    for (int i = 0; i < n; i++) x[i] /= s;
}
double step(Weights *w, const int *tokens, int length, double rate) {
    static Weights g; memset(&g, 0, sizeof g);
    static R e[L][D], x[L][D], b[L][D], q[L][D], k[L][D], v[L][D], p[L][H][L], a[L][D], y[L][D], c[L][D];
    static R u[L][F], h[L][F], z[L][D], o[L][V];
    static R gz[L][D], gk[L][D], gv[L][D]; R s0[L], s1[L], s2[L], loss = 0;
    for (int t = 0; t < length; t++) {
        for (int j = 0; j < D; j++) e[t][j] = w->tokens[tokens[t]][j] + w->positions[t][j];
        s0[t] = norm(e[t], x[t]); s1[t] = norm(x[t], b[t]);
        times(w->query[0], b[t], q[t], D, D); times(w->key[0], b[t], k[t], D, D); times(w->value[0], b[t], v[t], D, D);
        for (int i = 0; i < H; i++) {
            for (int r = 0; r <= t; r++) {
                R d = 0;
                for (int j = i * K; j < i * K + K; j++) d += q[t][j] * k[r][j];
                p[t][i][r] = d / sqrt(K);
            }
            softmax(p[t][i], t + 1);
            for (int j = i * K; j < i * K + K; j++) {
                R d = 0;
                for (int r = 0; r <= t; r++) d += p[t][i][r] * v[r][j];
                a[t][j] = d;
            }
        }
        times(w->attended[0], a[t], y[t], D, D); for (int j = 0; j < D; j++) y[t][j] += x[t][j];
        s2[t] = norm(y[t], c[t]); times(w->up[0], c[t], u[t], F, D);
        for (int j = 0; j < F; j++) h[t][j] = u[t][j] > 0 ? u[t][j] * u[t][j] : 0;
        times(w->down[0], h[t], z[t], D, F); for (int j = 0; j < D; j++) z[t][j] += y[t][j];
        times(w->tokens[0], z[t], o[t], V, D); softmax(o[t], V); loss -= log(o[t][tokens[t + 1]]) / length;
    }
    memset(gk, 0, sizeof gk); memset(gv, 0, sizeof gv);
    for (int t = length - 1; t >= 0; t--) {
        R gh[F] = {0}, gc[D] = {0}, gy[D], ga[D] = {0}, gq[D] = {0}, gb[D] = {0}, gx[D], ge[D] = {0};
        for (int i = 0; i < V; i++) o[t][i] = (o[t][i] - (i == tokens[t + 1])) / length;
        memset(gz[t], 0, sizeof gz[t]); back(w->tokens[0], g.tokens[0], z[t], gz[t], o[t], V, D);
        memcpy(gy, gz[t], sizeof gy); back(w->down[0], g.down[0], h[t], gh, gz[t], D, F);
        for (int j = 0; j < F; j++) gh[j] *= u[t][j] > 0 ? 2 * u[t][j] : 0;
        back(w->up[0], g.up[0], c[t], gc, gh, F, D); norm_back(y[t], s2[t], gc, gy);
        memcpy(gx, gy, sizeof gx); back(w->attended[0], g.attended[0], a[t], ga, gy, D, D);
        for (int i = 0; i < H; i++) {
            R gp[L], dot = 0;
            for (int r = 0; r <= t; r++) {
                R d = 0;
                for (int j = i * K; j < i * K + K; j++) {
                    d += ga[j] * v[r][j];
                    gv[r][j] += ga[j] * p[t][i][r];
                }
                gp[r] = d;
                dot += d * p[t][i][r];
            }
            for (int r = 0; r <= t; r++) {
                R d = p[t][i][r] * (gp[r] - dot) / sqrt(K);
                for (int j = i * K; j < i * K + K; j++) {
                    gq[j] += d * k[r][j];
                    gk[r][j] += d * q[t][j];
                }
            }
        }
        back(w->query[0], g.query[0], b[t], gb, gq, D, D);
        back(w->key[0], g.key[0], b[t], gb, gk[t], D, D);
        back(w->value[0], g.value[0], b[t], gb, gv[t], D, D);
        norm_back(x[t], s1[t], gb, gx); norm_back(e[t], s0[t], gx, ge);
        for (int j = 0; j < D; j++) { g.tokens[tokens[t]][j] += ge[j]; g.positions[t][j] += ge[j]; }
    }
    for (int i = 0; i < (int)(sizeof g / sizeof(R)); i++) ((R *)w)[i] -= rate * ((R *)&g)[i];
    return loss;
}
