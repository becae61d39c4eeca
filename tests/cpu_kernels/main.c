/* cpu_kernels ISA [CASES [SEED [CHECK]]]: so many random cases of each check; 1 if one fails, 77 if this machine has no ISA. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    void (*run)(void);
} checks[] = {
    {"gemm_f32", check_gemm_f32}, {"gemm_f64", check_gemm_f64}, {"conv2d", check_conv2d}, {"map", check_map},
    {"fused", check_fused},       {"chains", check_chains},     {"spans", check_spans},   {"reduce", check_reduce},
    {"layout", check_layout},     {"strided", check_strided},   {"affinity", check_affinity},
};

static const char *const isas[] = {"ref", "neon", "avx2", "avx512"}; /* enum sp_isa */

static int isa_of(const char *name)
{
    for (int i = 0; i < 4; i++)
        if (strcmp(name, isas[i]) == 0)
            return i;
    return -1;
}

int main(int argc, char **argv)
{
    const int isa = argc > 1 ? isa_of(argv[1]) : -1;
    const uint32_t cases = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 100;
    const uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
    struct sp_pool pool = {0};
    if (isa < 0) {
        fprintf(stderr, "usage: cpu_kernels ref|neon|avx2|avx512 [cases [seed [check]]]\n");
        return 2;
    }
    if (!(sp_cpu_isa_mask() >> isa & 1)) {
        printf("this machine has no %s\n", argv[1]);
        return 77;
    }
    check_isa = (enum sp_isa)isa;
    if (sp_pool_init(&pool, 3))
        return 2;
    for (size_t c = 0; c < sizeof checks / sizeof *checks; c++) {
        if (argc > 4 && strcmp(argv[4], checks[c].name))
            continue;
        for (uint32_t i = 0; i < cases; i++) {
            case_begin(checks[c].name, seed, i);
            check_pool = rnd_below(2) ? &pool : NULL;
            checks[c].run();
            case_end();
        }
        printf("%s %s: %u cases\n", argv[1], checks[c].name, cases);
    }
    sp_pool_stop(&pool);
    printf("%d failures\n", failures());
    return failures() != 0;
}
