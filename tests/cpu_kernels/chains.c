/* Programs of fused_map that go through several instructions at a time (native/cpu/map/chain.c): what they leave is what
 * their instructions leave one after the other, each in a run of its own, to the bit; NaNs are as good as each other.
 * (That single ones are right is checked from Python, against numpy.) */
#include "check.h"

#include "include/sp_map.h"

#include <math.h>
#include <string.h>

enum {
    NDIM = 1,
    GEOMETRY = SP_MAP_GEO_HEAD + NDIM + (SP_MAP_INPUTS + 1) * (2 + NDIM),
    MOST = 12,
    REGISTERS = 3,
    ARRAYS = 4,
    CONSTS = 2,
};

static const uint32_t simple[] = {
    SP_MAP_ADD, SP_MAP_SUB, SP_MAP_MUL, SP_MAP_NEG, SP_MAP_ABS, SP_MAP_RELU, SP_MAP_MIN, SP_MAP_MAX, SP_MAP_SQUARE,
    SP_MAP_LT, SP_MAP_LE, SP_MAP_GT, SP_MAP_GE, SP_MAP_EQ, SP_MAP_NE, SP_MAP_WHERE,
    /* of reals only: */
    SP_MAP_DIV, SP_MAP_SQRT, SP_MAP_FLOOR, SP_MAP_FMA, SP_MAP_FMS, SP_MAP_FNMA,
    /* seldom, since not all types and instruction sets take several of them at a time: */
    SP_MAP_EXP, SP_MAP_TANH, SP_MAP_SIGMOID, SP_MAP_LOG};
enum { OF_INTEGERS = 16, OF_REALS = 22, OPS = sizeof simple / sizeof *simple };

struct array {
    char *at;
    uint32_t once; /* one element for all */
};

static uint32_t type_of_case, n_of_case;
static uint64_t consts[CONSTS];

static uint32_t size_of_type(void)
{
    return type_of_case == SP_MAP_F64 ? 8 : 4;
}

static void *some(size_t n)
{
    return type_of_case == SP_MAP_F64   ? (void *)f64_new(n)
           : type_of_case == SP_MAP_F32 ? (void *)f32_new(n)
                                        : (void *)i32_new(n);
}

static int run(const struct sp_map_words *code, uint32_t ninsns, char *y, const struct array *x, int stream)
{
    const struct sp_tile_plan plan = {.threads = 1};
    const uint64_t size = size_of_type(), nbytes = n_of_case * size;
    int64_t geometry[GEOMETRY] = {[SP_MAP_GEO_NDIM] = NDIM, [SP_MAP_GEO_STREAM] = stream, [SP_MAP_GEO_HEAD] = n_of_case};
    for (int64_t k = 0; k <= ARRAYS; k++) {
        int64_t *const at = geometry + SP_MAP_GEO_HEAD + NDIM + k * (2 + NDIM);
        at[0] = type_of_case;
        at[2] = k && x[k - 1].once ? 0 : (int64_t)size;
    }
    const struct sp_args_fused_map args = {.y = (uint8_t *)y,
                                           .x = {(uint8_t *)x[0].at, (uint8_t *)x[1].at, (uint8_t *)x[2].at,
                                                 (uint8_t *)x[3].at},
                                           .program = (const uint32_t *)code,
                                           .consts = consts,
                                           .geometry = geometry,
                                           .y_nbytes = nbytes,
                                           .x0_nbytes = x[0].once ? size : nbytes,
                                           .x1_nbytes = x[1].once ? size : nbytes,
                                           .x2_nbytes = x[2].once ? size : nbytes,
                                           .x3_nbytes = x[3].once ? size : nbytes,
                                           .nwords = SP_MAP_INSN_WORDS * ninsns,
                                           .nconsts = CONSTS,
                                           .ngeometry = GEOMETRY};
    return routine("fused_map", &args, &plan);
}

/* A register that has something in it, most often the last one's; an input; a constant. */
static uint32_t operand(uint32_t written, uint32_t last)
{
    const uint32_t wanted = rnd_below(4) ? last : rnd_below(REGISTERS);
    if (written >> wanted & 1 && rnd_below(2))
        return SP_MAP_KIND_REGISTER << 28 | wanted;
    return rnd_below(4) ? (uint32_t)SP_MAP_KIND_INPUT << 28 | rnd_below(ARRAYS)
                        : (uint32_t)SP_MAP_KIND_CONST << 28 | rnd_below(CONSTS);
}

