/* Handles: addresses in a table that nothing but fk_object reads. None is given out twice. */
#include "../include/fake.h"

#include <sys/mman.h>

struct fk_slot *fk_slots;
_Atomic int64_t fk_live[FK_KINDS];
static _Atomic uint32_t next = 1; /* slot 0 would be no NULL, but let it be nobody's */

__attribute__((constructor(101))) static void reserve(void)
{
    void *const at = mmap(NULL, sizeof(struct fk_slot) * FK_SLOTS, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    fk_slots = at == MAP_FAILED ? NULL : at;
}

void *fk_handle_new(enum fk_kind kind, void *object)
{
    const uint32_t index = fk_slots ? atomic_fetch_add(&next, 1) : FK_SLOTS;
    if (index >= FK_SLOTS) {
        atomic_store(&next, FK_SLOTS);
        return NULL;
    }
    fk_slots[index].object = object;
    fk_slots[index].kind = (uint64_t)kind;
    atomic_fetch_add(&fk_live[kind], 1);
    return &fk_slots[index];
}

void fk_handle_free(void *handle)
{
    struct fk_slot *const slot = handle;
    if (!slot || slot->kind == 0)
        return;
    atomic_fetch_sub(&fk_live[slot->kind], 1);
    slot->kind = 0;
    slot->object = NULL;
}
