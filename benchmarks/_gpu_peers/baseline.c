/* The C baseline of gpu_peers.py: the driver's documented C ABI and nothing else, by dlopen. Measures what child.py does,
 * in the same way, and prints the same JSON. Declared here in plain types; the suffixes are those of the ABI.
 *
 *     baseline LIBCUDA BORN JIT.ptx TAG DIR [--quick]      DIR has empty0.ptx empty4.ptx empty16.ptx */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CALLS(X)                                                                                                       \
    X(cuInit, (unsigned))                                                                                              \
    X(cuDriverGetVersion, (int *))                                                                                     \
    X(cuDeviceGet, (int *, int))                                                                                       \
    X(cuDevicePrimaryCtxRetain, (void **, int))                                                                        \
    X(cuCtxSetCurrent, (void *))                                                                                       \
    X(cuStreamCreate, (void **, unsigned))                                                                             \
    X(cuStreamSynchronize, (void *))                                                                                   \
    X(cuModuleLoadData, (void **, const void *))                                                                       \
    X(cuModuleUnload, (void *))                                                                                        \
    X(cuModuleGetFunction, (void **, void *, const char *))                                                            \
    X(cuMemAlloc_v2, (uint64_t *, size_t))                                                                             \
    X(cuMemFree_v2, (uint64_t))                                                                                        \
    X(cuMemHostAlloc, (void **, size_t, unsigned))                                                                     \
    X(cuMemFreeHost, (void *))                                                                                         \
    X(cuMemcpyHtoDAsync_v2, (uint64_t, const void *, size_t, void *))                                                  \
    X(cuMemcpyDtoHAsync_v2, (void *, uint64_t, size_t, void *))                                                        \
    X(cuMemcpyDtoDAsync_v2, (uint64_t, uint64_t, size_t, void *))                                                      \
    X(cuLaunchKernel,                                                                                                  \
      (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **))
#define GRAPHS(X) \
    X(cuGraphCreate, (void **, unsigned))                                                                              \
    X(cuGraphAddKernelNode, (void **, void *, void *const *, size_t, const void *))                                    \
    X(cuGraphInstantiateWithFlags, (void **, void *, unsigned long long))                                              \
    X(cuGraphLaunch, (void *, void *))
#define DECLARE(name, args) static int(*name) args;
CALLS(DECLARE)
GRAPHS(DECLARE)

/* CUDA_KERNEL_NODE_PARAMS_v1: what cuGraphAddKernelNode without a suffix takes. */
struct node {
    void *function;
    unsigned grid[3], block[3], shared;
    void **args, **extra;
};

enum { BATCH = 100, MANY = 60, FEW = 20, SIZES = 7 };
static void *stream, *kernel4, *args16[16], *args4[4];
static uint64_t memory[4];
static float f32s[16];
static uint32_t u32s[16];
static int rounds = MANY, first_figure = 1;

static void need(int code, const char *call)
{
    if (code == 0) return;
    fprintf(stderr, "baseline: %s: error %d\n", call, code);
    exit(1);
}
#define DO(name, ...) need(name(__VA_ARGS__), #name)

static int64_t now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void figure(const char *name, double value)
{
    printf("%s\"%s\": %.9g", first_figure ? "" : ", ", name, value);
    first_figure = 0;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *of, int n)
{
    qsort(of, (size_t)n, sizeof *of, compare);
    return n % 2 ? of[n / 2] : (of[n / 2 - 1] + of[n / 2]) / 2;
}

struct work {
    void *function, **args, *graph;
    uint64_t to, of;
    void *host;
    size_t nbytes;
};
static void go_launch(const struct work *w) { DO(cuLaunchKernel, w->function, 1, 1, 1, 1, 1, 1, 0, stream, w->args, NULL); }
static void go_graph(const struct work *w) { DO(cuGraphLaunch, w->graph, stream); }
static void go_h2d(const struct work *w) { DO(cuMemcpyHtoDAsync_v2, w->to, w->host, w->nbytes, stream); }
static void go_d2h(const struct work *w) { DO(cuMemcpyDtoHAsync_v2, w->host, w->of, w->nbytes, stream); }
static void go_d2d(const struct work *w) { DO(cuMemcpyDtoDAsync_v2, w->to, w->of, w->nbytes, stream); }
static void go_alloc(const struct work *w)
{
    uint64_t address;
    DO(cuMemAlloc_v2, &address, w->nbytes);
    DO(cuMemFree_v2, address);
}

