/* What a queue remembers of ended submissions: the errors of failed ones, and the times of timed
 * ones. A ledger has no lock of its own; its queue's lock guards it. */
#ifndef SP_CORE_LEDGER_H
#define SP_CORE_LEDGER_H
#include <stdatomic.h>
#include <stdint.h>

enum { SP_TIMES = 4096 };

struct sp_fault {
    uint64_t value;
    /* Last timeline value for which the fault counts: a wait for it reports the error. 0: the error
     * has not been reported to a waiter yet, so the fault counts for all later values. The first
     * report sets `until`: to the fault's own value if the waiter waits for that value, else to the
     * queue's newest value. */
    uint64_t until;
    int rc;
};

struct sp_times {
    uint64_t value;
    uint64_t start_ns;
    uint64_t end_ns;
};

struct sp_ledger {
    struct sp_fault *faults; /* the faults, oldest first */
    _Atomic uint32_t nfaults; /* number of faults; may be read without the lock */
    struct sp_times *times; /* NULL: times are not kept */
};

/* Initialises an empty ledger, which keeps times if `keep_times` is not 0. Returns 0 or -ENOMEM. */
int sp_ledger_init(struct sp_ledger *ledger, int keep_times);
void sp_ledger_free(struct sp_ledger *ledger);
/* Records that the submission of `value` ended with `rc`. Faults are kept for ever, because a fence
 * may be asked for its error at any time. If memory is short, a new fault replaces the newest one.
 * Only the newest 4096 times are kept. */
void sp_ledger_note(struct sp_ledger *ledger, uint64_t value, uint64_t start_ns, uint64_t end_ns, int rc);
/* Returns the error of the submission of `value`, else 0. That is its own fault, or the fault of an
 * earlier submission on whose results it may build. The fault of a submission always counts for its
 * own value. For later values it counts until it is first reported to a waiter. If that waiter
 * waited for a later value, the fault still counts for all values that were submitted before the
 * report. */
int sp_ledger_fault(const struct sp_ledger *ledger, uint64_t value);
/* Returns what sp_ledger_fault returns, and marks the error as reported to a waiter. `newest` is
 * the newest submitted value. */
int sp_ledger_tell(struct sp_ledger *ledger, uint64_t value, uint64_t newest);
/* Returns the error of the oldest fault among the values `first` to `last`, else 0. Does not mark
 * the error as reported. */
int sp_ledger_among(const struct sp_ledger *ledger, uint64_t first, uint64_t last);
/* Reads the start and end of a submission. Returns 0, or -ENOENT if the times are not kept. */
int sp_ledger_times(const struct sp_ledger *ledger, uint64_t value, uint64_t *start_ns, uint64_t *end_ns);
#endif
