/* A machine: its cards and its memory, from creation to close. */
#define _GNU_SOURCE /* for OFD locks and fallocate */
#include "core/syscalls.h"
#include "emu/memory/l2.h"
#include "emu/kmd/faults/faults.h"
#include "emu/kmd/files/files.h"
#include "emu/kmd/jobs/jobs.h"
#include "emu/kmd/jobs/order.h"
#include "ops.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const uint64_t NS = 1000000000, DEFAULT_LIMIT_NS = 10 * NS;
/* The size of the memfd is huge, because offsets in it are never reused. The memfd is sparse, so
 * its unused parts take no memory. */
static const int64_t MEMFD_NBYTES = INT64_C(1) << 62;
/* The first offset of a BO in the memfd. The descriptor of an open render node is a descriptor of
 * the memfd too. Its file position is the `id` of its struct kmd_file, which is always smaller than
 * this offset. */
static const uint64_t FIRST_OFFSET = UINT64_C(1) << 32;

static void set_options(struct kmd_machine *machine, const struct sp_emu_options *options)
{
    struct sp_emu_options *o = &machine->options;
    if (options)
        *o = *options;
    o->threads = o->threads ? o->threads : 1;
    o->job_limit_ns = o->job_limit_ns ? o->job_limit_ns : DEFAULT_LIMIT_NS;
    machine->random = o->seed;
}

static int add_card(struct kmd_machine *machine, const char *text)
{
    struct kmd_card *card = &machine->card[machine->cards];
    char why[256];
    int rc = kmd_card_read(text, &machine->options, &card->chip, &card->kms_minor, why, sizeof why);
    bool cached = !(machine->options.lenient & SP_LENIENT_CACHES);
    if (rc < 0)
        return rc;
    if (cached && !(card->l2 = sp_l2_new()))
        return -ENOMEM;
    card->machine = machine;
    card->index = machine->cards++;
    kmd_card_start(card);
    return 0;
}

int sp_emu_add_card(struct sp_emu_machine *handle, const char *text)
{
    struct kmd_machine *machine = (struct kmd_machine *)handle;
    if (machine->generation != kmd_generation())
        return -ENODEV;
    kmd_enter(machine);
    int rc = machine->cards < KMD_MAX_CARDS ? add_card(machine, text) : -ENOSPC;
    int index = (int)machine->cards - 1;
    kmd_leave(machine);
    return rc < 0 ? rc : index;
}

static int open_memory(struct kmd_machine *machine)
{
    struct stat st;
    machine->next_offset = FIRST_OFFSET;
    machine->memfd = sp_memfd_create("sparkle-emu", MFD_CLOEXEC);
    if (machine->memfd < 0 || ftruncate(machine->memfd, MEMFD_NBYTES) < 0 || fstat(machine->memfd, &st) < 0)
        return -errno;
    machine->inode = st.st_ino;
    machine->device = st.st_dev;
    return 0;
}

int sp_emu_machine_open(const char *const *chips, uint32_t count, const struct sp_emu_options *options,
                        struct sp_emu_machine **out)
{
    pthread_condattr_t monotonic;
    if (count == 0 || count > KMD_MAX_CARDS || (options && options->recovery > SP_EMU_RECOVER_VRAM_LOST))
        return -EINVAL;
    struct kmd_machine *machine = calloc(1, sizeof(*machine));
    if (!machine)
        return -ENOMEM;
    kmd_watch_forks();
    machine->generation = kmd_generation();
    machine->memfd = -1;
    pthread_mutex_init(&machine->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&machine->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    set_options(machine, options);
    machine->ops = kmd_ops_new(machine);
    int rc = machine->ops ? kmd_user_is_reachable() : -ENOMEM;
    if (rc == 0)
        rc = open_memory(machine);
    for (uint32_t i = 0; i < count && rc == 0; i++)
        rc = add_card(machine, chips[i]);
    if (rc == 0 && machine->options.trace && !(machine->trace = kmd_trace_new()))
        rc = -ENOMEM;
    if (rc < 0)
        sp_emu_machine_close((struct sp_emu_machine *)machine);
    else
        *out = (struct sp_emu_machine *)machine;
    return rc;
}

static void free_machine(struct kmd_machine *machine)
{
    kmd_drop_tokens(machine);
    for (uint32_t i = 0; i < machine->cards; i++) {
        kmd_plan_drop(&machine->card[i]);
        sp_l2_free(machine->card[i].l2);
    }
    while (machine->injections) {
        struct kmd_injection *next = machine->injections->next;
        free(machine->injections);
        machine->injections = next;
    }
    kmd_order_free(machine);
    free(machine->files.slot);
    kmd_trace_free(machine->trace);
    if (machine->memfd >= 0)
        close(machine->memfd);
    free(machine);
}

/* Waits until no other thread is inside a call. Wakes waiting threads, and lets no thread start to
 * wait. */
static void await_others(struct kmd_machine *machine)
{
    const struct timespec moment = {0, 50000};
    bool others = true;
    while (others) {
        pthread_mutex_lock(&machine->lock);
        machine->closing = true;
        pthread_cond_broadcast(&machine->changed);
        pthread_mutex_unlock(&machine->lock);
        others = __atomic_load_n(&machine->inside, __ATOMIC_ACQUIRE) > 0 || kmd_ops_end(machine->ops);
        if (others)
            nanosleep(&moment, NULL);
    }
}

void sp_emu_machine_close(struct sp_emu_machine *handle)
{
    struct kmd_machine *machine = (struct kmd_machine *)handle;
    if (!machine || machine->generation != kmd_generation())
        /* in a forked child the machine is a copy, whose locks may be held by threads that do not
         * exist */
        return;
    await_others(machine);
    for (uint32_t i = 0; i < machine->cards; i++)
        kmd_stuck_stop(&machine->card[i]);
    pthread_mutex_lock(&machine->lock);
    for (uint32_t i = 0; i < machine->cards; i++)
        kmd_card_stop(machine, &machine->card[i]);
    for (uint32_t id = 1; id <= machine->files.capacity; id++)
        if (kmd_idr_get(&machine->files, id))
            kmd_file_close(machine, kmd_idr_get(&machine->files, id));
    pthread_mutex_unlock(&machine->lock);
    pthread_cond_destroy(&machine->changed);
    pthread_mutex_destroy(&machine->lock);
    free_machine(machine);
}

const struct sp_kmd_ops *sp_emu_machine_ops(struct sp_emu_machine *machine)
{
    return kmd_ops_table(((struct kmd_machine *)machine)->ops);
}

void sp_emu_live_counts(struct sp_emu_machine *handle, struct sp_emu_live *out)
{
    struct kmd_machine *machine = (struct kmd_machine *)handle;
    *out = (struct sp_emu_live){0};
    if (machine->generation != kmd_generation())
        return;
    kmd_enter(machine);
    kmd_sweep(machine);
    *out = machine->live;
    kmd_leave(machine);
}
