/* Requests to the owner thread: to wake up, and to run a function for the caller. */
#ifndef SP_EGL_REQUEST_H
#define SP_EGL_REQUEST_H
#include "device.h"

/* A function that the owner runs for a caller. The later of the two to release it frees it. `drop`
 * undoes the work for a caller that has given up. */
struct sp_egl_request {
    struct sp_egl_request *next;
    int (*run)(struct sp_egl *dev, struct sp_egl_request *r);
    void (*drop)(struct sp_egl *dev, struct sp_egl_request *r);
    _Atomic uint32_t fate; /* futex: see request.c */
    _Atomic uint32_t holders;
    int rc;
};

void sp_egl_wake(struct sp_egl *dev);
void sp_egl_wake_sleeper(struct sp_egl *dev); /* does not wake a napping owner */
/* Runs a request on the owner and returns its result. -ENODEV: no owner. -ETIMEDOUT: it may still
 * be done later. Timeout 0 does not wait. `keep`: the request stays readable until `end`. */
int sp_egl_request(struct sp_egl *dev, struct sp_egl_request *r, uint64_t timeout_ns);
int sp_egl_request_keep(struct sp_egl *dev, struct sp_egl_request *r, uint64_t timeout_ns);
void sp_egl_request_end(struct sp_egl_request *r);
void sp_egl_requests_run(struct sp_egl *dev); /* owner */
#endif
