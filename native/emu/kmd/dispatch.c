/* Finds the handler of an ioctl request as Linux's drm_ioctl does: by number alone. The caller's
 * struct may be shorter or longer than the one known here. */
#include "dispatch.h"
#include "emu/kmd/faults/faults.h"
#include "emu/kmd/files/files.h"
#include "emu/kmd/state/handlers.h"

#include <string.h>

struct handler {
    int (*call)(struct kmd_file *file, void *data);
    const char *name;
    uint32_t request;
    uint32_t nbytes;
    bool denied;
};

#define NR(request) ((DRM_IOCTL_##request) & 0xff)
#define SP_IOCTL(request, type, function) [NR(request)] = {kmd_do_##function, #request, DRM_IOCTL_##request, sizeof(type), false},
#define SP_IOCTL_DENIED(nr, name) [nr] = {NULL, #name, 0, 0, true},
static const struct handler handlers[256] = {
#include "emu/kmd/state/ioctls.def"
};
#undef SP_IOCTL
#undef SP_IOCTL_DENIED

#define SP_IOCTL(request, type, function) \
    _Static_assert(sizeof(type) == (((unsigned)DRM_IOCTL_##request >> 16) & 0x3fff), #request);
#define SP_IOCTL_DENIED(nr, name)
#include "emu/kmd/state/ioctls.def"
#undef SP_IOCTL
#undef SP_IOCTL_DENIED

enum { WRITE = 1U << 30, READ = 2U << 30, LARGEST = 1 << 14 };

const char *kmd_ioctl_name(uint32_t nr)
{
    return nr < 256 && handlers[nr].name ? handlers[nr].name : "?";
}

static int injected(struct kmd_machine *machine, uint32_t nr)
{
    for (struct kmd_injection **link = &machine->injections; *link; link = &(*link)->next) {
        struct kmd_injection *injection = *link;
        if (injection->nr == nr) {
            int error = injection->error;
            if (--injection->count == 0) {
                *link = injection->next;
                free(injection);
            }
            return -error;
        }
    }
    return 0;
}

static int call(struct kmd_machine *machine, int fd, uint32_t nr, void *data)
{
    const struct handler *handler = &handlers[nr];
    if (machine->closing)
        return -ENODEV;
    struct kmd_file *file = kmd_file_of(machine, fd);
    if (!file)
        return kmd_token_of(machine, fd) ? -ENOTTY : -EBADF;
    if (file->card->unplugged)
        return -ENODEV;
    if (handler->denied)
        return -EACCES;
    if (!handler->call)
        return -EINVAL;
    const struct sp_emu_flaw_of *no = sp_emu_flaw(&file->card->chip.core, SP_FLAW_CAP);
    if (no && no->a == DRM_CAP_SYNCOBJ && strncmp(handler->name, "SYNCOBJ", strlen("SYNCOBJ")) == 0)
        return -EOPNOTSUPP;
    int rc = injected(machine, nr);
    rc = rc ? rc : kmd_plan_ioctl(file->card, nr);
    if (rc == 0) {
        file->refs++;
        rc = handler->call(file, data);
        kmd_trace(machine, "ioctl card=%u file=%u %s -> %d", file->card->index, file->id, handler->name, rc);
        kmd_file_put(file);
    } else {
        kmd_trace(machine, "ioctl card=%u file=%u %s -> %d (injected)", file->card->index, file->id, handler->name, rc);
    }
    return rc;
}

int kmd_ioctl(void *self, int fd, uint32_t request, void *arg)
{
    struct kmd_machine *machine = self;
    uint32_t nr = request & 0xff, size = request >> 16 & 0x3fff;
    const struct handler *handler = &handlers[nr];
    uint32_t in = request & handler->request & WRITE ? size : 0, out = request & handler->request & READ ? size : 0;
    uint64_t buffer[LARGEST / sizeof(uint64_t)];
    uint32_t whole = size > handler->nbytes ? size : handler->nbytes;
    if (machine->generation != kmd_generation())
        return -ENODEV;
    if ((request >> 8 & 0xff) != 'd')
        return -ENOTTY;
    if (kmd_copy_from_user(buffer, (uint64_t)(uintptr_t)arg, in) < 0)
        return -EFAULT;
    memset((uint8_t *)buffer + in, 0, whole - in);
    kmd_enter(machine);
    int rc = call(machine, fd, nr, buffer);
    kmd_leave(machine);
    if (kmd_copy_to_user((uint64_t)(uintptr_t)arg, buffer, out) < 0)
        return -EFAULT;
    return rc;
}
