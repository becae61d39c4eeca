/* Implements a queue's list of faults and its ring of times. */
#include "ledger.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int sp_ledger_init(struct sp_ledger *ledger, int keep_times)
{
    memset(ledger, 0, sizeof *ledger);
    if (keep_times && !(ledger->times = calloc(SP_TIMES, sizeof *ledger->times)))
        return -ENOMEM;
    return 0;
}

void sp_ledger_free(struct sp_ledger *ledger)
{
    free(ledger->times);
    free(ledger->faults);
}

static void note_fault(struct sp_ledger *ledger, struct sp_fault fault)
{
    uint32_t n = atomic_load(&ledger->nfaults);
    struct sp_fault *more = realloc(ledger->faults, (n + 1) * sizeof *more);
    if (more)
        ledger->faults = more;
    else if (n-- == 0)
        return;
    ledger->faults[n] = fault;
    atomic_store(&ledger->nfaults, n + 1);
}

void sp_ledger_note(struct sp_ledger *ledger, uint64_t value, uint64_t start_ns, uint64_t end_ns, int rc)
{
    if (ledger->times)
        ledger->times[value % SP_TIMES] = (struct sp_times){.value = value, .start_ns = start_ns, .end_ns = end_ns};
    if (rc)
        note_fault(ledger, (struct sp_fault){.value = value, .rc = rc});
}

int sp_ledger_fault(const struct sp_ledger *ledger, uint64_t value)
{
    uint32_t n = atomic_load(&ledger->nfaults);
    int rc = 0;
    for (const struct sp_fault *f = ledger->faults; f < ledger->faults + n; f++) {
        if (f->value == value)
            return f->rc;
        if (rc == 0 && f->value < value && (f->until == 0 || value <= f->until))
            rc = f->rc;
    }
    return rc;
}

int sp_ledger_tell(struct sp_ledger *ledger, uint64_t value, uint64_t newest)
{
    int rc = sp_ledger_fault(ledger, value);
    for (uint32_t i = 0; rc && i < atomic_load(&ledger->nfaults); i++) {
        struct sp_fault *fault = &ledger->faults[i];
        if (fault->until == 0 && fault->value <= value)
            fault->until = fault->value == value ? value : newest;
    }
    return rc;
}

int sp_ledger_among(const struct sp_ledger *ledger, uint64_t first, uint64_t last)
{
    uint32_t n = atomic_load(&ledger->nfaults);
    for (const struct sp_fault *f = ledger->faults; f < ledger->faults + n; f++)
        if (first <= f->value && f->value <= last)
            return f->rc;
    return 0;
}

int sp_ledger_times(const struct sp_ledger *ledger, uint64_t value, uint64_t *start_ns, uint64_t *end_ns)
{
    if (!ledger->times || value == 0)
        return -ENOENT;
    const struct sp_times *t = &ledger->times[value % SP_TIMES];
    *start_ns = t->start_ns;
    *end_ns = t->end_ns;
    return t->value == value ? 0 : -ENOENT;
}
