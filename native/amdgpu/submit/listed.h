/* The memory that a submission lists for the kernel. */
#ifndef SP_AMDGPU_LISTED_H
#define SP_AMDGPU_LISTED_H
#include "amdgpu/flight/queue.h"

static inline int sp_list_holds(const struct sp_amdgpu *dev, const struct sp_list *list)
{
    return list->turn == atomic_load_explicit(&dev->list_turn, memory_order_acquire);
}
int sp_list_make(struct sp_amdgpu *dev, struct sp_list *list, const void *records, size_t nbytes);
/* Makes the list of these records again if it is outdated. 0 or -ENOMEM. */
static inline int sp_list_renew(struct sp_amdgpu *dev, struct sp_list *list, const void *records, size_t nbytes)
{
    const uint64_t turn = atomic_load(&dev->list_turn);
    if (list->turn == turn)
        return 0;
    if (atomic_load(&dev->nlisted))
        return sp_list_make(dev, list, records, nbytes);
    list->n = 0; /* the usual case: no memory is shared, no look-up is needed */
    list->turn = turn;
    return 0;
}
int sp_list_add(struct sp_list *list, uint32_t handle);
/* Records a text, for sp_amdgpu_said, about listed host memory whose pages the kernel could not
 * take. */
void sp_list_say_dead(struct sp_amdgpu *dev, const struct sp_list *list);
#endif
