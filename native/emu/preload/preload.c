/* The emulated machine that the hooks (our versions of the C library's calls) use. The first call
 * that may need the machine starts it. The environment describes the machine:
 *
 *   SPARKLE_EMU=gfx1100[,gfx1103:kms-3.42...]  the cards, each with its options; unset: no effect
 *   SPARKLE_EMU_MODE=strict|lenient|dealloc,order...  leniencies for foreign drivers
 *                                     (native/emu/README.md); default strict
 *   SPARKLE_EMU_JOB_LIMIT_S=SECONDS   a job that runs longer ends like a hang; default 10
 *   SPARKLE_EMU_TRACE=FILE            log of ioctls and jobs
 *   SPARKLE_EMU=record[:gfx1100...]   records the program's ioctls (record.c); without chips,
 *                                     those on a real card
 *
 * If a request cannot be satisfied, the program ends with exit code 2; otherwise it would reach a
 * real card. Each fault is printed on stderr at once, because a driver would only report a lost
 * job, and an aborting program would report nothing. */
#define _GNU_SOURCE 1
#include "preload.h"
#include "include/sp_amdgpu_drm.h"
#include "include/sp_emu.h"
#include "emu/exec/exec.h"
#include "emu/kmd/seam_time.h"
#include "tree.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* PCI vendor id of AMD, from the PCI SIG's list */
enum { PCI_VENDOR_AMD = 0x1002, CARD_TEXT = 128 };
/* largest SPARKLE_EMU_JOB_LIMIT_S; sparkle_drv.testing.emulator has the same limit */
enum { LIMIT_MOST_S = 1000000000 };

static struct sp_emu_machine *machine;
static uint32_t cards;
static FILE *trace;
static pthread_once_t once = PTHREAD_ONCE_INIT;
/* 1 while this thread runs code of the emulated machine, which must see real files and
 * descriptors */
static __thread int inside;

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    flockfile(stderr); /* keeps the line whole: threads of jobs print too */
    fputs("sparkle: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    funlockfile(stderr);
    va_end(arguments);
}

/* Ends the program after a message with the reason. Destructors do not run, so the macro removes
 * the temporary folder of tree.h. */
#define REFUSE(...) (say(__VA_ARGS__), sp_tree_remove(), _exit(2))

/* Copies the names of the cards in a list such as "gfx1100,gfx1036" to `names`. Returns the number
 * of cards. An invalid name ends the program. */
static uint32_t cut(const char *text, char names[][CARD_TEXT])
{
    char why[256];
    for (uint32_t count = 0; count < SP_TREE_CARDS;) {
        size_t length = strcspn(text, ",");
        snprintf(names[count], CARD_TEXT, "%.*s", (int)(length < CARD_TEXT ? length : CARD_TEXT), text);
        if (length >= CARD_TEXT || sp_emu_check_card(names[count], why, sizeof why) < 0)
            REFUSE("SPARKLE_EMU=%s: card %u: %s", getenv("SPARKLE_EMU"), count,
                   length < CARD_TEXT ? why : "expected a text of less than 128 characters");
        count++;
        text += length;
        if (!*text++)
            return count;
    }
    REFUSE("SPARKLE_EMU=%s: expected at most %u cards", getenv("SPARKLE_EMU"), SP_TREE_CARDS);
}

static int describe(uint32_t card, struct sp_tree_card *out)
{
    struct drm_amdgpu_info_device device = {0};
    struct drm_amdgpu_info ask = {.return_pointer = (uintptr_t)&device,
                                  .return_size = sizeof device,
                                  .query = AMDGPU_INFO_DEV_INFO};
    const struct sp_kmd_ops *ops = sp_emu_machine_ops(machine);
    int fd = sp_emu_open(machine, card);
    if (fd < 0)
        return fd;
    int rc = ops->ioctl(ops->self, fd, DRM_IOCTL_AMDGPU_INFO, &ask);
    ops->close(ops->self, fd);
    /* The subsystem ids are made up: the board's maker chooses them, and a driver for the chip
     * ignores them. */
    *out = (struct sp_tree_card){PCI_VENDOR_AMD, device.device_id, PCI_VENDOR_AMD, device.device_id, device.pci_rev};
    return rc;
}

