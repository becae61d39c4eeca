/* What callers ask of the owner thread: to wake up, and to do something for them. */
#ifndef SP_EGL_REQUEST_H
#define SP_EGL_REQUEST_H
#include "device.h"

/* Something the owner does for a caller. The last of the two to let go frees it; `drop` undoes what was done for a
 * caller who has given up waiting. */
struct sp_egl_request {
    struct sp_egl_request *next;
    int (*run)(struct sp_egl *dev, struct sp_egl_request *r);
    void (*drop)(struct sp_egl *dev, struct sp_egl_request *r);
    _Atomic uint32_t fate; /* futex: see request.c */
    _Atomic uint32_t holders;
    int rc;
};

void sp_egl_wake(struct sp_egl *dev);
void sp_egl_wake_sleeper(struct sp_egl *dev); /* leaves one alone that naps */
/* Has a request done: its result, -ENODEV (there is no owner), -ETIMEDOUT (it may be done later all the same).
 * Timeout 0 does not wait. `keep` leaves the request to be looked at until `end`. */
int sp_egl_request(struct sp_egl *dev, struct sp_egl_request *r, uint64_t timeout_ns);
int sp_egl_request_keep(struct sp_egl *dev, struct sp_egl_request *r, uint64_t timeout_ns);
void sp_egl_request_end(struct sp_egl_request *r);
void sp_egl_requests_run(struct sp_egl *dev); /* owner */
#endif
