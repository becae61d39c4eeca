/* The instructions of fused_map, each alone: what goes past the caches is what an ordinary store leaves, to the bit, and
 * nothing beside it. (That the ordinary ones are right is checked from Python, against numpy.) */
#include "check.h"

#include "include/sp_map.h"

#include <string.h>

enum { NDIM = 1, GEOMETRY = SP_MAP_GEO_HEAD + NDIM + (SP_MAP_INPUTS + 1) * (2 + NDIM) };

static uint32_t nbytes_of(uint32_t type)
{
    return type == SP_MAP_F64 ? 8 : 4;
}

static void *new_of(uint32_t type, size_t n)
{
    return type == SP_MAP_F64 ? (void *)f64_new(n) : type == SP_MAP_F32 ? (void *)f32_new(n) : (void *)i32_new(n);
}

/* 0, or what the kernel returned. */
static int run(const struct sp_map_words *code, uint32_t type, uint32_t from, char *y, void *const *x, uint64_t *consts,
               uint32_t n, int stream)
{
    const struct sp_tile_plan plan = {.threads = 1};
    const uint64_t nbytes = (uint64_t)n * nbytes_of(from);
    int64_t geometry[GEOMETRY] = {[SP_MAP_GEO_NDIM] = NDIM, [SP_MAP_GEO_STREAM] = stream, [SP_MAP_GEO_HEAD] = n};
    for (int64_t k = 0; k < 4; k++) {
        int64_t *const at = geometry + SP_MAP_GEO_HEAD + NDIM + k * (2 + NDIM);
        at[0] = k ? from : type;
        at[2] = nbytes_of(k ? from : type);
    }
    const struct sp_args_fused_map args = {
        .y = (uint8_t *)y, .x = {x[0], x[1], x[2]}, .program = (const uint32_t *)code, .consts = consts,
        .geometry = geometry, .y_nbytes = (uint64_t)n * nbytes_of(type), .x0_nbytes = nbytes, .x1_nbytes = nbytes,
        .x2_nbytes = nbytes, .nwords = SP_MAP_INSN_WORDS, .nconsts = 3, .ngeometry = GEOMETRY};
    return routine("fused_map", &args, &plan);
}

void check_fused(void)
{
    const uint32_t n = PICK(1, 15, 31, 32, 33, 64, 100, 255, 256, 300, 1000, 1025, 5000);
    const uint32_t type = rnd_below(3), op = rnd_between(SP_MAP_ADD, SP_MAP_CONVERT);
    const uint32_t from = op == SP_MAP_CONVERT ? rnd_below(3) : type;
    const uint32_t nbytes = nbytes_of(type), before = rnd_below(40), all = before + n + 40;
    uint64_t consts[3];
    uint32_t operand[3];
    void *x[3];
    case_is("op %u type %u from %u n %u, %u elements in", op, type, from, n, before);
    for (uint32_t k = 0; k < 3; k++) {
        x[k] = new_of(from, n);
        memcpy(&consts[k], f64_new(1), 8); /* 8 bytes of nothing in particular */
        memcpy(&consts[k], new_of(from, 1), nbytes_of(from));
        operand[k] = (rnd_below(3) ? (uint32_t)SP_MAP_KIND_INPUT : (uint32_t)SP_MAP_KIND_CONST) << 28 | k;
    }
    const struct sp_map_words code = {op | type << 8, operand[0], operand[1], op == SP_MAP_CONVERT ? from : operand[2]};
    char *const plain = bytes_new((size_t)all * nbytes, nbytes), *const past = bytes_new((size_t)all * nbytes, nbytes);
    memset(plain, 0x5a, (size_t)all * nbytes);
    memset(past, 0x5a, (size_t)all * nbytes);
    const int rc = run(&code, type, from, plain + before * nbytes, x, consts, n, 0);
    if (run(&code, type, from, past + before * nbytes, x, consts, n, 1) != rc)
        fail("returned %d, and another thing past the caches", rc);
    if (rc && type != SP_MAP_I32) /* which has not all of them */
        fail("returned %d", rc);
    for (uint32_t i = 0; i < all; i++)
        if (memcmp(plain + i * nbytes, past + i * nbytes, nbytes)) {
            fail("element %u differs", i);
            return;
        }
}