/* Returns bits of enum sp_emu_lenient: 0 for "strict" or no text, all bits for "lenient", else the
 * bits that `mode` names. */
static uint32_t leniency(const char *mode)
{
    static const char *const WORDS[] = {"unlisted", "uninitialised", "reserved", "padding", "unprogrammed",
                                        "register", "order",         "caches",   "dealloc", "races"};
    uint32_t bits = 0;
    if (!mode || !*mode || !strcmp(mode, "strict"))
        return 0;
    if (!strcmp(mode, "lenient"))
        return UINT32_MAX;
    for (const char *word = mode; *word;) {
        size_t n = strcspn(word, ","), i = 0, most = sizeof WORDS / sizeof *WORDS;
        while (i < most && (strlen(WORDS[i]) != n || strncmp(WORDS[i], word, n))) i++;
        if (i == most)
            REFUSE("SPARKLE_EMU_MODE=%s: expected strict, lenient, or names of leniencies", mode);
        bits |= 1U << i;
        word += n + (word[n] == ',');
    }
    return bits;
}

/* Converts a text such as "2.5" from seconds to nanoseconds. Returns 0 if `text` is not a number.
 * It does not use strtod, because strtod's decimal point depends on the program's locale. */
static uint64_t nanoseconds(const char *text)
{
    const uint64_t second = 1000000000;
    uint64_t whole = 0, part = 0, unit = second;
    if (!*text || !text[strspn(text, ".")])
        return 0;
    for (; *text >= '0' && *text <= '9' && whole <= LIMIT_MOST_S; text++)
        whole = whole * 10 + (uint64_t)(*text - '0');
    if (*text == '.')
        for (text++; *text >= '0' && *text <= '9'; text++)
            part += (uint64_t)(*text - '0') * (unit /= 10);
    return *text || whole > LIMIT_MOST_S ? 0 : whole * second + part;
}

static uint64_t job_limit(const char *text)
{
    if (!text || !*text)
        return 0;
    uint64_t limit = nanoseconds(text);
    if (!limit)
        REFUSE("SPARKLE_EMU_JOB_LIMIT_S=%s: expected seconds above 0, at most %u", text, LIMIT_MOST_S);
    return limit;
}

static void tell(uint32_t card, const struct sp_emu_fault_report *fault)
{
    say("card %u: a job faulted: %s (va %#llx, pc %#llx, group %u,%u,%u, wave %u, lane %u)", card, fault->text,
        (unsigned long long)fault->va, (unsigned long long)fault->pc, fault->group[0], fault->group[1], fault->group[2],
        fault->wave, fault->lane);
}

static int open_machine(const char *wanted)
{
    static char names[SP_TREE_CARDS][CARD_TEXT];
    const char *chips[SP_TREE_CARDS];
    struct sp_emu_options options = {.trace = trace ? 2 : 0,
                                     .lenient = leniency(getenv("SPARKLE_EMU_MODE")),
                                     .job_limit_ns = job_limit(getenv("SPARKLE_EMU_JOB_LIMIT_S")),
                                     .on_fault = tell};
    struct sp_tree_card card[SP_TREE_CARDS];
    cards = cut(wanted, names);
    for (uint32_t i = 0; i < cards; i++)
        chips[i] = names[i];
    int rc = sp_emu_machine_open(chips, cards, &options, &machine);
    for (uint32_t i = 0; !rc && i < cards; i++)
        rc = describe(i, &card[i]);
    return rc ? rc : sp_tree_make(card, cards);
}

