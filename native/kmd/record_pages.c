/* Records the memory of BOs as it changes. A BO's `held` has the bytes that the file has for the BO
 * so far. */
#include "record.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE = 4096, GRAIN = 16 };

static int hold(struct sp_record *r, const struct sp_record_node *node, struct sp_record_bo *bo)
{
    if (bo->held || bo->unheld)
        return !bo->unheld;
    void *map = bo->foreign || bo->nbytes > r->max_bo ? MAP_FAILED : NULL;
    if (!map && !bo->user)
        map = sp_record_bo_map(r, node, bo, bo->nbytes);
    if (map != MAP_FAILED) {
        bo->map = map;
        bo->held = calloc(1, bo->nbytes);
    }
    bo->unheld = !bo->held;
    if (bo->unheld)
        sp_record_say(&r->text, "unheld node=%d bo=%u\n", node->number, bo->handle);
    return !bo->unheld;
}

/* Writes the changed parts of one page to the recording, in units of GRAIN bytes. Neighbouring
 * units share one line of text. */
static void page(struct sp_record *r, const struct sp_record_node *node, struct sp_record_bo *bo, uint64_t at,
                 const unsigned char *now, size_t nbytes, const char *who)
{
    unsigned char *held = bo->held + at;
    for (size_t i = 0; i < nbytes;) {
        size_t begin = i;
        while (i < nbytes && memcmp(now + i, held + i, nbytes - i < GRAIN ? nbytes - i : GRAIN) != 0)
            i += GRAIN;
        size_t end = i < nbytes ? i : nbytes;
        if (begin < end) {
            sp_record_say(&r->text, "%s node=%d bo=%u at=%llx ", who, node->number, bo->handle,
                        (unsigned long long)(at + begin));
            sp_record_hex(&r->text, now + begin, end - begin);
            sp_record_say(&r->text, "\n");
        }
        i += GRAIN;
    }
    memcpy(held, now, nbytes);
}

void sp_record_pages(struct sp_record *r, struct sp_record_node *node, const char *who)
{
    unsigned char now[PAGE];
    for (struct sp_record_bo *bo = node->bos; bo; bo = bo->next) {
        if (!hold(r, node, bo))
            continue;
        for (uint64_t at = 0; at < bo->nbytes; at += PAGE) {
            size_t n = bo->nbytes - at < PAGE ? (size_t)(bo->nbytes - at) : PAGE;
            if (bo->map)
                memcpy(now, bo->map + at, n);
            else if (sp_record_peek(now, bo->user + at, n) != n)
                /* the program has unmapped this memory; the next submission that uses it
                 * fails */
                break;
            if (memcmp(now, bo->held + at, n) != 0)
                page(r, node, bo, at, now, n, who);
        }
        sp_record_file_put(&r->file, &r->text);
    }
}
