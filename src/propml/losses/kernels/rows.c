/* The losses on rows for the CPU: one pass over a row gives its value and all but one factor of its gradient.

   Compiled when it is first needed (c_library.py), with OpenMP where PyTorch brings it. The loops are written so that a
   compiler turns each into vector instructions without being allowed to ignore NaN: no branches, no calls, what is
   selected is multiplied by 0 or 1.
   The formulas are those of triton_kernels.py. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#endif

enum { PROPML = 0, BCE = 1, POWER = 3 };
enum { MARKS_UINT8 = 0, MARKS_INT8 = 1, MARKS_FLOAT = 2, MARKS_BITS = 3 };
enum { NO_MEMORY = 1, STRANGE_MARKS = 2 };

static const float TINY_ORDER = 1e-3f; /* below it the power mean is the geometric one to the last digits */
static const float TINY = 1e-20f; /* below it a set's sum of probabilities is taken relative to its largest one */

/* exp(x) for x of at most 80, to the last digits; 0 below -80, because numbers near the end of float32 are slow. */
static inline float power(float x)
{
    float c = x < -80.0f ? -80.0f : x;
    int32_t whole = (int32_t)(c * 1.44269504f + 126.5f) - 126;
    /* c - whole * log(2), in two steps so that no digit is lost. */
    float f = (c - (float)whole * 0.693145752f) - (float)whole * 1.42860677e-6f;
    float s = 1.98756912e-4f;
    s = s * f + 1.39819994e-3f;
    s = s * f + 8.33345205e-3f;
    s = s * f + 4.16657962e-2f;
    s = s * f + 1.66666657e-1f;
    s = s * f + 0.5f;
    s = s * f * f + f + 1.0f;
    int32_t bits = (whole + 127) * (1 << 23);
    float scale;
    memcpy(&scale, &bits, sizeof scale);
    return x < -80.0f ? 0.0f : s * scale;
}

/* p = sigmoid(z), q = sigmoid(-z) and -log(max(p, q)). */
static inline void logistic(float z, float *p, float *q, float *small)
{
    float t = power(z > 80.0f ? 80.0f : z);
    *q = 1.0f / (1.0f + t);
    *p = t * *q;
    float x = *p < *q ? *p : *q;
    float ratio = x * 1.0561895370483398f - 0.8472030162811279f;
    ratio = ratio * x + 0.6164652705192566f;
    ratio = ratio * x + 0.0991033986210823f;
    ratio = ratio * x + 0.2607432007789612f;
    ratio = ratio * x + 0.33291497826576233f;
    ratio = ratio * x + 0.5f;
    ratio = ratio * x + 1.0f;
    *small = x * ratio;
}

/* 1 for candidates and 1 for excluded labels, or their weights; an unknown or masked entry has 0 in both.
   The result tells whether there is a mark that is none of 1, 0, -1 and NaN. */
static int read_marks(const void *marks, int type, const uint8_t *known, const uint8_t *mask, const float *weight,
                      int positive_weights_only, int64_t n, float *restrict in, float *restrict out)
{
    int strange = 0;
    if (type == MARKS_UINT8) {
        const uint8_t *m = marks;
        for (int64_t j = 0; j < n; j++) {
            in[j] = m[j] > 0;
            out[j] = m[j] == 0;
            strange |= m[j] > 1;
        }
    } else if (type == MARKS_INT8) {
        const int8_t *m = marks;
        for (int64_t j = 0; j < n; j++) {
            in[j] = m[j] > 0;
            out[j] = m[j] == 0;
            strange |= (m[j] > 1) | (m[j] < -1);
        }
    } else if (type == MARKS_FLOAT) {
        const float *m = marks;
        for (int64_t j = 0; j < n; j++) {
            in[j] = m[j] > 0.5f;
            out[j] = (m[j] > -0.5f) & (m[j] <= 0.5f); /* NaN is neither */
            strange |= (m[j] != 1.0f) & (m[j] != 0.0f) & (m[j] != -1.0f) & (m[j] == m[j]);
        }
    } else {
        const uint8_t *m = marks;
        for (int64_t start = 0; start < n; start += 8) {
            int end = n - start < 8 ? n - start : 8;
            unsigned told = known ? known[start / 8] : 255u, set = m[start / 8] & told, rest = told & ~set;
            for (int k = 0; k < end; k++) {
                in[start + k] = (set >> k) & 1u;
                out[start + k] = (rest >> k) & 1u;
            }
        }
    }
    if (mask)
        for (int64_t j = 0; j < n; j++) {
            in[j] *= mask[j];
            out[j] *= mask[j];
        }
    if (weight)
        for (int64_t j = 0; j < n; j++) {
            in[j] *= positive_weights_only && !(weight[j] > 0) ? 0.0f : weight[j];
            out[j] *= weight[j];
        }
    return strange;
}

