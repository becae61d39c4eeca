/* What every check uses: random numbers, memory, messages, comparison, the kernel table. */
#include "check.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BLOCKS = 64 };

enum sp_isa check_isa;
struct sp_pool *check_pool;

static uint64_t state;
static void *blocks[MOST_BLOCKS];
static int nblocks;
static char about[512];
static const char *name_of_case;
static uint64_t seed_of_case;
static uint32_t number_of_case;
static int failed, failed_here;

uint64_t rnd(void)
{
    uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

uint32_t rnd_below(uint32_t n)
{
    return (uint32_t)(rnd() % n);
}

uint32_t rnd_between(uint32_t low, uint32_t high)
{
    return low + rnd_below(high - low + 1);
}

/* Ends where the allocation ends; begins `alignment` bytes or a few times that behind its beginning. */
void *bytes_new(size_t nbytes, size_t alignment)
{
    const size_t before = alignment * rnd_below(8);
    char *const p = nblocks < MOST_BLOCKS ? malloc(before + nbytes + !nbytes) : NULL;
    if (!p) {
        fprintf(stderr, "no memory for %zu bytes\n", nbytes);
        exit(2);
    }
    blocks[nblocks++] = p;
    return p + before;
}

void *blob_new(size_t nbytes)
{
    void *const p = nblocks < MOST_BLOCKS ? aligned_alloc(SP_PACKED_ALIGN, (nbytes + 63) / 64 * 64) : NULL;
    if (!p) {
        fprintf(stderr, "no memory for %zu bytes\n", nbytes);
        exit(2);
    }
    return blocks[nblocks++] = p;
}

static double real(void)
{
    return (double)(rnd() >> 11) * (4.0 / 9007199254740992.0) - 2.0; /* 2**53 */
}

float *f32_new(size_t n)
{
    float *const p = bytes_new(n * sizeof *p, sizeof *p);
    for (size_t i = 0; i < n; i++)
        p[i] = (float)real();
    return p;
}

double *f64_new(size_t n)
{
    double *const p = bytes_new(n * sizeof *p, sizeof *p);
    for (size_t i = 0; i < n; i++)
        p[i] = real();
    return p;
}

int32_t *i32_new(size_t n)
{
    int32_t *const p = bytes_new(n * sizeof *p, sizeof *p);
    for (size_t i = 0; i < n; i++)
        p[i] = (int32_t)rnd_below(2001) - 1000;
    return p;
}

void case_begin(const char *what, uint64_t seed, uint32_t number)
{
    state = seed * 1000003u + number;
    for (const char *c = what; *c; c++)
        state = state * 31 + (unsigned char)*c;
    name_of_case = what;
    seed_of_case = seed;
    number_of_case = number;
    about[0] = 0;
    failed_here = 0;
}

void case_end(void)
{
    while (nblocks)
        free(blocks[--nblocks]);
}

void case_is(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(about, sizeof about, format, args);
    va_end(args);
}

void fail(const char *format, ...)
{
    va_list args;
    failed++;
    if (failed_here++)
        return; /* one line a case */
    printf("%s, seed %llu, case %u: %s: ", name_of_case, (unsigned long long)seed_of_case, number_of_case, about);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n");
}

int failures(void)
{
    return failed;
}

void compare(const char *what, const double *found, const double *wanted, size_t n, double tolerance, double least)
{
    double sum = 0;
    size_t finite = 0;
    for (size_t i = 0; i < n; i++)
        if (isfinite(wanted[i])) {
            sum += wanted[i] * wanted[i];
            finite++;
        }
    const double rms = fmax(finite ? sqrt(sum / (double)finite) : 0, least);
    for (size_t i = 0; i < n; i++) {
        const double error = fabs(found[i] - wanted[i]);
        const int same = isnan(wanted[i]) ? isnan(found[i]) : found[i] == wanted[i] || error <= tolerance * rms;
        if (!same) {
            fail("%s[%zu] of %zu is %.9g, wanted %.9g: %.3g of rms %.3g", what, i, n, found[i], wanted[i], error / rms, rms);
            return;
        }
    }
}

static void (*function(const char *name))(void)
{
    for (uint32_t i = 0; i < sp_cpu_nrows; i++)
        if (strcmp(sp_cpu_rows[i].name, name) == 0)
            for (int isa = (int)check_isa; isa >= 0; isa--)
                if (sp_cpu_rows[i].fn[isa])
                    return sp_cpu_rows[i].fn[isa];
    fprintf(stderr, "there is no kernel %s\n", name);
    exit(2);
}

int routine(const char *name, const void *args, const struct sp_tile_plan *plan)
{
    return ((sp_routine_fn *)function(name))(args, plan, check_pool);
}

/* In two runs, as the device cuts a grid; the last one goes past n, as a whole group would. */
void span(const char *name, const void *args, uint64_t n)
{
    const uint64_t middle = rnd_below((uint32_t)n + 1);
    ((sp_span_fn *)function(name))(args, 0, middle);
    ((sp_span_fn *)function(name))(args, middle, (n + 255) / 256 * 256);
}

void *packed(const char *name, void *args, const char *consumer, void *with, const void **operand,
             const struct sp_tile_plan *plan)
{
    struct room {
        void *to;
        uint64_t nbytes;
    } room = {blob_new(sizeof(struct sp_packed)), sizeof(struct sp_packed)};
    struct sp_packed header;
    const void *const matrix = *operand;
    const struct sp_tile_plan plain = *plan;
    struct sp_tile_plan taking = *plan;
    taking.pack = 1;
    taking.blob_nbytes = UINT64_MAX;
    memcpy(args, &room, sizeof room);
    int rc = routine(name, args, &plain);
    memcpy(&header, room.to, sizeof header);
    *operand = room.to;
    if (rc || header.nbytes < sizeof header || routine(consumer, with, &taking) != -EINVAL) {
        fail("%s asked for a size returned %d, or a blob without payload is taken", name, rc);
        return NULL;
    }
    room = (struct room){blob_new(header.nbytes), header.nbytes};
    memcpy(args, &room, sizeof room);
    rc = routine(name, args, &plain);
    char *const moved = blob_new(header.nbytes);
    memcpy(moved, room.to, header.nbytes);
    *operand = moved;
    if (rc || routine(consumer, with, &taking) != -EINVAL) {
        fail("%s returned %d, or a moved blob is taken", name, rc);
        return NULL;
    }
    *operand = matrix;
    const size_t byte = rnd_below(6) < 3 ? 4 + rnd_below(12) : 24 + rnd_below(40);
    char *const spoilt = room.to;
    spoilt[byte] ^= 1;
    *operand = room.to;
    if (routine(consumer, with, &taking) != -EINVAL)
        fail("a blob with another byte %zu in its header is taken", byte);
    spoilt[byte] ^= 1;
    return room.to;
}

double activated(double x, uint32_t act)
{
    switch (act) {
    case SP_ACT_RELU:
        return x < 0 ? 0 : x;
    case SP_ACT_TANH:
        return tanh(x);
    case SP_ACT_SIGMOID:
        return 1 / (1 + exp(-x));
    default:
        return x;
    }
}