/* One instruction alone; its registers are inputs. */
static int alone(struct sp_map_words code, const struct array *x, const struct array *registers, char *y)
{
    struct array given[ARRAYS];
    uint32_t *const operands[3] = {&code.a, &code.b, &code.c};
    memcpy(given, x, sizeof given);
    for (uint32_t k = 0; k < 3; k++)
        if (*operands[k] >> 28 != SP_MAP_KIND_CONST) {
            given[k] = *operands[k] >> 28 ? x[*operands[k] & 0xff] : registers[*operands[k] & 0xff];
            if (!given[k].at) /* the instruction does not have this operand */
                given[k] = x[k];
            *operands[k] = (uint32_t)SP_MAP_KIND_INPUT << 28 | k;
        }
    code.head &= 0xffff;
    return run(&code, 1, y, given, 0);
}

static int is_same(const char *a, const char *b)
{
    float f[2];
    double d[2];
    if (memcmp(a, b, size_of_type()) == 0)
        return 1;
    memcpy(&f[0], a, 4), memcpy(&f[1], b, 4);
    if (type_of_case == SP_MAP_F32)
        return isnan(f[0]) && isnan(f[1]);
    memcpy(&d[0], a, size_of_type()), memcpy(&d[1], b, size_of_type());
    return type_of_case == SP_MAP_F64 && isnan(d[0]) && isnan(d[1]);
}

void check_chains(void)
{
    const uint32_t n = n_of_case = rnd_below(3) ? PICK(1, 63, 64, 65, 127, 128, 129, 255, 256, 300, 1000, 2049, 9000) :
                                                  rnd_between(1, 600);
    const uint32_t type = type_of_case = rnd_below(3), size = size_of_type(), ninsns = rnd_between(2, MOST);
    const uint32_t before = rnd_below(40), all = before + n + 40;
    const int stream = (int)rnd_below(2), in_place = rnd_below(4) == 0;
    const uint32_t seldom = rnd_below(3) == 0;
    struct sp_map_words code[MOST];
    struct array x[ARRAYS], registers[REGISTERS] = {0};
    uint32_t written = 0, last = 0;
    case_is("%u instructions type %u n %u, %u elements in, stream %d, in place %d", ninsns, type, n, before, stream,
            in_place);
    char *const y = bytes_new((size_t)all * size, size);
    memset(y, 0x5a, (size_t)all * size);
    for (uint32_t k = 0; k < ARRAYS; k++) {
        x[k].once = rnd_below(5) == 0;
        x[k].at = some(x[k].once ? 1 : n);
    }
    if (in_place && !x[0].once)
        memcpy(y + before * size, x[0].at, (size_t)n * size);
    for (uint32_t k = 0; k < CONSTS; k++)
        memcpy(&consts[k], some(1), size);
    for (uint32_t i = 0; i < ninsns; i++) {
        const uint32_t op = simple[rnd_below(type == SP_MAP_I32 ? OF_INTEGERS : seldom ? OPS : OF_REALS)];
        const uint32_t out = rnd_below(REGISTERS);
        code[i] = (struct sp_map_words){op | type << 8 | out << 16, operand(written, last), operand(written, last),
                                        operand(written, last)};
        char *const result = bytes_new((size_t)n * size, size);
        if (alone(code[i], x, registers, result))
            fail("instruction %u, op %u, alone", i, op);
        registers[out] = (struct array){result, 0};
        written |= 1u << out;
        last = out;
    }
    if (in_place && !x[0].once)
        x[0].at = y + before * size;
    const int rc = run(code, ninsns, y + before * size, x, stream);
    if (rc)
        fail("returned %d", rc);
    for (uint32_t i = 0; i < all; i++) {
        const int inside = i >= before && i < before + n;
        static const char nothing[8] = {0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a};
        const char *const want = inside ? registers[last].at + (size_t)(i - before) * size : nothing;
        if (inside ? !is_same(y + i * size, want) : memcmp(y + i * size, want, size) != 0) {
            fail("element %d differs", (int)i - (int)before);
            return;
        }
    }
}
