#include "tables.h"
#include <stddef.h>

#include "gen/pm4_tables.inc"
#include "gen/regs_tables.inc"
#include "gen/sdma_tables.inc"

enum { FIRST_LEVEL = 9, LEVELS = 4 };
#define COUNT(array) (sizeof(array) / sizeof *(array))
#define FOUR(name, member) member(name##9), member(name##10), member(name##11), member(name##12)
#define ITSELF(array) array

static const struct sp_packet *const pm4[LEVELS] = {FOUR(pm4_gfx, ITSELF)};
static const size_t pm4_count[LEVELS] = {FOUR(pm4_gfx, COUNT)};
static const struct sp_packet *const sdma[LEVELS] = {FOUR(sdma_gfx, ITSELF)};
static const size_t sdma_count[LEVELS] = {FOUR(sdma_gfx, COUNT)};
/* Lists of registers: registers[space][level], by enum sp_space and by generation from FIRST_LEVEL
 * on. Each list ends with offset 0xffff. */
static const struct sp_register *const registers[][LEVELS] = {
    {FOUR(sh_gfx, ITSELF)},
    {FOUR(context_gfx, ITSELF)},
    {FOUR(uconfig_gfx, ITSELF)},
};

const struct sp_packet *sp_emu_pm4_packet(uint32_t generation, uint32_t ip, uint32_t opcode)
{
    uint32_t level = generation - FIRST_LEVEL;
    for (size_t i = 0; level < LEVELS && i < pm4_count[level]; i++)
        if (pm4[level][i].code == opcode && pm4[level][i].queues >> ip & 1)
            return &pm4[level][i];
    return NULL;
}

const struct sp_packet *sp_emu_sdma_packet(uint32_t generation, uint32_t code)
{
    uint32_t level = generation - FIRST_LEVEL;
    for (size_t i = 0; level < LEVELS && i < sdma_count[level]; i++)
        if (sdma[level][i].code == code)
            return &sdma[level][i];
    return NULL;
}

const struct sp_register *sp_emu_register(uint32_t generation, enum sp_space space, uint32_t offset)
{
    uint32_t level = generation - FIRST_LEVEL;
    if (level >= LEVELS)
        return NULL;
    const struct sp_register *at = registers[space][level];
    while (at->offset < offset)
        at++;
    return at->offset == offset ? at : NULL;
}
