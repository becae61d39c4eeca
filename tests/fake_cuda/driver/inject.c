/* fake_cuda_control: what a test wants to go wrong, or to know. README.md has the commands. */
#include "../include/fake.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

/* A kernel to meet a fault, or to run until released. */
static struct {
    char entry[96]; /* "": any */
    int result;
    int64_t after, times;
} fault, endless;
static _Atomic bool faulty;
static uint64_t releases;

int fk_armed(struct fk_call *call)
{
    int result = 0;
    pthread_mutex_lock(&lock);
    const int64_t delay = call->delay_us;
    if (call->result && call->times != 0) {
        if (call->after > 0)
            call->after--;
        else {
            result = call->result;
            if (call->times > 0)
                call->times--;
        }
    }
    pthread_mutex_unlock(&lock);
    if (delay)
        fk_sleep_until(fk_now() + delay * 1000);
    return result;
}

static bool due(const char *entry, const char *wanted, int64_t *after, int64_t *times)
{
    if (*times == 0 || (*wanted && strcmp(wanted, entry) != 0))
        return false;
    if (*after > 0)
        return (*after)--, false;
    if (*times > 0)
        (*times)--;
    return true;
}

int fk_kernel_fault(struct fk_stream *stream, const char *entry)
{
    int result = 0;
    if (!atomic_load_explicit(&faulty, memory_order_relaxed))
        return 0;
    pthread_mutex_lock(&lock);
    if (due(entry, fault.entry, &fault.after, &fault.times))
        result = fault.result;
    if (due(entry, endless.entry, &endless.after, &endless.times)) {
        const uint64_t was = releases;
        while (releases == was && !atomic_load(&stream->ctx->dying)) {
            struct timespec at;
            clock_gettime(CLOCK_REALTIME, &at);
            at.tv_nsec += 5000000; /* `dying` signals nobody */
            if (at.tv_nsec >= 1000000000) {
                at.tv_nsec -= 1000000000;
                at.tv_sec++;
            }
            pthread_cond_timedwait(&changed, &lock, &at);
        }
    }
    pthread_mutex_unlock(&lock);
    return result;
}

/* ---- the commands ---- */

struct words {
    char text[256];
    char *word[8];
    int n;
};

static void split(const char *command, struct words *out)
{
    char *rest = NULL;
    snprintf(out->text, sizeof out->text, "%s", command);
    out->n = 0;
    for (char *w = strtok_r(out->text, " \t\n", &rest); w && out->n < 8; w = strtok_r(NULL, " \t\n", &rest))
        out->word[out->n++] = w;
}

/* The value of "key=123" among the words; `otherwise` if there is none. */
static int64_t option(const struct words *w, const char *key, int64_t otherwise)
{
    for (int i = 1; i < w->n; i++)
        if (strncmp(w->word[i], key, strlen(key)) == 0 && w->word[i][strlen(key)] == '=')
            return strtoll(w->word[i] + strlen(key) + 1, NULL, 0);
    return otherwise;
}

static const char *plain(const struct words *w, int index) /* a word that is no option; "" */
{
    return index < w->n && !strchr(w->word[index], '=') ? w->word[index] : "";
}

static uint64_t bytes_of(const char *text)
{
    char *end;
    const uint64_t n = strtoull(text, &end, 0);
    return *end == 'G' ? n << 30 : *end == 'M' ? n << 20 : *end == 'K' ? n << 10 : n;
}

static int64_t live(const char *what)
{
    static const struct {
        const char *name;
        int kind;
    } kinds[] = {{"contexts", FK_CONTEXT}, {"streams", FK_STREAM}, {"events", FK_EVENT}, {"modules", FK_MODULE},
                 {"functions", FK_FUNCTION}, {"graphs", FK_GRAPH}, {"execs", FK_EXEC}, {"pools", FK_POOL}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(what, kinds[i].name) == 0)
            return atomic_load(&fk_live[kinds[i].kind]);
    if (strcmp(what, "allocations") == 0)
        return fk_heap_live(FK_DEVICE);
    if (strcmp(what, "pinned") == 0)
        return fk_heap_live(FK_PINNED);
    if (strcmp(what, "registered") == 0)
        return fk_heap_live(FK_REGISTERED);
    if (strcmp(what, "imported") == 0)
        return fk_heap_live(FK_IMPORTED);
    return -EINVAL;
}

