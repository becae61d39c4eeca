/* Fences and syncobjs. */
#ifndef SP_EMU_KMD_SYNC_H
#define SP_EMU_KMD_SYNC_H
#include "emu/kmd/state/state.h"

/* fence.c */
struct kmd_fence *kmd_fence_new(struct kmd_machine *machine);
struct kmd_fence *kmd_fence_get(struct kmd_fence *fence);
void kmd_fence_put(struct kmd_fence *fence);
void kmd_fence_signal(struct kmd_fence *fence, int error);
/* For each sync_file whose fence has signalled, makes the descriptor readable. */
void kmd_tell_sync_files(struct kmd_machine *machine);
/* Returns a fence that signals after all of `fences`, with the first error. NULL: out of memory. A
 * NULL entry counts as signalled. */
struct kmd_fence *kmd_fence_join(struct kmd_machine *machine, struct kmd_fence *const *fences, uint32_t count);

/* syncobj.c */
void kmd_syncobj_put(struct kmd_syncobj *syncobj);
struct kmd_syncobj *kmd_syncobj_find(struct kmd_file *file, uint32_t handle);
int kmd_syncobj_new(struct kmd_machine *machine, struct kmd_syncobj **out);
int kmd_syncobj_set(struct kmd_syncobj *syncobj, struct kmd_fence *fence);
int kmd_syncobj_add(struct kmd_syncobj *syncobj, uint64_t value, struct kmd_fence *fence);
/* Returns a reference to the fence of a point, or NULL if the point has no fence yet. Point 0
 * stands for all points together. */
struct kmd_fence *kmd_syncobj_fence(struct kmd_syncobj *syncobj, uint64_t point);
/* Finds the fence of a syncobj by its handle. With the flag WAIT_FOR_SUBMIT, waits until the
 * syncobj has a fence. Returns 0, -ENOENT, -EINVAL or -ETIME. */
int kmd_syncobj_take(struct kmd_file *file, uint32_t handle, uint64_t point, uint32_t flags, struct kmd_fence **out);
#endif
