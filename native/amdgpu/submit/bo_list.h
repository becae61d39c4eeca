/* The list of memory (BO handles) that a submission names to the kernel driver. */
#ifndef SP_AMDGPU_BO_LIST_H
#define SP_AMDGPU_BO_LIST_H
#include "amdgpu/flight/queue.h"

static inline int sp_bo_list_is_current(const struct sp_amdgpu *dev, const struct sp_bo_list *list)
{
    return list->turn == atomic_load_explicit(&dev->list_turn, memory_order_acquire);
}
int sp_bo_list_make(struct sp_amdgpu *dev, struct sp_bo_list *list, const void *records, size_t nbytes);
/* Makes the list for these records again if the list is outdated. Returns 0 or -ENOMEM. */
static inline int sp_bo_list_update(struct sp_amdgpu *dev, struct sp_bo_list *list, const void *records, size_t nbytes)
{
    const uint64_t turn = atomic_load(&dev->list_turn);
    if (list->turn == turn)
        return 0;
    if (atomic_load(&dev->nlisted))
        return sp_bo_list_make(dev, list, records, nbytes);
    list->n = 0; /* the usual case: no memory has to be in the list, so nothing is looked up */
    list->turn = turn;
    return 0;
}
int sp_bo_list_add(struct sp_bo_list *list, uint32_t handle);
/* Records an error text, which sp_amdgpu_error_text returns, about listed host memory whose pages
 * the kernel driver could not pin. */
void sp_bo_list_say_unmapped(struct sp_amdgpu *dev, const struct sp_bo_list *list);
#endif