static int64_t on_call(const struct words *w)
{
    struct fk_call *const call = w->n > 1 ? fk_call_named(w->word[1]) : NULL;
    if (!call)
        return -ENOENT;
    if (strcmp(w->word[0], "calls") == 0)
        return (int64_t)atomic_load(&call->count);
    if (strcmp(w->word[0], "missing") == 0)
        return call->missing = true, 0;
    if (strcmp(w->word[0], "delay") == 0) {
        call->delay_us = strtoll(plain(w, 2), NULL, 0);
    } else { /* fail */
        call->result = (int)strtol(plain(w, 2), NULL, 0);
        call->times = option(w, "times", 1);
        call->after = option(w, "after", 0);
    }
    atomic_store(&call->armed, call->delay_us || call->result);
    return 0;
}

/* "peer off 0 1": those two alone. */
static int64_t on_peer(const struct words *w)
{
    const long a = strtol(plain(w, 2), NULL, 0), b = strtol(plain(w, 3), NULL, 0);
    const bool off = strcmp(plain(w, 1), "off") == 0;
    if (w->n == 4) {
        if (a < 0 || a >= FK_MAX_DEVICES || b < 0 || b >= FK_MAX_DEVICES)
            return -EINVAL;
        fk_settings.apart[a] = off ? fk_settings.apart[a] | 1u << b : fk_settings.apart[a] & ~(1u << b);
        fk_settings.apart[b] = off ? fk_settings.apart[b] | 1u << a : fk_settings.apart[b] & ~(1u << a);
    } else
        fk_settings.peer = !off;
    return 0;
}

static int64_t setting(const struct words *w)
{
    const char *const name = w->word[0], *const value = w->n > 1 ? w->word[1] : "";
    if (strcmp(name, "devices") == 0) {
        const long n = strtol(value, NULL, 0);
        if (n < 0 || n > FK_MAX_DEVICES || atomic_load(&fk_trouble) == 0)
            return -EINVAL;
        fk_settings.devices = (int)n;
    } else if (strcmp(name, "memory") == 0)
        fk_settings.memory = bytes_of(value);
    else if (strcmp(name, "driver") == 0)
        fk_settings.driver = (int)strtol(value, NULL, 0);
    else if (strcmp(name, "cc") == 0) {
        if (sscanf(value, "%d.%d", &fk_settings.major, &fk_settings.minor) != 2)
            return -EINVAL;
    } else if (strcmp(name, "peer") == 0)
        return on_peer(w);
    else if (strcmp(name, "sticky") == 0)
        fk_settings.sticky = strcmp(value, "process") == 0 ? FK_STICKY_PROCESS
                             : strcmp(value, "reset") == 0 ? FK_STICKY_RESET : FK_STICKY_CONTEXT;
    else if (strcmp(name, "name") == 0)
        snprintf(fk_settings.name, sizeof fk_settings.name, "%s", value);
    else
        return -ENOSYS;
    return 0;
}

static enum fk_engine engine_named(const char *name) /* FK_ENGINES: none */
{
    static const char *const engines[FK_ENGINES] = {"", "kernel", "h2d", "d2h", "d2d", "peer"};
    enum fk_engine engine = FK_COMPUTE;
    while (engine < FK_ENGINES && strcmp(name, engines[engine]) != 0)
        engine++;
    return engine;
}

static int64_t on_bytes(const struct words *w)
{
    const enum fk_engine engine = engine_named(plain(w, 1));
    return engine > FK_COMPUTE && engine < FK_ENGINES ? (int64_t)atomic_load(&fk_model.moved[engine]) : -EINVAL;
}

