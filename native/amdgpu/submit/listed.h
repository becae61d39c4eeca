/* Which memory a submission names to the kernel. */
#ifndef SP_AMDGPU_LISTED_H
#define SP_AMDGPU_LISTED_H
#include "amdgpu/flight/queue.h"

static inline int sp_list_holds(const struct sp_amdgpu *dev, const struct sp_list *list)
{
    return list->turn == atomic_load_explicit(&dev->list_turn, memory_order_acquire);
}
/* The list of these records, made anew if it does not hold: 0 or -ENOMEM. */
int sp_list_make(struct sp_amdgpu *dev, struct sp_list *list, const void *records, size_t nbytes);
int sp_list_add(struct sp_list *list, uint32_t handle);
/* Keeps words, for sp_amdgpu_said, about listed host memory whose pages the kernel could not take. */
void sp_list_say_dead(struct sp_amdgpu *dev, const struct sp_list *list);
#endif
