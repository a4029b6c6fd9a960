// The plain kernel that sparse is compared with: what a careful C programmer writes, with the rows ahead prefetched.
// gcc -O3 -march=native -fopenmp -shared -fPIC plain.c -o libplain.so
#include <stdint.h>
#include <string.h>

enum { AHEAD = 16, LINE = 16 }; // edges; floats of a cache line

void plain_spmm(int64_t rows, int64_t width, const int64_t *indptr, const int32_t *indices, const float *restrict values,
                const float *restrict x, float *restrict y, int threads) {
    int64_t edges = indptr[rows];
#pragma omp parallel for schedule(dynamic, 256) num_threads(threads)
    for (int64_t i = 0; i < rows; i++) {
        float *restrict to = y + i * width;
        memset(to, 0, sizeof *to * width);
        for (int64_t e = indptr[i]; e < indptr[i + 1]; e++) {
            if (e + AHEAD < edges) {
                const float *next = x + indices[e + AHEAD] * width;
                for (int64_t k = 0; k < width; k += LINE) __builtin_prefetch(next + k);
            }
            const float *from = x + indices[e] * width;
            float v = values[e];
            for (int64_t k = 0; k < width; k++) to[k] += v * from[k];
        }
    }
}

// Reads the rows that edges name and adds up their elements: what a product reads at least where rows are not met
// again, without a result.
float plain_rows(int64_t edges, int64_t width, const int32_t *indices, const float *restrict x, int64_t ahead, int threads) {
    float sum = 0;
#pragma omp parallel for schedule(static) num_threads(threads) reduction(+ : sum)
    for (int64_t e = 0; e < edges; e++) {
        if (e + ahead < edges) {
            const float *next = x + indices[e + ahead] * width;
            for (int64_t k = 0; k < width; k += LINE) __builtin_prefetch(next + k);
        }
        const float *from = x + indices[e] * width;
        float of = 0;
#pragma omp simd reduction(+ : of)
        for (int64_t k = 0; k < width; k++) of += from[k];
        sum += of;
    }
    return sum;
}

// Sums an array of floats: how fast memory is read in order.
float plain_read(int64_t n, const float *x, int threads) {
    float sum = 0;
#pragma omp parallel for simd reduction(+ : sum) num_threads(threads)
    for (int64_t i = 0; i < n; i++) sum += x[i];
    return sum;
}