/* Median ns of a call, batches of `batch`; `wait` 1: the wait counts. The first round warms up. */
static double each(void (*go)(const struct work *), const struct work *w, int n, int batch, int wait)
{
    static double taken[MANY + 1];
    double spent = 0; /* child.py, FIGURE_NS */
    int r = 0;
    for (; r <= n && (r < 2 || !wait || spent < 1e9); r++) {
        const int64_t start = now(CLOCK_MONOTONIC);
        for (int i = 0; i < batch; i++) go(w);
        if (wait) DO(cuStreamSynchronize, stream);
        taken[r] = (double)(now(CLOCK_MONOTONIC) - start) / batch;
        spent += taken[r] * batch;
        if (!wait) DO(cuStreamSynchronize, stream);
    }
    return median(taken + 1, r - 1);
}

static void *read_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    long nbytes;
    if (!file || fseek(file, 0, SEEK_END) || (nbytes = ftell(file)) < 0 || fseek(file, 0, SEEK_SET) ||
        !(text = malloc((size_t)nbytes + 1)) || fread(text, 1, (size_t)nbytes, file) != (size_t)nbytes) {
        fprintf(stderr, "baseline: cannot read %s\n", path);
        exit(1);
    }
    fclose(file);
    text[nbytes] = '\0';
    return text;
}

static void *load(const char *folder, int count)
{
    char path[4096];
    void *module, *function, *image;
    snprintf(path, sizeof path, "%s/empty%d.ptx", folder, count);
    image = read_file(path);
    DO(cuModuleLoadData, &module, image);
    DO(cuModuleGetFunction, &function, module, "noop");
    free(image);
    return function;
}

static void graphs(void)
{
    static const int counts[] = {1, 10, 100, 1000};
    if (!cuGraphCreate || !cuGraphAddKernelNode || !cuGraphInstantiateWithFlags || !cuGraphLaunch) return;
    for (int c = 0; c < 4; c++) {
        struct node node = {.function = kernel4, .grid = {1, 1, 1}, .block = {1, 1, 1}, .args = args4};
        struct work w = {0};
        void *graph, *last = NULL;
        char name[64];
        DO(cuGraphCreate, &graph, 0);
        for (int i = 0; i < counts[c]; i++) {
            void *made;
            DO(cuGraphAddKernelNode, &made, graph, last ? &last : NULL, last != NULL, &node);
            last = made;
        }
        DO(cuGraphInstantiateWithFlags, &w.graph, graph, 0);
        snprintf(name, sizeof name, "graph_%d_ns", counts[c]);
        figure(name, each(go_graph, &w, rounds, 1, 1));
    }
}

static void copies(int quick)
{
    for (int s = 0; s < (quick ? 2 : SIZES); s++) {
        const size_t nbytes = s == SIZES - 1 ? (size_t)1 << 30 : (size_t)4096 << 3 * s;
        const size_t fit = ((size_t)1 << 30) / nbytes;
        const int n = quick ? 3 : fit < 3 ? 3 : fit > FEW ? FEW : (int)fit;
        struct work w = {.nbytes = nbytes};
        char name[64];
        DO(cuMemAlloc_v2, &w.to, nbytes);
        DO(cuMemAlloc_v2, &w.of, nbytes);
        for (int pinned = 0; pinned < 2; pinned++) {
            if (pinned)
                DO(cuMemHostAlloc, &w.host, nbytes, 0);
            else if (!(w.host = malloc(nbytes)))
                exit(1);
            memset(w.host, 1, nbytes);
            snprintf(name, sizeof name, "h2d_%s_%zu_ns", pinned ? "pinned" : "pageable", nbytes);
            figure(name, each(go_h2d, &w, n, 1, 1));
            snprintf(name, sizeof name, "d2h_%s_%zu_ns", pinned ? "pinned" : "pageable", nbytes);
            figure(name, each(go_d2h, &w, n, 1, 1));
            if (pinned)
                DO(cuMemFreeHost, w.host);
            else
                free(w.host);
        }
        snprintf(name, sizeof name, "d2d_%zu_ns", nbytes);
        figure(name, each(go_d2d, &w, n, 1, 1));
        DO(cuMemFree_v2, w.to);
        DO(cuMemFree_v2, w.of);
    }
}