/* The sums over candidates and excluded labels; what they count is replaced by their slopes. */
static inline void walk(int kind, const float *restrict z, int64_t n, float order, float *restrict in,
                        float *restrict out, float *excluded, float *found)
{
    float sum_in = 0.0f, sum_out = 0.0f;
#pragma omp simd reduction(+ : sum_in, sum_out)
    for (int64_t j = 0; j < n; j++) {
        float p, q, small;
        logistic(z[j], &p, &q, &small);
        float above = z[j] > 0.0f ? z[j] : 0.0f;
        float minus_log_p = above - z[j] + small;
        float share = kind == PROPML ? in[j] * p : kind == POWER ? in[j] * power(-order * minus_log_p) : in[j];
        sum_out += out[j] * (above + small);
        sum_in += kind == BCE ? share * minus_log_p : share;
        in[j] = share * q;
        out[j] *= p;
    }
    *found = sum_in;
    *excluded = sum_out;
}

/* The same for a set that is empty (the result is 0), or whose sum is tiny: relative to the largest term of it. */
static float tiny_set(const float *z, int64_t n, float order, float whole, float *restrict in, float *log_found)
{
    double top = -INFINITY, found = 0;
    for (int again = 0; again < 2; again++)
        for (int64_t j = 0; j < n; j++)
            if (in[j] > 0) {
                float p, q, small;
                logistic(z[j], &p, &q, &small);
                double term = order * ((z[j] < 0 ? (double)z[j] : 0) - small);
                term += in[j] == whole ? 0 : log((double)in[j] / whole);
                if (!again) {
                    top = term > top ? term : top;
                } else {
                    float share = (float)exp(term - top);
                    found += share;
                    in[j] = share * q;
                }
            }
    *log_found = found > 0 ? (float)(top + log(found)) : 0;
    return (float)found;
}

static void write_bfloat16(const float *from, uint16_t *to, int64_t n)
{
    for (int64_t j = 0; j < n; j++) {
        uint32_t bits;
        memcpy(&bits, from + j, sizeof bits);
        to[j] = from[j] != from[j] ? 0x7fc0 : (bits + 0x7fff + ((bits >> 16) & 1)) >> 16; /* ties to even */
    }
}

static void read_bfloat16(const uint16_t *from, float *to, int64_t n)
{
    for (int64_t j = 0; j < n; j++) {
        uint32_t bits = (uint32_t)from[j] << 16;
        memcpy(to + j, &bits, sizeof bits);
    }
}

/* Memory of which row i starts i * stride entries later, or for NULL what is not given. */
struct array {
    void *at;
    int64_t stride;
};

/* What c_rows.py packs, 8 bytes for each: the tensors of KernelRows in rows.py, what comes in and goes out, and numbers. */
struct job {
    struct array logits, marks, known, mask, label_weight, lam, order, example_weight, incoming, values, gradient;
    int64_t kind, n_labels, is_bfloat16, mark_type;
    double one_lam, one_order, scale;
};

/* A number of row i, or the one for all rows. */
static inline float of_row(struct array numbers, int64_t i, float otherwise)
{
    return numbers.at ? ((const float *)numbers.at)[i * numbers.stride] : otherwise;
}

/* Those of row i. */
static int read_row_marks(const struct job *job, int64_t i, const float *weight, int positive_weights_only, float *in,
                          float *out)
{
    const void *marks = (const char *)job->marks.at + i * job->marks.stride * (job->mark_type == MARKS_FLOAT ? 4 : 1);
    const uint8_t *known = job->known.at ? (const uint8_t *)job->known.at + i * job->known.stride : 0;
    const uint8_t *mask = job->mask.at ? (const uint8_t *)job->mask.at + i * job->mask.stride : 0;
    return read_marks(marks, job->mark_type, known, mask, weight, positive_weights_only, job->n_labels, in, out);
}

