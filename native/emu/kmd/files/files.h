/* Descriptors: render nodes, dma-bufs, syncobjs, sync_files. */
#ifndef SP_EMU_KMD_FILES_H
#define SP_EMU_KMD_FILES_H
#include "emu/kmd/state/state.h"

/* fd.c */
struct kmd_file *kmd_file_of(struct kmd_machine *machine, int fd);
struct kmd_token *kmd_token_of(struct kmd_machine *machine, int fd);
int kmd_token_dmabuf(struct kmd_machine *machine, struct kmd_bo *bo, uint32_t flags);
int kmd_token_syncobj(struct kmd_machine *machine, struct kmd_syncobj *syncobj);
int kmd_token_sync_file(struct kmd_machine *machine, struct kmd_fence *fence);
/* Releases objects that no process holds open any more. */
void kmd_sweep(struct kmd_machine *machine);
void kmd_drop_tokens(struct kmd_machine *machine);

/* file.c */
int kmd_file_open(struct kmd_card *card, struct kmd_file **out);
void kmd_file_close(struct kmd_machine *machine, struct kmd_file *file);
void kmd_file_put(struct kmd_file *file);
#endif
