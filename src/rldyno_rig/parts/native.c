/* The hot parts of the shared loop in C, called through ctypes: no Python headers, one library for every toolchain.
   `replay.py`, `n_step.py` and `sum_tree.py` define what is computed here; results are equal bit for bit. */

#include <stdint.h>
#include <string.h>

/* All memory belongs to Python. The fields of int64 and pointers are those of `native.Memory`, in this order. */
typedef struct {
    int64_t capacity, row_bytes, action_bytes, number_bytes;
    int64_t added; /* transitions since the start */
    /* obs, next_obs, action, reward, discount of one transition side by side: one cache miss instead of five. */
    char *transitions;
    /* Steps that wait, in a ring of `staged` rows: what each one led to, and where an episode ended (1 + terminated)
       the first observation of the next. */
    int64_t staged, n, taken, begun; /* steps taken in; the first of them that no transition has begun with */
    const double *powers;
    const char *after, *first;
    const int64_t *staged_action;
    const double *staged_reward;
    uint8_t *ended;
} memory;

/* Observations of a few numbers and scalars: a call of memcpy takes longer than copying them (1.0 → 0.5 µs a batch). */
static inline void copy(char *to, const char *from, int64_t bytes) {
    if (bytes > 64 || bytes & 3) {
        memcpy(to, from, bytes);
        return;
    }
    for (int64_t i = 0; i < bytes; i += 4)
        memcpy(to + i, from + i, 4);
}

static void write_number(char *to, int64_t bytes, double value) {
    float single = (float)value;
    memcpy(to, bytes == 4 ? (void *)&single : (void *)&value, bytes);
}

static int64_t transition_bytes(const memory *m) { return 2 * m->row_bytes + m->action_bytes + 2 * m->number_bytes; }

static int64_t ring(const memory *m, int64_t step) { return step & (m->staged - 1); } /* a power of two */

/* The transition that begins with step `start` and leads to what step `last` led to. */
static void keep(memory *m, int64_t start, int64_t last, int terminated) {
    int64_t at = m->added++ % m->capacity, row = m->row_bytes, length = last - start + 1;
    int64_t before = ring(m, start + m->staged - 1), begin = ring(m, start);
    const char *obs = m->ended[before] ? m->first + before * row : m->after + before * row;
    double total = 0;
    for (int64_t k = 0; k < length; k++)
        total += m->powers[k] * m->staged_reward[ring(m, start + k)];
    char *to = m->transitions + at * transition_bytes(m);
    int32_t narrow = (int32_t)m->staged_action[begin];
    memcpy(to, obs, row);
    memcpy(to += row, m->after + ring(m, last) * row, row);
    memcpy(to += row, m->action_bytes == 4 ? (void *)&narrow : (void *)&m->staged_action[begin], m->action_bytes);
    write_number(to += m->action_bytes, m->number_bytes, total);
    write_number(to + m->number_bytes, m->number_bytes, terminated ? 0.0 : m->powers[length]);
}

/* Keep the transitions that the steps up to `steps`, counted from the start, complete. */
void rldyno_flush(memory *m, int64_t steps) {
    for (; m->taken < steps; m->taken++) {
        int64_t last = m->taken;
        uint8_t ended = m->ended[ring(m, last)];
        if (ended)
            for (; m->begun <= last; m->begun++)
                keep(m, m->begun, last, ended == 2);
        else if (last - m->begun + 1 == m->n)
            keep(m, m->begun++, last, 0);
    }
}

/* Where a batch goes; `native.Batch` in this order. */
typedef struct {
    int64_t rows, *index; /* for `rldyno_sample` to work with */
    char *obs, *action, *reward, *discount, *next_obs;
} batch;

void rldyno_take(const memory *m, const int64_t *index, const batch *b) {
    int64_t row = m->row_bytes, a = m->action_bytes, f = m->number_bytes, stride = transition_bytes(m);
    for (int64_t i = 0; i < b->rows; i++) {
        __builtin_prefetch(m->transitions + index[i] * stride);
        __builtin_prefetch(m->transitions + (index[i] + 1) * stride - 1);
    }
    for (int64_t i = 0; i < b->rows; i++) {
        const char *from = m->transitions + index[i] * stride;
        copy(b->obs + i * row, from, row);
        copy(b->next_obs + i * row, from += row, row);
        copy(b->action + i * a, from += row, a);
        copy(b->reward + i * f, from += a, f);
        copy(b->discount + i * f, from + f, f);
    }
}

/* Flush, then choose uniformly by numbers in [0, 1). */
void rldyno_sample(memory *m, int64_t steps, const double *draws, const batch *b) {
    rldyno_flush(m, steps);
    double size = (double)(m->added < m->capacity ? m->added : m->capacity);
    for (int64_t i = 0; i < b->rows; i++)
        b->index[i] = (int64_t)(draws[i] * size);
    rldyno_take(m, b->index, b);
}

/* Sum tree: node i has children 2i and 2i + 1. */
void rldyno_tree_set(double *nodes, int64_t leaves, const int64_t *index, const double *priority, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        nodes[index[i] + leaves] = priority[i];
    for (int64_t i = 0; i < count; i++)
        for (int64_t at = (index[i] + leaves) >> 1; at; at >>= 1)
            nodes[at] = nodes[2 * at] + nodes[2 * at + 1];
}

void rldyno_tree_find(const double *nodes, int64_t leaves, const double *mass, int64_t *found, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        double left_of = mass[i];
        int64_t at = 1;
        while (at < leaves) {
            at *= 2;
            if (left_of >= nodes[at] && nodes[at + 1] > 0)
                left_of -= nodes[at++];
        }
        found[i] = at - leaves;
    }
}

/* Generalised advantages of [steps, count]; every product and sum is rounded to `real`, as NumPy rounds. */
#define GAE(name, real)                                                                                               \
    void name(const real *reward, const real *value, const real *bootstrap, const real *last_value,                   \
              const uint8_t *ended, real *advantage, int64_t steps, int64_t count, double gamma, double decay) {    \
        real discount = (real)gamma, factor = (real)decay;                                                            \
        for (int64_t t = steps - 1; t >= 0; t--)                                                                      \
            for (int64_t i = t * count; i < (t + 1) * count; i++) {                                                   \
                real following = t == steps - 1 ? last_value[i - t * count] : value[i + count];                       \
                real later = t == steps - 1 || ended[i] ? 0 : advantage[i + count];                                   \
                real delta = reward[i] + discount * (ended[i] ? bootstrap[i] : following);                            \
                delta = delta - value[i];                                                                             \
                advantage[i] = delta + factor * later;                                                                \
            }                                                                                                         \
    }

GAE(rldyno_gae_float, float)
GAE(rldyno_gae_double, double)
