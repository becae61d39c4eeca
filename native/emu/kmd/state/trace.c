/* The trace: a ring of lines, which the reader takes out one by one. It has a lock of its own,
 * because jobs write lines while they run. */
#include "state.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { LINES = 4096, LINE_NBYTES = 240 };

struct kmd_trace {
    pthread_mutex_t lock;
    /* lines are counted from 0. `first`: number of the oldest line not yet overwritten or read.
     * `end`: number of the next line to write. */
    uint64_t first, end;
    char line[LINES][LINE_NBYTES];
};

struct kmd_trace *kmd_trace_new(void)
{
    struct kmd_trace *trace = calloc(1, sizeof(*trace));
    if (trace)
        pthread_mutex_init(&trace->lock, NULL);
    return trace;
}

void kmd_trace_free(struct kmd_trace *trace)
{
    if (trace)
        pthread_mutex_destroy(&trace->lock);
    free(trace);
}

void kmd_trace_line(void *machine, const char *line)
{
    struct kmd_trace *trace = ((struct kmd_machine *)machine)->trace;
    pthread_mutex_lock(&trace->lock);
    snprintf(trace->line[trace->end++ % LINES], LINE_NBYTES, "%s", line);
    if (trace->end - trace->first > LINES)
        trace->first = trace->end - LINES;
    pthread_mutex_unlock(&trace->lock);
}

void kmd_trace(struct kmd_machine *machine, const char *format, ...)
{
    char line[LINE_NBYTES];
    va_list args;
    if (!machine->trace)
        return;
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    kmd_trace_line(machine, line);
}

int sp_emu_trace_read(struct sp_emu_machine *handle, char *line, size_t nbytes)
{
    struct kmd_machine *machine = (struct kmd_machine *)handle;
    struct kmd_trace *trace = machine->trace;
    int length = -ENOENT;
    if (!trace || nbytes == 0 || machine->generation != kmd_generation())
        return length;
    kmd_enter(machine);
    pthread_mutex_lock(&trace->lock);
    if (trace->first < trace->end) {
        snprintf(line, nbytes, "%s", trace->line[trace->first++ % LINES]);
        length = (int)strlen(line);
    }
    pthread_mutex_unlock(&trace->lock);
    kmd_leave(machine);
    return length;
}
