/* The functions of struct sp_kmd_ops over a machine. */
#ifndef SP_EMU_KMD_OPS_H
#define SP_EMU_KMD_OPS_H
#include "emu/kmd/state/state.h"

struct kmd_ops *kmd_ops_new(struct kmd_machine *machine);
/* From now on its calls find no machine; says whether some that did are still inside. */
bool kmd_ops_end(struct kmd_ops *ops);
const struct sp_kmd_ops *kmd_ops_table(const struct kmd_ops *ops);
#endif
