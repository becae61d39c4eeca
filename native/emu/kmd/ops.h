/* The functions of struct sp_kmd_ops, which act on a machine. */
#ifndef SP_EMU_KMD_OPS_H
#define SP_EMU_KMD_OPS_H
#include "emu/kmd/state/state.h"

struct kmd_ops *kmd_ops_new(struct kmd_machine *machine);
/* Makes all further calls return -ENODEV. Returns true if earlier calls are still running. */
bool kmd_ops_end(struct kmd_ops *ops);
const struct sp_kmd_ops *kmd_ops_table(const struct kmd_ops *ops);
#endif
