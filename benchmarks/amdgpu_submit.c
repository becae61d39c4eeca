/* One recorded list submitted again and again by a caller in C: what sp_amdgpu_submit takes outside the emulated kernel.
 * amdgpu_submit.py compiles this and hands in the functions of both extensions; tests/radv/vk_compute.c does the same with
 * vkQueueSubmit. */
#include <stdint.h>
#include <stddef.h>
#include <time.h>

struct seam { /* as native/include/sp_emu.h has it */
    uint64_t ioctls, submissions, ns;
};
struct functions {
    int64_t (*submit)(void *queue, const void *records, size_t nbytes, uint64_t epoch);
    int (*wait)(void *queue, uint64_t value, uint64_t timeout_ns);
    void (*seam)(struct seam *out);
};
struct taken {
    uint64_t ns, inside_ns, ioctls;
};
static const uint64_t WAIT_NS = UINT64_C(30) * 1000000000;

static uint64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int64_t submit_again(const struct functions *f, void *queue, const void *records, size_t nbytes, uint64_t epoch,
                     size_t count, struct taken *out)
{
    for (size_t i = 0; i < count; i++) {
        struct seam before, after;
        f->seam(&before);
        uint64_t began = clock_ns();
        int64_t value = f->submit(queue, records, nbytes, epoch);
        uint64_t ended = clock_ns();
        f->seam(&after);
        if (value < 0)
            return value;
        int rc = f->wait(queue, (uint64_t)value, WAIT_NS);
        if (rc)
            return rc;
        out[i] = (struct taken){ended - began, after.ns - before.ns, after.ioctls - before.ioctls};
    }
    return 0;
}