/* One row; scratch holds 3 * n_labels numbers. The result is that of read_marks. */
static int row(const struct job *job, int64_t i, float *scratch)
{
    const int64_t n = job->n_labels, kind = job->kind;
    float *restrict in = scratch, *restrict out = scratch + n;
    const float *z = (const float *)job->logits.at + i * job->logits.stride, *weight = job->label_weight.at;
    if (job->is_bfloat16) {
        read_bfloat16((const uint16_t *)job->logits.at + i * job->logits.stride, scratch + 2 * n, n);
        z = scratch + 2 * n;
    }
    int strange = read_row_marks(job, i, weight, kind != BCE, in, out);
    float order = kind == POWER ? of_row(job->order, i, job->one_order) : 1.0f;
    int row_kind = kind == POWER && order < TINY_ORDER ? BCE : kind;
    float whole = 1.0f, strength = 1.0f; /* what the set's sum is relative to, and how much its term counts */
    if (row_kind == POWER) {
        whole = 0.0f;
#pragma omp simd reduction(+ : whole)
        for (int64_t j = 0; j < n; j++)
            whole += in[j];
        strength = whole > 0 ? powf(whole, 1.0f - order) : 0.0f;
    } else if (row_kind == PROPML && weight) {
        whole = 0.0f;
#pragma omp simd reduction(max : whole)
        for (int64_t j = 0; j < n; j++)
            whole = in[j] > whole ? in[j] : whole;
        strength = whole;
    }
    int relative = weight && row_kind != BCE && whole > 0; /* so the sum is lost by no unit of the weights */
    for (int64_t j = 0; relative && j < n; j++)
        in[j] /= whole;
    float excluded, found;
    if (row_kind == PROPML) /* spelled out, so that each becomes a loop of its own */
        walk(PROPML, z, n, order, in, out, &excluded, &found);
    else if (row_kind == POWER)
        walk(POWER, z, n, order, in, out, &excluded, &found);
    else
        walk(BCE, z, n, order, in, out, &excluded, &found);
    float factor = job->scale * of_row(job->example_weight, i, 1.0f);
    factor *= of_row(job->incoming, i, 1.0f);
    float push = factor * of_row(job->lam, i, job->one_lam), pull = factor;
    float value = push * excluded;
    if (row_kind == BCE) {
        value += factor * found;
    } else {
        float log_found;
        if (found < TINY) {
            read_row_marks(job, i, weight, 1, in, out);
            found = tiny_set(z, n, order, relative ? whole : 1.0f, in, &log_found);
            if (job->gradient.at) /* the marks were read again: so are the excluded labels' probabilities computed again */
                for (int64_t j = 0; j < n; j++) {
                    float p, q, small;
                    logistic(z[j], &p, &q, &small);
                    out[j] *= p;
                }
        } else {
            log_found = logf(found);
        }
        int empty = found == 0;
        value -= empty ? 0 : factor * strength / order * (log_found - (relative || whole == 1 ? 0 : logf(whole)));
        for (int64_t j = 0; relative && !empty && j < n; j++) /* before a large strength makes of it what no float holds */
            in[j] /= found;
        pull = empty ? 0 : factor * strength / (relative ? 1 : found);
    }
    ((float *)job->values.at)[i] = value;
    if (!job->gradient.at)
        return strange;
    if (job->is_bfloat16) {
        for (int64_t j = 0; j < n; j++)
            out[j] = push * out[j] - pull * in[j];
        write_bfloat16(out, (uint16_t *)job->gradient.at + i * n, n);
    } else {
        float *restrict slopes = (float *)job->gradient.at + i * n;
        for (int64_t j = 0; j < n; j++)
            slopes[j] = push * out[j] - pull * in[j];
    }
    return strange;
}

/* The same where unknown and masked entries have the logit 0: scratch holds one more row of logits for that. */
static void row_of_known(const struct job *job, int64_t i, float *scratch)
{
    const int64_t n = job->n_labels, size = job->is_bfloat16 ? 2 : 4;
    const char *z = (const char *)job->logits.at + i * job->logits.stride * size;
    char *known_only = (char *)(scratch + 3 * n);
    read_row_marks(job, i, 0, 0, scratch, scratch + n);
    for (int64_t j = 0; j < n; j++)
        if (scratch[j] + scratch[n + j] > 0)
            memcpy(known_only + j * size, z + j * size, size);
        else
            memset(known_only + j * size, 0, size);
    struct job again = *job;
    again.logits = (struct array){known_only, 0};
    row(&again, i, scratch);
}

/* Rows first to last on one thread, or in parts on so many; the result has the bit NO_MEMORY where not all are
   computed, and STRANGE_MARKS where candidates are not what they should be. */
int propml_rows(const struct job *job, int64_t first, int64_t last, int threads)
{
    int failed = 0;
#ifdef _OPENMP
#pragma omp parallel num_threads(threads) reduction(| : failed) if (threads > 1)
#endif
    {
        int part = 0, parts = 1;
#ifdef _OPENMP
        part = omp_get_thread_num();
        parts = omp_get_num_threads();
#endif
        float *scratch = malloc(4 * job->n_labels * sizeof *scratch);
        failed = scratch == 0 ? NO_MEMORY : 0;
        int64_t end = first + (last - first) * (part + 1) / parts;
        for (int64_t i = first + (last - first) * part / parts; scratch && i < end; i++) {
            failed |= row(job, i, scratch) ? STRANGE_MARKS : 0;
            const float value = ((const float *)job->values.at)[i];
            if (value != value) /* perhaps by 0 times a logit that does not count and is not finite */
                row_of_known(job, i, scratch);
        }
        free(scratch);
    }
    return failed;
}

int propml_has_threads(void)
{
#ifdef _OPENMP
    return 1;
#else
    return 0;
#endif
}
