/* Records the IBs of a submission and the IBs that they call, in the capture format of docs/pm4.md.
 * The IBs are read from GPU memory before the submission. */
#include "record.h"

#include "gen/pm4_packets.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_NDW = 0xfffff, MOST_DEPTH = 8, MOST_IBS = 256, LINE_NDW = 8 };
/* Positions of the fields type, count and opcode in a PM4 packet's header. In INDIRECT_BUFFER,
 * dwords 1 and 2 are the address of the called IB; bits 19 to 0 of dword 3 are its size. */
enum { TYPE_SHIFT = 30, COUNT_SHIFT = 16, COUNT_MASK = 0x3fff, OPCODE_SHIFT = 8, NO_BODY = 0x3fff };

struct walk {
    struct sp_record *r;
    const struct sp_record_node *node;
    uint32_t ip;
    uint32_t n;
    struct {
        uint64_t va;
        uint32_t ndw;
    } seen[MOST_IBS];
};

static void list(struct walk *w, uint64_t va, uint32_t ndw, uint32_t depth);

static void follow(struct walk *w, const uint32_t *dwords, uint32_t ndw, uint32_t depth)
{
    for (uint32_t at = 0; at < ndw;) {
        uint32_t head = dwords[at], count = head >> COUNT_SHIFT & COUNT_MASK;
        if (head >> TYPE_SHIFT != 3) {
            at++;
            continue;
        }
        uint32_t length = count == NO_BODY ? 1 : count + 2;
        if ((head >> OPCODE_SHIFT & 0xff) == PM4_INDIRECT_BUFFER && length == PM4_INDIRECT_BUFFER_NDW && ndw - at >= length)
            list(w, dwords[at + 1] | (uint64_t)dwords[at + 2] << 32, dwords[at + 3] & MOST_NDW, depth + 1);
        at += length;
    }
}

static void list(struct walk *w, uint64_t va, uint32_t ndw, uint32_t depth)
{
    struct sp_record_text *text = &w->r->text;
    for (uint32_t i = 0; i < w->n; i++)
        if (w->seen[i].va == va && w->seen[i].ndw == ndw)
            return;
    if (w->n == MOST_IBS || depth > MOST_DEPTH || !ndw)
        return;
    w->seen[w->n].va = va;
    w->seen[w->n++].ndw = ndw;
    uint32_t *dwords = malloc((size_t)ndw * 4);
    if (!dwords || sp_record_gpu(w->r, w->node, va, dwords, (size_t)ndw * 4) != (size_t)ndw * 4) {
        sp_record_say(text, "# the IB at %llx, %u dwords, cannot be read\n", (unsigned long long)va, ndw);
        free(dwords);
        return;
    }
    sp_record_say(text, "IB ip=%u depth=%u va=%llx ndw=%u\n", w->ip, depth, (unsigned long long)va, ndw);
    for (uint32_t i = 0; i < ndw; i++)
        sp_record_say(text, "%s%08x%s", i % LINE_NDW ? " " : "  DWORDS hdr=", dwords[i],
                    i % LINE_NDW == LINE_NDW - 1 || i == ndw - 1 ? "\n" : "");
    if (w->ip != AMDGPU_HW_IP_DMA)
        follow(w, dwords, ndw, depth);
    free(dwords);
}

void sp_record_ibs(struct sp_record *r, const struct sp_record_node *node, const union drm_amdgpu_cs *cs,
                   struct drm_amdgpu_cs_chunk_ib *entity)
{
    struct walk *w = calloc(1, sizeof *w);
    for (uint32_t i = 0; w && i < cs->in.num_chunks && i < SP_RECORD_SPANS; i++) {
        uint64_t pointer;
        struct drm_amdgpu_cs_chunk chunk;
        struct drm_amdgpu_cs_chunk_ib ib;
        if (sp_record_peek(&pointer, cs->in.chunks + i * UINT64_C(8), 8) != 8 ||
            sp_record_peek(&chunk, pointer, sizeof chunk) != sizeof chunk)
            break;
        if (chunk.chunk_id != AMDGPU_CHUNK_ID_IB || sp_record_peek(&ib, chunk.chunk_data, sizeof ib) != sizeof ib)
            continue;
        *entity = ib;
        w->r = r, w->node = node, w->ip = ib.ip_type;
        if (ib.ip_type <= AMDGPU_HW_IP_DMA)
            list(w, ib.va_start, ib.ib_bytes / 4 & MOST_NDW, 0);
    }
    free(w);
}
