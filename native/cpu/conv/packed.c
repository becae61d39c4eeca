/* Weights of conv2d_f32, packed for one algorithm and instruction set. The kernel pack_conv2d_f32
 * packs them; conv2d_f32 reads packed weights if its plan says `pack`. The payload is 64 bytes of
 * flags, then the weights. The first word of the flags is 1 if a weight is infinite or NaN. For
 * algorithms that read unpacked weights the payload has an unchanged copy. */
#include "algorithms.h"
#include "cpu/conv/direct/direct.h"
#include "cpu/gemm/packed.h"
#include "cpu/conv/winograd/winograd.h"

#include <errno.h>
#include <stdlib.h>

enum { FLAGS_NBYTES = 64 };

static int64_t floats_of(const struct sp_conv *v, enum sp_conv_form form, enum sp_isa isa)
{
    if (sp_winograd_form(form))
        return sp_winograd_floats(v, sp_winograd_tile(form), isa);
    return form == SP_CONV_PIXELS ? sp_conv_pixels_floats(v, isa) : v->oc * v->cg * v->taps;
}

static struct sp_packed header_of(const struct sp_conv *v, enum sp_conv_form form, enum sp_isa isa)
{
    const int is_winograd = sp_winograd_form(form);
    return (struct sp_packed){
        .kind = SP_PACKED_CONV2D_F32,
        .isa = (uint8_t)isa,
        .algo = (uint8_t)form,
        .nbytes = SP_PACKED_ALIGN + FLAGS_NBYTES + (uint64_t)floats_of(v, form, isa) * sizeof(float),
        .of = {(uint32_t)v->oc, (uint32_t)v->cg, (uint32_t)v->kh, (uint32_t)v->kw, (uint32_t)v->groups,
               (uint32_t)v->nhwc, is_winograd ? (uint32_t)v->sh : 0},
    };
}

/* Packs the weights for `form`. Returns 1 if a weight is infinite or NaN, else 0, or -errno. */
static int pack(const struct sp_conv *v, enum sp_conv_form form, float *to, struct sp_pool *pool, enum sp_isa isa,
                uint32_t threads)
{
    if (form == SP_CONV_PIXELS)
        return sp_conv_pixels_pack(v, to, pool, isa, threads);
    if (form == SP_CONV_STRIPS)
        return sp_conv_strips_pack(v, to, pool, isa, threads);
    if (sp_winograd_form(form))
        return sp_winograd_pack_f32(v, sp_winograd_tile(form), pool, isa, threads, to);
    memcpy(to, v->w, (size_t)floats_of(v, form, isa) * sizeof(float));
    return 0;
}

int sp_conv_weights(const struct sp_conv *v, enum sp_conv_form form, const struct sp_tile_plan *plan,
                    struct sp_pool *pool, enum sp_isa isa, uint32_t threads, struct sp_conv_weights *out)
{
    if (plan->pack) {
        const struct sp_packed wanted = header_of(v, form, isa);
        const char *const payload = sp_packed_payload(v->w, plan->blob_nbytes, &wanted);
        if (!payload)
            return -EINVAL;
        out->is_wild = *(const uint32_t *)(const void *)payload;
        out->w = (const float *)(const void *)(payload + FLAGS_NBYTES);
        return 0;
    }
    out->is_wild = 0;
    out->w = v->w;
    if (form == SP_CONV_PLAIN)
        return 0;
    float *const to = sp_scratch(SP_SCRATCH_B, (size_t)floats_of(v, form, isa) * sizeof(float));
    if (!to)
        return -ENOMEM;
    const int rc = pack(v, form, to, pool, isa, threads);
    out->w = to;
    out->is_wild = rc > 0;
    return rc < 0 ? rc : 0;
}

static int pack_blob(const void *args, const struct sp_tile_plan *plan, struct sp_pool *pool, enum sp_isa isa)
{
    const struct sp_args_pack_conv2d_f32 *const a = args;
    struct sp_args_conv2d_f32 of_conv = {.w = a->w};
    memcpy(&of_conv.n, &a->n, offsetof(struct sp_args_conv2d_f32, act) - offsetof(struct sp_args_conv2d_f32, n));
    struct sp_conv v;
    int rc = sp_conv_widen(&of_conv, &v);
    if (rc < 0)
        return rc;
    const enum sp_conv_form form = sp_conv_form(&v, plan, isa);
    const struct sp_packed header = header_of(&v, form, isa);
    char *const payload = sp_packed_begin(a->out, a->capacity, &header, &rc);
    if (!payload)
        return rc;
    memset(payload, 0, FLAGS_NBYTES);
    float *const to = (float *)(void *)(payload + FLAGS_NBYTES);
    rc = pack(&v, form, to, pool, isa, plan->threads ? plan->threads : sp_pool_threads(pool));
    *(uint32_t *)(void *)payload = rc > 0;
    return rc < 0 ? rc : 0;
}

#define SP_PACK(isa, which)                                                                                            \
    sp_routine_fn sp_pack_conv2d_f32_##isa;                                                                            \
    int sp_pack_conv2d_f32_##isa(const void *args, const struct sp_tile_plan *plan, struct sp_pool *pool)              \
    {                                                                                                                  \
        return pack_blob(args, plan, pool, which);                                                                     \
    }
SP_PACK(ref, SP_ISA_REF)
SP_PACK(neon, SP_ISA_NEON)
SP_PACK(avx2, SP_ISA_AVX2)
SP_PACK(avx512, SP_ISA_AVX512)
