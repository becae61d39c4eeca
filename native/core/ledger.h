/* A queue's memory of ended submissions: the errors of failed ones, the times of timed ones. The
 * owner of a ledger locks it. */
#ifndef SP_CORE_LEDGER_H
#define SP_CORE_LEDGER_H
#include <stdatomic.h>
#include <stdint.h>

enum { SP_TIMES = 4096 };

struct sp_fault {
    uint64_t value;
    /* last value that the fault concerns: its own value if its own waiter was told first; else the
     * newest value when a waiter was told; 0: no waiter was told */
    uint64_t until;
    int rc;
};

struct sp_times {
    uint64_t value;
    uint64_t start_ns;
    uint64_t end_ns;
};

struct sp_ledger {
    struct sp_fault *faults; /* oldest first */
    _Atomic uint32_t nfaults; /* read without the lock; 0: no submission ever failed */
    struct sp_times *times; /* NULL: times are not kept */
};

/* 0 or -ENOMEM. */
int sp_ledger_init(struct sp_ledger *ledger, int keep_times);
void sp_ledger_free(struct sp_ledger *ledger);
/* Records that a value ended with `rc`. Faults are kept for ever, because a fence may be asked at
 * any time. Out of memory, a new fault replaces the newest. Only the newest 4096 times are kept. */
void sp_ledger_note(struct sp_ledger *ledger, uint64_t value, uint64_t start_ns, uint64_t end_ns, int rc);
/* The error with which a value ended, else 0. Submissions build on earlier ones, so an earlier
 * fault's error counts too. It no longer counts once its own waiter was told, or any waiter before
 * `value` was submitted. */
int sp_ledger_fault(const struct sp_ledger *ledger, uint64_t value);
/* As sp_ledger_fault, and marks the error as told to a waiter. `newest` is the newest submitted
 * value. */
int sp_ledger_tell(struct sp_ledger *ledger, uint64_t value, uint64_t newest);
/* The error of the oldest fault among the values `first` to `last`, else 0. Does not mark it as
 * told. */
int sp_ledger_among(const struct sp_ledger *ledger, uint64_t first, uint64_t last);
/* 0 or -ENOENT. */
int sp_ledger_times(const struct sp_ledger *ledger, uint64_t value, uint64_t *start_ns, uint64_t *end_ns);
#endif
