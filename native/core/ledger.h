/* What a queue remembers of submissions that have ended: how the failed ones failed, when the timed ones ran. The owner
 * of a ledger locks it. */
#ifndef SP_CORE_LEDGER_H
#define SP_CORE_LEDGER_H
#include <stdatomic.h>
#include <stdint.h>

enum { SP_TIMES = 4096 };

struct sp_fault {
    uint64_t value;
    uint64_t until; /* the last value that it concerns: itself when its own waiter was told first, else the newest one when
                     * somebody was; 0: nobody was told */
    int rc;
};

struct sp_times {
    uint64_t value;
    uint64_t start_ns;
    uint64_t end_ns;
};

struct sp_ledger {
    struct sp_fault *faults; /* oldest first */
    _Atomic uint32_t nfaults; /* may be read without the lock: 0 means that nothing ever failed */
    struct sp_times *times; /* NULL unless it keeps times */
};

/* 0 or -ENOMEM. */
int sp_ledger_init(struct sp_ledger *ledger, int keep_times);
void sp_ledger_free(struct sp_ledger *ledger);
/* A value ended with `rc`. Faults are kept for ever, as a fence may be asked at any time (without memory for one more,
 * it takes the place of the newest); of the times the newest 4096. */
void sp_ledger_note(struct sp_ledger *ledger, uint64_t value, uint64_t start_ns, uint64_t end_ns, int rc);
/* The error with which a value ended; or, as submissions build on those before them, that of an earlier one, unless its own
 * waiter was told, or another before `value` was submitted. Else 0. */
int sp_ledger_fault(const struct sp_ledger *ledger, uint64_t value);
/* The same for who tells it to a waiter; `newest` is the newest value submitted. */
int sp_ledger_tell(struct sp_ledger *ledger, uint64_t value, uint64_t newest);
/* The error of the oldest fault of the values `first` to `last` themselves, else 0; no fault's concern ends by it. */
int sp_ledger_among(const struct sp_ledger *ledger, uint64_t first, uint64_t last);
/* 0 or -ENOENT. */
int sp_ledger_times(const struct sp_ledger *ledger, uint64_t value, uint64_t *start_ns, uint64_t *end_ns);
#endif
