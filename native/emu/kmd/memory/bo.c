/* Memory of BOs. A BO is a range of the machine's memfd that no later BO gets. So a stale mapping
 * sees zeros, and not another BO's data. Heaps (VRAM, GTT) only count bytes: all pages are host
 * memory. */
#define _GNU_SOURCE /* for OFD locks and fallocate */
#include "memory.h"

#include "emu/memory/l2.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Returns the heap number of GDS, GWS or OA; -1 for other domains. */
static int on_chip(uint32_t domain)
{
    return domain == AMDGPU_GEM_DOMAIN_GDS ? 0 : domain == AMDGPU_GEM_DOMAIN_GWS ? 1 : domain == AMDGPU_GEM_DOMAIN_OA ? 2 : -1;
}

uint32_t kmd_on_chip_size(const struct kmd_card *card, uint32_t domain)
{
    if (domain == AMDGPU_GEM_DOMAIN_GDS)
        return card->chip.core.generation >= 11 ? 0x1000 : 0x10000;
    return domain == AMDGPU_GEM_DOMAIN_GWS ? 64 : 16;
}

/* Counts a BO's bytes as used in a heap. Returns false if the heap has too few free bytes. */
static bool charge(struct kmd_bo *bo, uint32_t domain)
{
    struct kmd_card *card = bo->card;
    uint64_t n = bo->nbytes;
    if (domain == AMDGPU_GEM_DOMAIN_VRAM) {
        bool visible = bo->flags & AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED;
        if (n > card->chip.vram_nbytes - card->vram_used)
            return false;
        if (visible && n > card->chip.visible_nbytes - card->visible_used)
            return false;
        card->vram_used += n;
        card->visible_used += visible ? n : 0;
    } else if (domain == AMDGPU_GEM_DOMAIN_GTT) {
        if (n > card->chip.gtt_nbytes - card->gtt_used)
            return false;
        card->gtt_used += n;
    } else if (on_chip(domain) >= 0) {
        uint64_t *used = &card->on_chip_used[on_chip(domain)];
        if (n > (uint64_t)kmd_on_chip_size(card, domain) * KMD_PAGE - *used)
            return false;
        *used += n;
    }
    bo->domain = domain;
    return true;
}

static void uncharge(struct kmd_bo *bo)
{
    struct kmd_card *card = bo->card;
    if (bo->domain == AMDGPU_GEM_DOMAIN_VRAM) {
        card->vram_used -= bo->nbytes;
        card->visible_used -= bo->flags & AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED ? bo->nbytes : 0;
    } else if (bo->domain == AMDGPU_GEM_DOMAIN_GTT) {
        card->gtt_used -= bo->nbytes;
    } else if (on_chip(bo->domain) >= 0) {
        card->on_chip_used[on_chip(bo->domain)] -= bo->nbytes;
    }
    bo->domain = 0;
}

/* Chooses a BO's heap as the kernel driver does. It tries the requested heaps, then the same heaps
 * without the flag CPU_ACCESS_REQUIRED, then GTT too. The BO keeps each change of its flags and
 * domains, so that GEM_OP reports it later. */
static int place(struct kmd_bo *bo)
{
    uint32_t domains = bo->domains;
    for (uint32_t domain = AMDGPU_GEM_DOMAIN_GDS; domain <= AMDGPU_GEM_DOMAIN_OA; domain <<= 1)
        if (domains & domain)
            return charge(bo, domain) ? 0 : -ENOMEM;
    for (int attempt = 0; attempt < 3; attempt++) {
        if (domains & AMDGPU_GEM_DOMAIN_VRAM && charge(bo, AMDGPU_GEM_DOMAIN_VRAM))
            return 0;
        if (domains & AMDGPU_GEM_DOMAIN_GTT && charge(bo, AMDGPU_GEM_DOMAIN_GTT))
            return 0;
        if (!(domains & (AMDGPU_GEM_DOMAIN_VRAM | AMDGPU_GEM_DOMAIN_GTT)))
            return charge(bo, AMDGPU_GEM_DOMAIN_CPU) ? 0 : -ENOMEM;
        if (attempt == 0)
            bo->flags &= ~(uint64_t)AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED;
        else
            bo->domains = domains |= AMDGPU_GEM_DOMAIN_GTT;
    }
    return -ENOMEM;
}

enum { FRESH_MOST = 16 << 20 };

/* Fills a new BO with poison if it could hold foreign data on a real card. A BO in GTT could not:
 * TTM zeroes its pages (ttm_bo_type_device: TTM_TT_FLAG_ZERO_ALLOC). VRAM has data of other
 * processes, unless the caller asked to clear it. Linux clears all VRAM from 6.11 on ("always
 * allocate cleared VRAM for GEM allocations"). Of a large BO only the beginning is poisoned. */
