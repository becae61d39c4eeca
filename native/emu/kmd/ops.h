/* The functions of struct sp_kmd_ops over a machine. */
#ifndef SP_EMU_KMD_OPS_H
#define SP_EMU_KMD_OPS_H
#include "emu/kmd/state/state.h"

struct kmd_ops *kmd_ops_new(struct kmd_machine *machine);
/* Lets no further call find the machine. True: earlier calls are still inside. */
bool kmd_ops_end(struct kmd_ops *ops);
const struct sp_kmd_ops *kmd_ops_table(const struct kmd_ops *ops);
#endif
