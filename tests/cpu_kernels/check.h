/* Checks the cpu device's kernels without Python: random cases against plain loops in double.
 *
 * Stands alone so that it can be built for another machine (aarch64, under qemu-user) and with the sanitizers. Every array
 * ends where its memory ends and begins at any multiple of its element, so that AddressSanitizer sees a read past it. */
#ifndef SP_CHECK_H
#define SP_CHECK_H
#include "core/args.h"
#include "cpu/runtime/kernel.h"
#include "cpu/gemm/packed.h"
#include "cpu/runtime/pool.h"

#include <stddef.h>
#include <stdint.h>

/* As issue and docs promise of float32, in units of the output's rms; float64's is that, 29 bits of mantissa better. */
#ifndef TOLERANCE_DIRECT /* a test of these checks wants more than there is */
#define TOLERANCE_DIRECT 1.5e-5
#endif
#define TOLERANCE_WINOGRAD 1e-4
#define TOLERANCE_F64 (TOLERANCE_DIRECT / 536870912.0)

/* splitmix64: Steele, Lea, Flood, Fast Splittable Pseudorandom Number Generators, OOPSLA 2014. */
uint64_t rnd(void);
uint32_t rnd_below(uint32_t n);
uint32_t rnd_between(uint32_t low, uint32_t high);
/* A number from a short list. */
#define PICK(...) (((const uint32_t[]){__VA_ARGS__})[rnd_below(sizeof((uint32_t[]){__VA_ARGS__}) / 4)])

/* Memory for one case, freed by `case_end`. New arrays are random: floats in (-2, 2), integers in -1000..1000. */
void *bytes_new(size_t nbytes, size_t alignment);
void *blob_new(size_t nbytes); /* 64-byte aligned, as packed weights are */
float *f32_new(size_t n);
double *f64_new(size_t n);
int32_t *i32_new(size_t n);

/* Begins case `number`, which the seed and the number alone decide; `what` for messages. */
void case_begin(const char *what, uint64_t seed, uint32_t number);
void case_end(void);
/* Words about the case, printed when it fails. */
void case_is(const char *format, ...) __attribute__((format(printf, 1, 2)));
void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
int failures(void);

/* |found - wanted| <= tolerance * max(rms(wanted), least) for each of n, NaN where NaN is wanted. */
void compare(const char *what, const double *found, const double *wanted, size_t n, double tolerance, double least);

/* The kernel `name` of the instruction set under test, or of the next lower one that has it. */
extern enum sp_isa check_isa;
extern struct sp_pool *check_pool; /* NULL in some cases: then no threads */
int routine(const char *name, const void *args, const struct sp_tile_plan *plan);
void span(const char *name, const void *args, uint64_t n);

/* What the kernel `name`, a pack_* one, makes for `plan`: it is asked for the size first. `args` begins with where to and how
 * much room there is. Packed weights of another kind, moved ones and ones without room for the payload must be refused by
 * `consumer`, whose arguments are at `with` and take the blob at `operand`. NULL: an error, told already. */
void *packed(const char *name, void *args, const char *consumer, void *with, const void **operand,
             const struct sp_tile_plan *plan);

double activated(double x, uint32_t act);

/* One random case each. */
void check_gemm_f32(void);
void check_gemm_f64(void);
void check_conv2d(void);
void check_map(void);
void check_fused(void);
void check_chains(void);
void check_spans(void);
void check_reduce(void);
void check_layout(void);
void check_strided(void);
void check_affinity(void);
#endif