static void start(void)
{
    const char *wanted = getenv("SPARKLE_EMU"), *log = getenv("SPARKLE_EMU_TRACE");
    if (!wanted || !*wanted)
        return;
    inside = 1;
    if (log && *log && !(trace = fopen(log, "we")))
        REFUSE("SPARKLE_EMU_TRACE=%s: %s", log, strerror(errno));
    const char *chips = sp_preload_recorded(wanted);
    int rc = chips ? open_machine(chips) : 0;
    if (rc)
        REFUSE("SPARKLE_EMU=%s: %s", wanted, strerror(-rc));
    rc = sp_preload_record(machine ? sp_emu_machine_ops(machine) : NULL);
    if (rc)
        REFUSE("SPARKLE_RECORD: %s: %s", sp_preload_record_path(), strerror(-rc));
    inside = 0;
}

int sp_preload_ready(void)
{
    if (inside)
        return 0;
    pthread_once(&once, start);
    return machine != NULL;
}

static void write_trace(void)
{
    char line[1024];
    if (!trace)
        return;
    flockfile(trace);
    while (sp_emu_trace_read(machine, line, sizeof line) >= 0)
        fprintf(trace, "%s\n", line);
    fflush(trace);
    funlockfile(trace);
}

int sp_preload_open(int card, int flags)
{
    inside = 1;
    int fd = sp_emu_open(machine, (uint32_t)card);
    inside = 0;
    if (fd < 0) {
        errno = -fd;
        return -1;
    }
    /* the program may have closed an earlier descriptor with this number without calling our
     * close */
    sp_preload_record_forget(fd);
    if (!(flags & O_CLOEXEC))
        fcntl(fd, F_SETFD, 0);
    return fd;
}

int sp_preload_card(int fd)
{
    if (fd < 0 || !sp_preload_ready())
        return -1;
    inside = 1;
    int card = sp_emu_fd_card(machine, fd);
    inside = 0;
    return card;
}

/* If `fd` belongs to the emulated machine, makes the ioctl, sets `*rc` and returns 1. Otherwise
 * returns 0. */
static int machine_ioctl(int fd, unsigned long request, void *argument, int *rc)
{
    const struct sp_kmd_ops *recording = sp_preload_record_ops();
    const struct sp_kmd_ops *ops = recording ? recording : sp_emu_machine_ops(machine);
    inside = 1;
    int ours = sp_emu_fd_is_ours(machine, fd) == 1;
    if (ours)
        *rc = ops->ioctl(ops->self, fd, (uint32_t)request, argument);
    if (ours)
        write_trace();
    inside = 0;
    return ours;
}

/* If a real card is recorded, makes the ioctl through the recorder, sets `*rc` and returns 1.
 * Otherwise returns 0. */
static int real_ioctl(int fd, unsigned long request, void *argument, int *rc)
{
    const struct sp_kmd_ops *ops = machine || inside ? NULL : sp_preload_record_ops();
    if (ops)
        *rc = ops->ioctl(ops->self, fd, (uint32_t)request, argument);
    return ops != NULL;
}

/* The second parameter has glibc's type; Linux looks at 32 bits of it. */
SP_HOOK int ioctl(int fd, unsigned long request, ...)
{
    va_list rest;
    va_start(rest, request);
    void *argument = va_arg(rest, void *);
    va_end(rest);
    int rc = 0, kept = errno;
    int known = fd >= 0 && sp_preload_ready();
    uint64_t began = sp_seam_enter();
    int ours = known && machine_ioctl(fd, request, argument, &rc);
    sp_seam_leave(began, (uint32_t)request, ours);
    if (!ours && !(fd >= 0 && real_ioctl(fd, request, argument, &rc)))
        return SP_NEXT(ioctl)(fd, request, argument);
    errno = rc < 0 ? -rc : kept;
    return rc < 0 ? -1 : rc;
}

/* Reports the time that the driver spent inside the emulated kernel driver. Programs find this
 * function by dlsym. */
SP_HOOK void sparkle_emu_seam(struct sp_emu_seam *out)
{
    sp_emu_seam(out);
}

__attribute__((destructor)) static void end(void)
{
    inside = 1;
    if (machine)
        write_trace();
    sp_tree_remove();
}
