/* One open of a render node: its handles, its contexts, its address space. */
#include "files.h"
#include "emu/kmd/jobs/jobs.h"
#include "emu/kmd/memory/memory.h"
#include "emu/kmd/sync/sync.h"

int kmd_file_open(struct kmd_card *card, struct kmd_file **out)
{
    struct kmd_machine *machine = card->machine;
    struct kmd_file *file = calloc(1, sizeof(*file));
    if (!file)
        return -ENOMEM;
    file->refs = 1;
    file->serial = ++machine->next_serial;
    file->card = card;
    file->vm = kmd_vm_new(machine);
    if (!file->vm || kmd_idr_add(&machine->files, file, &file->id) < 0) {
        kmd_vm_put(file->vm);
        free(file);
        return -ENOMEM;
    }
    machine->live.files++;
    *out = file;
    return 0;
}

static void drop_all(struct kmd_file *file)
{
    void *object;
    for (uint32_t id = 1; id <= file->ctxs.capacity; id++)
        if ((object = kmd_idr_remove(&file->ctxs, id)))
            kmd_ctx_put(object);
    for (uint32_t id = 1; id <= file->lists.capacity; id++)
        if ((object = kmd_idr_remove(&file->lists, id)))
            kmd_bo_list_put(object);
    for (uint32_t id = 1; id <= file->syncobjs.capacity; id++)
        if ((object = kmd_idr_remove(&file->syncobjs, id)))
            kmd_syncobj_put(object);
    for (uint32_t id = 1; id <= file->bos.capacity; id++)
        if ((object = kmd_idr_remove(&file->bos, id)))
            kmd_bo_put(object);
}

void kmd_file_put(struct kmd_file *file)
{
    if (--file->refs > 0)
        return;
    struct kmd_machine *machine = file->card->machine;
    drop_all(file);
    kmd_uses_clear(&file->uses);
    kmd_vm_put(file->vm);
    free(file->ctxs.slot);
    free(file->lists.slot);
    free(file->syncobjs.slot);
    free(file->bos.slot);
    free(file);
    machine->live.files--;
}

void kmd_file_close(struct kmd_machine *machine, struct kmd_file *file)
{
    kmd_idr_remove(&machine->files, file->id);
    /* if running jobs or ioctls still hold references, the last of them frees the file */
    kmd_file_put(file);
}
