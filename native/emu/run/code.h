/* The cache of decoded instructions. Each host thread that runs a dispatch has its own. */
#ifndef SP_EMU_RUN_CODE_H
#define SP_EMU_RUN_CODE_H
#include "emu/wave/slot.h"

struct sp_code_page {
    uint64_t va;
    struct sp_code_page *chain;
    struct sp_slot slot[SP_VM_PAGE / 4];
};
struct sp_code *sp_code_new(uint32_t generation);
void sp_code_free(struct sp_code *code);
struct sp_code_page *sp_code_page(struct sp_code *code, uint64_t va);
/* Decodes the instruction at w->pc into `slot`. Returns 0, or w->stop if the wave must stop. */
int sp_code_fill(struct sp_wave *w, struct sp_slot *slot);
/* Returns the name of the instruction at `pc`. */
const char *sp_code_name(struct sp_wave *w, uint64_t pc);
#endif