static void fill(struct kmd_bo *bo)
{
    bool kept = !(bo->card->machine->options.lenient & SP_LENIENT_UNINITIALISED);
    bo->marks = kept ? calloc(bo->nbytes / KMD_PAGE, 1) : NULL;
    if (!bo->marks || bo->domain != AMDGPU_GEM_DOMAIN_VRAM || bo->flags & AMDGPU_GEM_CREATE_VRAM_CLEARED ||
        bo->card->kms_minor >= KMD_KMS_CLEARED)
        return;
    uint64_t nbytes = bo->nbytes < FRESH_MOST ? bo->nbytes : FRESH_MOST;
    for (uint64_t at = 0; at < nbytes; at += 4)
        *(uint32_t *)(void *)(bo->host + at) = SP_POISON;
    memset(bo->marks, 1, nbytes / KMD_PAGE);
}

int kmd_bo_new(struct kmd_card *card, uint64_t nbytes, uint32_t domains, uint64_t flags, struct kmd_bo **out)
{
    struct kmd_machine *machine = card->machine;
    struct kmd_bo *bo = calloc(1, sizeof(*bo));
    if (!bo)
        return -ENOMEM;
    *bo = (struct kmd_bo){.refs = 1, .card = card, .nbytes = nbytes, .domains = domains, .flags = flags};
    int rc = place(bo);
    if (rc < 0) {
        free(bo);
        return rc;
    }
    bo->offset = machine->next_offset;
    void *host = mmap(NULL, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, machine->memfd, (off_t)bo->offset);
    if (host == MAP_FAILED) {
        uncharge(bo);
        free(bo);
        return -ENOMEM;
    }
    bo->host = host;
    kmd_alias(bo, bo->host, bo->offset, nbytes);
    fill(bo);
    if (sp_emu_flaw(&card->chip.core, SP_FLAW_DIRTY))
        memset(host, 0x5a, nbytes < 1 << 24 ? nbytes : 1 << 24);
    /* leaves a gap, so that a read past the end of a mapping finds no other BO */
    machine->next_offset += nbytes + KMD_PAGE;
    machine->live.bos++;
    machine->live.bo_nbytes += (int64_t)nbytes;
    *out = bo;
    return 0;
}

int kmd_bo_new_user(struct kmd_card *card, uint64_t address, uint64_t nbytes, bool readonly, struct kmd_bo **out)
{
    struct kmd_bo *bo = calloc(1, sizeof(*bo));
    if (!bo)
        return -ENOMEM;
    *bo = (struct kmd_bo){.refs = 1, .card = card, .nbytes = nbytes, .domains = AMDGPU_GEM_DOMAIN_GTT};
    bo->userptr = true;
    bo->user_readonly = readonly;
    bo->host = (uint8_t *)(uintptr_t)address;
    if (!charge(bo, AMDGPU_GEM_DOMAIN_GTT)) {
        free(bo);
        return -ENOMEM;
    }
    /* A userptr has no memory in the memfd. It gets an offset nevertheless, because the caches
     * identify memory by its offset. */
    bo->offset = card->machine->next_offset;
    card->machine->next_offset += nbytes + KMD_PAGE;
    card->machine->live.bos++;
    card->machine->live.bo_nbytes += (int64_t)nbytes;
    *out = bo;
    return 0;
}

void kmd_bo_get(struct kmd_bo *bo)
{
    bo->refs++;
}

void kmd_bo_put(struct kmd_bo *bo)
{
    if (!bo || --bo->refs > 0)
        return;
    struct kmd_machine *machine = bo->card->machine;
    uncharge(bo);
    kmd_uses_clear(&bo->uses);
    machine->live.bos--;
    machine->live.bo_nbytes -= (int64_t)bo->nbytes;
    for (uint32_t i = 0; i < machine->cards; i++)
        if (machine->card[i].l2)
            sp_l2_forget(machine->card[i].l2, bo->offset / SP_VM_GRAIN, (bo->offset + bo->nbytes) / SP_VM_GRAIN);
    if (!bo->userptr) {
        munmap(bo->host, bo->nbytes);
        fallocate(machine->memfd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)bo->offset, (off_t)bo->nbytes);
    }
    free(bo->marks);
    free(bo);
}

void kmd_bo_move_to_gtt(struct kmd_bo *bo)
{
    struct kmd_card *card = bo->card;
    if (bo->domain == AMDGPU_GEM_DOMAIN_VRAM && bo->nbytes <= card->chip.gtt_nbytes - card->gtt_used) {
        uncharge(bo);
        charge(bo, AMDGPU_GEM_DOMAIN_GTT);
    }
}
