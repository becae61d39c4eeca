/* BOs, address spaces, and the memory that a job may touch. */
#ifndef SP_EMU_KMD_MEMORY_H
#define SP_EMU_KMD_MEMORY_H
#include "emu/kmd/state/state.h"

/* Returns how much GDS (in bytes), GWS or OA (in pieces) a card has (Linux, gfx_v10_0_set_gds_init,
 * gfx_v11_0_set_gds_init). */
uint32_t kmd_on_chip_size(const struct kmd_card *card, uint32_t domain);
int kmd_bo_new(struct kmd_card *card, uint64_t nbytes, uint32_t domains, uint64_t flags, struct kmd_bo **out);
int kmd_bo_new_user(struct kmd_card *card, uint64_t address, uint64_t nbytes, bool readonly, struct kmd_bo **out);
void kmd_bo_get(struct kmd_bo *bo);
void kmd_bo_put(struct kmd_bo *bo);
void kmd_bo_move_to_gtt(struct kmd_bo *bo);
/* uses.c: records that a job uses a BO or an address space. Returns 0 or -ENOMEM. */
int kmd_uses_add(struct kmd_uses *uses, struct kmd_fence *fence, uint64_t owner);
void kmd_uses_prune(struct kmd_uses *uses); /* removes the uses whose fence has signalled */
void kmd_uses_clear(struct kmd_uses *uses);
/* userptr.c: checks the pages of a userptr. Returns 0, or -EFAULT if pages are unmapped, or are
 * read-only although the BO is writable. */
int kmd_userptr_check(const struct kmd_bo *bo);
/* Checks all pages of a userptr when a submission lists its BO. Counts the pages, and takes the
 * time that a planted flaw sets for each. Returns as kmd_userptr_check does. Real cards walk every
 * page too, whatever the job touches (amdgpu_cs_parser_bos). */
int kmd_userptr_walk(const struct kmd_bo *bo);
/* Imitates a broken address line of the card's memory (SP_FLAW_LINE), if the card has this flaw:
 * replaces some pages of a mapping by others. `at` is the address where [offset, offset + nbytes)
 * of the memfd is mapped. */
void kmd_alias(const struct kmd_bo *bo, uint8_t *at, uint64_t offset, uint64_t nbytes);

/* space.c */
struct sp_emu_vm *kmd_vm_new(struct kmd_machine *machine);
void kmd_vm_put(struct sp_emu_vm *vm);
/* Returns the file's address space for a change. Copies it first if a job shares it. NULL: out of
 * memory. */
struct sp_emu_vm *kmd_vm_writable(struct kmd_file *file);
uint32_t kmd_vm_find(const struct sp_emu_vm *vm, uint64_t page);
int kmd_vm_insert(struct sp_emu_vm *vm, const struct kmd_mapping *mapping);
int kmd_vm_clear(struct sp_emu_vm *vm, uint64_t first, uint64_t end);
void kmd_vm_remove(struct sp_emu_vm *vm, uint32_t index);

/* pages.c: implements find of struct sp_emu_view. */
int kmd_vm_page(const struct sp_emu_view *view, uint64_t va, struct sp_emu_page *page, struct sp_emu_fault *fault);

/* bo_list.c */
int kmd_bo_list_read(struct kmd_file *file, const struct drm_amdgpu_bo_list_in *in, struct kmd_bo_list **out);
void kmd_bo_list_put(struct kmd_bo_list *list);
#endif
