/* Rings of the newest faults and times. */
#include "ledger.h"

#include <errno.h>
#include <stdlib.h>

int sp_ledger_init(struct sp_ledger *ledger, int keep_times)
{
    *ledger = (struct sp_ledger){.nfaults = 0};
    if (keep_times && !(ledger->times = calloc(SP_TIMES, sizeof *ledger->times)))
        return -ENOMEM;
    return 0;
}

void sp_ledger_free(struct sp_ledger *ledger)
{
    free(ledger->times);
    ledger->times = NULL;
}

void sp_ledger_note(struct sp_ledger *ledger, uint64_t value, uint64_t start_ns, uint64_t end_ns, int rc)
{
    if (ledger->times)
        ledger->times[value % SP_TIMES] = (struct sp_times){.value = value, .start_ns = start_ns, .end_ns = end_ns};
    if (rc)
        ledger->faults[ledger->nfaults++ % SP_FAULTS] = (struct sp_fault){.value = value, .rc = rc};
}

int sp_ledger_fault(const struct sp_ledger *ledger, uint64_t value)
{
    for (int i = 0; i < SP_FAULTS; i++)
        if (ledger->faults[i].value == value && ledger->faults[i].rc)
            return ledger->faults[i].rc;
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
