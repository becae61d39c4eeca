/* Fills a struct sp_gemm_job from a kernel's arguments. The kernels are gemm_f32, gemm_f64 and those
 * that pack operand b for them. The argument structs for f32 and f64 differ only in what the
 * pointers point to. */
#include "core/args.h"
#include "gemm.h"
#include "packed.h"

#include <errno.h>

/* The largest number of elements of b in a packed blob, so that no size overflows. Without this
 * limit, strides of 0 would allow any size of operand b. */
static const double MOST_PACKED = 1e16;
/* An operand `a` of up to this size is cheaper to read in place than to pack. The limit was
 * measured on Zen 4, up to 700 x 700 floats. In a larger `a`, each row is on a page of its own. */
enum { SMALL_A_NBYTES = 2 << 20 };

/* The largest number of rows of operand `a` that are read together if the rows share cache sets:
 * the ways of L1, less those for b and c. */
enum { ROWS_NOT_APART = 6 };

/* Returns 1 if operand `a` is better read in place. Packing costs a pass over `a`, which pays only
 * if several panels of b use the packed `a`. */
static int reads_a_in_place(const struct sp_gemm_job *job, size_t rsa, size_t csa)
{
    const size_t nbytes = job->kernel->nbytes;
    const int few_panels = job->n <= 2 * (size_t)job->kernel->nr;
    const int small = (double)job->m * (double)job->k * (double)nbytes <= SMALL_A_NBYTES;
    if (csa == 1)
        return few_panels || (small && sp_gemm_rows_fit_l1(rsa * nbytes, job->kernel->mr));
    return small && (rsa == 1 || few_panels);
}

static int reads_b_in_place(const struct sp_gemm_job *job, size_t rsb, size_t csb)
{
    return csb == 1 && (double)job->k * (double)rsb * job->kernel->nbytes <= job->kernel->small_b;
}

/* Returns the header of a packed blob of this job's b. The fields of the header determine the
 * layout of the blob. */
static struct sp_packed header_of(const struct sp_gemm_job *job, enum sp_gemm_type type, enum sp_isa isa)
{
    const size_t nbytes = sp_gemm_packed_elements(job) * job->kernel->nbytes;
    struct sp_packed header = {
        .kind = type == SP_GEMM_F32 ? SP_PACKED_GEMM_F32 : SP_PACKED_GEMM_F64,
        .isa = (uint8_t)isa,
        .algo = SP_ALGO_BLOCKED,
        .nbytes = sizeof header + nbytes,
        .of = {(uint32_t)job->n, (uint32_t)job->k, (uint32_t)job->kc, job->kernel->nr},
    };
    return header;
}

