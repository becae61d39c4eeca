/* Address spaces. A job sees its address space as it was when the job was submitted. On the real
 * kernel driver this is so because an unmap waits for earlier jobs. Here, a space that a job holds
 * is copied before a change, and a job reads its space without a lock. */
#include "memory.h"

#include <string.h>

struct sp_emu_vm *kmd_vm_new(struct kmd_machine *machine)
{
    struct sp_emu_vm *vm = calloc(1, sizeof(*vm));
    if (vm) {
        vm->refs = 1;
        vm->machine = machine;
    }
    return vm;
}

static void drop_mapping(struct sp_emu_vm *vm, const struct kmd_mapping *mapping)
{
    kmd_bo_put(mapping->bo);
    vm->machine->live.mappings--;
}

void kmd_vm_put(struct sp_emu_vm *vm)
{
    if (!vm || --vm->refs > 0)
        return;
    for (uint32_t i = 0; i < vm->count; i++)
        drop_mapping(vm, &vm->map[i]);
    free(vm->map);
    free(vm);
}

static struct sp_emu_vm *copy(const struct sp_emu_vm *vm)
{
    struct sp_emu_vm *twin = kmd_vm_new(vm->machine);
    if (!twin || vm->count == 0)
        return twin;
    twin->map = malloc(vm->count * sizeof(*twin->map));
    if (!twin->map) {
        free(twin);
        return NULL;
    }
    memcpy(twin->map, vm->map, vm->count * sizeof(*twin->map));
    twin->count = twin->capacity = vm->count;
    for (uint32_t i = 0; i < twin->count; i++)
        if (twin->map[i].bo)
            kmd_bo_get(twin->map[i].bo);
    vm->machine->live.mappings += twin->count;
    return twin;
}

struct sp_emu_vm *kmd_vm_writable(struct kmd_file *file)
{
    if (file->vm->refs > 1) {
        struct sp_emu_vm *own = copy(file->vm);
        if (!own)
            return NULL;
        kmd_vm_put(file->vm);
        file->vm = own;
    }
    return file->vm;
}

/* Returns the index of the first mapping that ends beyond `page`. */
uint32_t kmd_vm_find(const struct sp_emu_vm *vm, uint64_t page)
{
    uint32_t low = 0, high = vm->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (vm->map[middle].end <= page)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int insert_at(struct sp_emu_vm *vm, uint32_t index, const struct kmd_mapping *mapping)
{
    if (vm->count == vm->capacity) {
        uint32_t capacity = vm->capacity ? 2 * vm->capacity : 16;
        struct kmd_mapping *grown = realloc(vm->map, capacity * sizeof(*grown));
        if (!grown)
            return -ENOMEM;
        vm->map = grown;
        vm->capacity = capacity;
    }
    memmove(&vm->map[index + 1], &vm->map[index], (vm->count - index) * sizeof(*vm->map));
    vm->map[index] = *mapping;
    vm->count++;
    if (mapping->bo)
        kmd_bo_get(mapping->bo);
    vm->machine->live.mappings++;
    return 0;
}

int kmd_vm_insert(struct sp_emu_vm *vm, const struct kmd_mapping *mapping)
{
    uint32_t index = kmd_vm_find(vm, mapping->first);
    if (index < vm->count && vm->map[index].first < mapping->end)
        return -EINVAL;
    return insert_at(vm, index, mapping);
}

void kmd_vm_remove(struct sp_emu_vm *vm, uint32_t index)
{
    struct kmd_mapping gone = vm->map[index];
    vm->count--;
    memmove(&vm->map[index], &vm->map[index + 1], (vm->count - index) * sizeof(*vm->map));
    drop_mapping(vm, &gone);
}

/* Unmaps the pages [first, end). If a mapping also has pages outside this range, those stay
 * mapped. */
int kmd_vm_clear(struct sp_emu_vm *vm, uint64_t first, uint64_t end)
{
    uint32_t i = kmd_vm_find(vm, first);
    while (i < vm->count && vm->map[i].first < end) {
        struct kmd_mapping *m = &vm->map[i], tail = *m;
        tail.offset += (end - m->first) * KMD_PAGE;
        tail.first = end;
        /* [first, end) is in the middle of this mapping, so two mappings remain: only this case
         * allocates memory */
        if (m->first < first && m->end > end) {
            int rc = insert_at(vm, i + 1, &tail);
            if (rc < 0)
                return rc;
            vm->map[i].end = first;
            return 0;
        }
        if (m->first < first) {
            m->end = first;
            i++;
        } else if (m->end > end) {
            *m = tail;
            return 0;
        } else {
            kmd_vm_remove(vm, i);
        }
    }
    return 0;
}