static int64_t on_time(const struct words *w)
{
    const double number = strtod(plain(w, 2), NULL);
    const enum fk_engine engine = engine_named(plain(w, 1));
    if (engine == FK_ENGINES)
        return -EINVAL;
    if (engine == FK_COMPUTE)
        fk_model.kernel_ns = (int64_t)(number * 1000); /* us */
    else
        fk_model.bytes_per_ns[engine] = number; /* GB/s */
    bool on = fk_model.kernel_ns != 0;
    for (int i = FK_H2D; i < FK_ENGINES; i++)
        on = on || fk_model.bytes_per_ns[i] > 0;
    atomic_store(&fk_model.on, on);
    return 0;
}

static void reset(void)
{
    for (int i = 0; i < FK_CALLS; i++) {
        fk_calls[i].armed = false;
        fk_calls[i].result = 0;
        fk_calls[i].delay_us = 0;
        fk_calls[i].missing = false;
        atomic_store(&fk_calls[i].count, 0);
    }
    fault.times = endless.times = 0;
    atomic_store(&faulty, false);
    atomic_store(&fk_model.on, false);
    memset(fk_model.bytes_per_ns, 0, sizeof fk_model.bytes_per_ns);
    fk_model.kernel_ns = 0;
    for (int i = 0; i < FK_ENGINES; i++)
        atomic_store(&fk_model.moved[i], 0);
    releases++;
    pthread_cond_broadcast(&changed);
}

static int64_t obey(const struct words *w)
{
    const char *const name = w->word[0];
    if (strcmp(name, "calls") == 0 || strcmp(name, "fail") == 0 || strcmp(name, "delay") == 0 ||
        strcmp(name, "missing") == 0)
        return on_call(w);
    if (strcmp(name, "time") == 0)
        return on_time(w);
    if (strcmp(name, "bytes") == 0)
        return on_bytes(w);
    if (strcmp(name, "fault") == 0) {
        fault.result = (int)strtol(plain(w, 1), NULL, 0);
        snprintf(fault.entry, sizeof fault.entry, "%s", plain(w, 2));
        fault.times = option(w, "times", 1);
        fault.after = option(w, "after", 0);
        atomic_store(&faulty, true);
    } else if (strcmp(name, "endless") == 0) {
        snprintf(endless.entry, sizeof endless.entry, "%s", plain(w, 1));
        endless.times = option(w, "times", 1);
        endless.after = option(w, "after", 0);
        atomic_store(&faulty, true);
    } else if (strcmp(name, "release") == 0) {
        endless.times = 0; /* those that have not begun too */
        releases++;
        pthread_cond_broadcast(&changed);
    } else if (strcmp(name, "reset") == 0)
        reset();
    else
        return setting(w);
    return 0;
}

int sparkle_emulated(void)
{
    return 1;
}

int64_t fake_cuda_control(const char *command)
{
    struct words w;
    if (!command)
        return -EINVAL;
    split(command, &w);
    if (w.n == 0)
        return -EINVAL;
    if (strcmp(w.word[0], "live") == 0)
        return live(plain(&w, 1));
    pthread_mutex_lock(&lock);
    const int64_t value = obey(&w);
    pthread_mutex_unlock(&lock);
    return value;
}

/* FAKE_CUDA: commands with ';' between them; FAKE_CUDA_MISSING: calls with ',' between them. */
__attribute__((constructor(102))) static void from_environment(void)
{
    char text[1024], line[256], *rest = NULL;
    snprintf(text, sizeof text, "%s", getenv("FAKE_CUDA") ? getenv("FAKE_CUDA") : "");
    for (char *part = strtok_r(text, ";", &rest); part; part = strtok_r(NULL, ";", &rest))
        if (fake_cuda_control(part) < 0)
            fprintf(stderr, "FAKE_CUDA: not understood: %s\n", part);
    snprintf(text, sizeof text, "%s", getenv("FAKE_CUDA_MISSING") ? getenv("FAKE_CUDA_MISSING") : "");
    for (char *part = strtok_r(text, ", ", &rest); part; part = strtok_r(NULL, ", ", &rest)) {
        snprintf(line, sizeof line, "missing %s", part);
        if (fake_cuda_control(line) < 0)
            fprintf(stderr, "FAKE_CUDA_MISSING: no such call: %s\n", part);
    }
}