#define SP_GEMM(name, type)                                                                                            \
    static int large_##name(const struct sp_args_##name *v, const struct sp_gemm_kernel *kernel, enum sp_isa isa,      \
                            const struct sp_tile_plan *plan, struct sp_pool *pool)                                     \
    {                                                                                                                  \
        const struct sp_strided a = {v->a, v->rsa, v->csa};                                                            \
        const struct sp_strided b = {v->b, v->csb, v->rsb};                                                            \
        struct sp_gemm_job job = {.kernel = kernel, .m = v->m, .n = v->n, .k = v->k};                                  \
        job.pack_a = job.pack_b = job.kernel->pack;                                                                    \
        job.a = &a;                                                                                                    \
        job.b = &b;                                                                                                    \
        job.a_in_place = reads_a_in_place(&job, v->rsa, v->csa) ? v->a : NULL;                                         \
        job.rsa = v->rsa;                                                                                              \
        job.csa = v->csa;                                                                                              \
        job.a_rows = v->csa == 1 ? v->a : NULL;                                                                        \
        job.b_in_place = v->csb == 1 && !plan->pack ? v->b : NULL;                                                     \
        job.b_small = reads_b_in_place(&job, v->rsb, v->csb);                                                          \
        job.ldb = v->rsb;                                                                                              \
        job.c = v->c;                                                                                                  \
        job.rsc = v->rsc;                                                                                              \
        job.bias_columns = v->bias;                                                                                    \
        job.act = v->act;                                                                                              \
        if (!plan->pack && sp_gemv_takes(&job, v->rsb, v->csb))                                                        \
            return sp_gemv_run(&job, v->a, v->b, v->rsb, v->csb, plan, pool);                                          \
        if (job.a_in_place && v->csa == 1 && !sp_gemm_rows_fit_l1(v->rsa * (size_t)job.kernel->nbytes, job.kernel->mr)) \
            job.most_rows = ROWS_NOT_APART;                                                                            \
        sp_gemm_choose(&job, plan);                                                                                    \
        if (plan->pack && (double)v->n * (double)v->k > MOST_PACKED)                                                   \
            return -EINVAL;                                                                                            \
        if (plan->pack) {                                                                                              \
            const struct sp_packed wanted = header_of(&job, type, isa);                                                \
            job.b_packed = sp_packed_payload(v->b, plan->blob_nbytes, &wanted);                                        \
            if (!job.b_packed)                                                                                         \
                return -EINVAL;                                                                                        \
        }                                                                                                              \
        return sp_gemm_run(&job, plan, pool);                                                                          \
    }                                                                                                                  \
    static int name(const void *args, const struct sp_tile_plan *plan, struct sp_pool *pool, enum sp_isa isa)          \
    {                                                                                                                  \
        const struct sp_args_##name *const v = args;                                                                   \
        const struct sp_gemm_kernel *const kernel = &sp_gemm_kernels[isa][type];                                       \
        if (v->act > SP_ACT_SIGMOID || (v->m > 1 && v->rsc < v->n)) /* rows of c must not overlap */                   \
            return -EINVAL;                                                                                            \
        if (v->m == 0 || v->n == 0)                                                                                    \
            return 0;                                                                                                  \
        if (plan->algo == SP_ALGO_NAIVE || (plan->algo == SP_ALGO_AUTO && isa == SP_ISA_REF))                          \
            return plan->pack ? -EINVAL : sp_##name##_naive(args, plan, pool);                                         \
        if (sp_gemm_takes_small(kernel, args, plan)) {                                                                 \
            sp_gemm_small(kernel, args);                                                                               \
            return 0;                                                                                                  \
        }                                                                                                              \
        return large_##name(v, kernel, isa, plan, pool);                                                               \
    }                                                                                                                  \
    static int pack_##name(const void *args, const struct sp_tile_plan *plan, struct sp_pool *pool, enum sp_isa isa)   \
    {                                                                                                                  \
        const struct sp_args_pack_##name *const v = args;                                                              \
        const struct sp_strided b = {v->b, v->csb, v->rsb};                                                            \
        struct sp_gemm_job job = {.kernel = &sp_gemm_kernels[isa][type], .n = v->n, .k = v->k};                        \
        int rc;                                                                                                        \
        job.pack_b = job.kernel->pack;                                                                                 \
        job.b = &b;                                                                                                    \
        sp_gemm_choose(&job, plan);                                                                                    \
        if ((double)v->n * (double)v->k > MOST_PACKED)                                                                 \
            return -EINVAL;                                                                                            \
        const struct sp_packed header = header_of(&job, type, isa);                                                    \
        void *const to = sp_packed_begin(v->out, v->capacity, &header, &rc);                                           \
        if (to)                                                                                                        \
            sp_gemm_pack(&job, to, pool, plan->threads);                                                               \
        return rc;                                                                                                     \
    }                                                                                                                  \
    SP_GEMM_OF(name, ref, SP_ISA_REF)                                                                                  \
    SP_GEMM_OF(name, neon, SP_ISA_NEON)                                                                                \
    SP_GEMM_OF(name, avx2, SP_ISA_AVX2)                                                                                \
    SP_GEMM_OF(name, avx512, SP_ISA_AVX512)

#define SP_GEMM_OF(name, isa, id)                                                                                      \
    sp_routine_fn sp_##name##_##isa, sp_pack_##name##_##isa;                                                           \
    int sp_##name##_##isa(const void *args, const struct sp_tile_plan *plan, struct sp_pool *pool)                     \
    {                                                                                                                  \
        return name(args, plan, pool, id);                                                                             \
    }                                                                                                                  \
    int sp_pack_##name##_##isa(const void *args, const struct sp_tile_plan *plan, struct sp_pool *pool)                \
    {                                                                                                                  \
        return pack_##name(args, plan, pool, id);                                                                      \
    }

SP_GEMM(gemm_f32, SP_GEMM_F32)
SP_GEMM(gemm_f64, SP_GEMM_F64)
