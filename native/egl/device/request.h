/* Requests to the owner thread: to wake up, and to run a function for a caller. */
#ifndef SP_EGL_REQUEST_H
#define SP_EGL_REQUEST_H
#include "device.h"

/* A function `run` that the owner thread runs for a caller. The owner thread and the caller both
 * hold the request, and the last holder frees it. If the caller has given up, `drop` undoes the
 * work. */
struct sp_egl_request {
    struct sp_egl_request *next;
    int (*run)(struct sp_egl *dev, struct sp_egl_request *r);
    void (*drop)(struct sp_egl *dev, struct sp_egl_request *r);
    _Atomic uint32_t fate; /* state of the request, and a futex: see request.c */
    _Atomic uint32_t holders;
    int rc;
};

void sp_egl_wake(struct sp_egl *dev);
/* Wakes the owner thread if it sleeps (SP_EGL_SLEEPS). A nap (SP_EGL_NAPS) is left alone: it ends
 * by itself within 0.2 ms. */
void sp_egl_wake_sleeper(struct sp_egl *dev);
/* Runs a request on the owner thread and returns its result. Returns -ENODEV if there is no owner
 * thread. Returns -ETIMEDOUT after the timeout; the request may still run later. A timeout of 0
 * does not wait. After sp_egl_request_keep the request stays readable until sp_egl_request_end. */
int sp_egl_request(struct sp_egl *dev, struct sp_egl_request *r, uint64_t timeout_ns);
int sp_egl_request_keep(struct sp_egl *dev, struct sp_egl_request *r, uint64_t timeout_ns);
void sp_egl_request_end(struct sp_egl_request *r);
void sp_egl_requests_run(struct sp_egl *dev); /* owner */
#endif