/* The PTX with a constant of its own before the first entry: nobody has compiled that. */
static void jit(const char *path, const char *tag)
{
    char *text = read_file(path), *entry = strstr(text, ".visible .entry");
    const size_t room = strlen(text) + strlen(tag) + 128;
    char *fresh = malloc(room);
    if (!fresh || !entry) exit(1);
    snprintf(fresh, room, "%.*s.visible .const .align 4 .b32 sparkle_%s = 1;\n%s", (int)(entry - text), text, tag, entry);
    for (int cached = 0; cached < 2; cached++) {
        void *module, *function;
        const int64_t start = now(CLOCK_MONOTONIC);
        DO(cuModuleLoadData, &module, fresh);
        DO(cuModuleGetFunction, &function, module, "gemm_f32");
        DO(cuModuleUnload, module);
        figure(cached ? "ptx_cached_ns" : "ptx_cold_ns", (double)(now(CLOCK_MONOTONIC) - start));
    }
    free(fresh);
    free(text);
}

static double rss_mib(void)
{
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    long kib = 0;
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "VmRSS: %ld", &kib) == 1) break;
    if (file) fclose(file);
    return (double)kib / 1024;
}

int main(int argc, char **argv)
{
    int device, version = 0;
    void *context;
    const int64_t first = now(CLOCK_MONOTONIC), born = argc > 2 ? strtoll(argv[2], NULL, 10) : 0;
    const int quick = argc > 6;
    if (argc < 6) {
        fputs("baseline LIBCUDA BORN JIT.ptx TAG DIR [--quick]\n", stderr);
        return 2;
    }
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "baseline: %s\n", dlerror());
        return 1;
    }
#define FIND(name, args)                                        \
    if (!(name = (int(*) args)dlsym(library, #name))) {         \
        fprintf(stderr, "baseline: no %s\n", #name);            \
        return 1;                                               \
    }
    CALLS(FIND)
#define LOOK(name, args) name = (int(*) args)dlsym(library, #name);
    GRAPHS(LOOK)
    const int64_t loaded = now(CLOCK_MONOTONIC);
    rounds = quick ? 3 : MANY;
    DO(cuInit, 0);
    DO(cuDriverGetVersion, &version);
    DO(cuDeviceGet, &device, 0);
    DO(cuDevicePrimaryCtxRetain, &context, device);
    DO(cuCtxSetCurrent, context);
    DO(cuStreamCreate, &stream, 1);
    const int64_t opened = now(CLOCK_MONOTONIC);
    for (int i = 0; i < 4; i++) DO(cuMemAlloc_v2, &memory[i], 4096);
    for (int i = 0; i < 16; i++) {
        f32s[i] = 1.5f, u32s[i] = (uint32_t)i;
        args16[i] = i < 4 ? (void *)&memory[i] : i < 12 ? (void *)&u32s[i] : (void *)&f32s[i];
    }
    args4[0] = &memory[0], args4[1] = &memory[1], args4[2] = &f32s[2], args4[3] = &u32s[3];
    kernel4 = load(argv[5], 4);
    struct work w = {.function = kernel4, .args = args4};
    go_launch(&w);
    DO(cuStreamSynchronize, stream);
    const int64_t done = now(CLOCK_MONOTONIC);
    printf("{\"version\": \"CUDA %d.%d\", \"errors\": {}, \"values\": {", version / 1000, version % 1000 / 10);
    figure("python_s", (double)(first - born) / 1e9);
    figure("import_s", (double)(loaded - first) / 1e9);
    figure("init_s", (double)(opened - loaded) / 1e9);
    figure("first_kernel_s", (double)(done - opened) / 1e9);
    figure("start_s", (double)(done - born) / 1e9);
    figure("rss_mib", rss_mib());
    figure("launch_4_ns", each(go_launch, &w, rounds, BATCH, 0));
    figure("prepared_4_ns", each(go_launch, &w, rounds, BATCH, 0));
    figure("launch_sync_ns", each(go_launch, &w, rounds, 1, 1));
    w = (struct work){.function = load(argv[5], 0), .args = args4};
    figure("launch_0_ns", each(go_launch, &w, rounds, BATCH, 0));
    w = (struct work){.function = load(argv[5], 16), .args = args16};
    figure("launch_16_ns", each(go_launch, &w, rounds, BATCH, 0));
    graphs();
    copies(quick);
    w = (struct work){.nbytes = 1 << 20};
    figure("alloc_free_ns", each(go_alloc, &w, rounds, 10, 0));
    jit(argv[3], argv[4]);
    puts("}}");
    return 0;
}
