/* Reads from PTX text what a driver needs to know before it compiles: "PTX ISA", sections Directives and Kernel
 * Function Parameters. Nothing is compiled: kernels run by name. */
#include "../include/fake.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int complain(struct fk_image *out, int result, const char *format, ...) __attribute__((format(printf, 3, 4)));
static int complain(struct fk_image *out, int result, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(out->log, sizeof out->log, format, args);
    va_end(args);
    return result;
}

/* The newest PTX ISA of a driver: table "PTX Release History". CUDA version / 10, PTX version. */
static const int releases[][2] = {{1100, 70}, {1101, 71}, {1102, 72}, {1103, 73}, {1104, 74}, {1105, 75}, {1106, 76},
                                  {1107, 77}, {1108, 78}, {1200, 80}, {1201, 81}, {1202, 82}, {1203, 83}, {1204, 84},
                                  {1205, 85}, {1207, 86}, {1208, 87}, {1209, 88}, {1300, 90}};

static int newest(int driver)
{
    int version = 65;
    for (size_t i = 0; i < sizeof releases / sizeof *releases; i++)
        if (driver / 10 >= releases[i][0])
            version = releases[i][1];
    return version;
}

/* The text without comments: spaces in their place, so that line numbers stay. */
static char *without_comments(const char *text)
{
    char *const out = strdup(text);
    const char *end = NULL; /* of the comment that p is in */
    for (char *p = out; p && *p; p++) {
        if (!end && p[0] == '/' && (p[1] == '/' || p[1] == '*'))
            end = p[1] == '/' ? "\n" : "*/";
        else if (end && strncmp(p, end, strlen(end)) == 0) {
            if (*end == '*')
                p[0] = p[1] = ' ';
            end = NULL;
        }
        if (end && *p != '\n')
            *p = ' ';
    }
    return out;
}

static const char *skip(const char *p)
{
    while (isspace((unsigned char)*p))
        p++;
    return p;
}

static bool is_name(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '%';
}

static size_t name_length(const char *p)
{
    size_t n = 0;
    while (is_name(p[n]))
        n++;
    return n;
}

/* A directive as a whole word; NULL if there is none before `end` (NULL: of the text). */
static const char *directive(const char *text, const char *name, const char *end)
{
    const size_t n = strlen(name);
    for (const char *p = strstr(text, name); p && (!end || p < end); p = strstr(p + 1, name))
        if (!is_name(p[n]))
            return p + n;
    return NULL;
}

/* Bytes of a type such as .u64 .b8 .f32; 0: not a type. */
static unsigned type_bytes(const char *p)
{
    static const char kinds[] = "usbf";
    if (p[0] != '.' || !strchr(kinds, p[1]))
        return 0;
    const long bits = strtol(p + 2, NULL, 10);
    return bits >= 8 ? (unsigned)bits / 8 : 0;
}

/* "[.align N] .type name[N]" or with any qualifiers between; a variable or a parameter. */
static const char *declaration(const char *p, const char **name, size_t *length, unsigned *align, unsigned *nbytes)
{
    unsigned element = 0;
    *align = 0;
    for (p = skip(p); *p == '.'; p = skip(p)) {
        if (strncmp(p, ".align", 6) == 0) {
            char *end;
            const unsigned long n = strtoul(p + 6, &end, 10);
            if (element == 0) /* after the type it is that of what a pointer points to */
                *align = (unsigned)n;
            p = end;
            continue;
        }
        if (!element)
            element = type_bytes(p);
        p += 1 + name_length(p + 1);
    }
    *name = p;
    *length = name_length(p);
    p = skip(p + *length);
    *nbytes = element;
    if (*p == '[') {
        char *end;
        *nbytes = element * (unsigned)strtoul(p + 1, &end, 10);
        p = *end == ']' ? end + 1 : end;
    }
    if (*align == 0)
        *align = element;
    return element && *length ? p : NULL;
}

static int read_params(const char *p, const char *end, struct fk_params *out)
{
    const char *name;
    size_t length;
    unsigned align, nbytes;
    while ((p = directive(p, ".param", end)) != NULL) {
        if (out->count == FK_MAX_PARAMS || !declaration(p, &name, &length, &align, &nbytes) || nbytes == 0)
            return -1;
        out->nbytes = (out->nbytes + align - 1) / align * align;
        out->at[out->count].offset = out->nbytes;
        out->at[out->count++].size = nbytes;
        out->nbytes += nbytes;
    }
    return 0;
}

/* Three numbers of .maxntid or .reqntid, multiplied. */
static unsigned threads_of(const char *p)
{
    unsigned product = 1;
    for (int i = 0; i < 3; i++) {
        char *end;
        const unsigned long n = strtoul(p, &end, 10);
        if (end == p)
            break;
        product *= (unsigned)n;
        p = skip(end);
        if (*p != ',')
            break;
        p++;
    }
    return product;
}

static const char *end_of_body(const char *p)
{
    int depth = 0;
    for (; *p; p++) {
        depth += *p == '{';
        if (*p == '}' && --depth == 0)
            return p;
    }
    return NULL;
}

static unsigned shared_bytes(const char *p, const char *end)
{
    unsigned total = 0, align, nbytes;
    const char *name;
    size_t length;
    while ((p = directive(p, ".shared", end)) != NULL) {
        const char *const before = p;
        if (p[0] == '.' || !declaration(p, &name, &length, &align, &nbytes)) {
            p = before; /* an instruction such as ld.shared.f32 */
            continue;
        }
        total = (total + align - 1) / align * align + nbytes;
    }
    return total;
}

static int read_entry(const char **at, struct fk_image *out)
{
    const char *p = skip(*at);
    const size_t length = name_length(p);
    const char *const open = skip(p + length);
    const char *const body = strchr(open, '{');
    const char *const last = body ? end_of_body(body) : NULL;
    if (!length || !last)
        return complain(out, CUDA_ERROR_INVALID_PTX, "ptxas application ptx input, fatal   : Parsing error near '%.20s'",
                        p);
    struct fk_function *const f = calloc(1, sizeof *f);
    if (!f || !(f->name = strndup(p, length)))
        return free(f), CUDA_ERROR_OUT_OF_MEMORY;
    f->next = out->functions;
    out->functions = f;
    const char *const close = *open == '(' ? strchr(open, ')') : NULL;
    if (close && close < body && read_params(open, close, &f->params) != 0)
        return complain(out, CUDA_ERROR_INVALID_PTX, "ptxas application ptx input, fatal   : Parsing error near '%.20s'",
                        open);
    const char *const tuning = close && close < body ? close : open;
    const char *limit = directive(tuning, ".maxntid", body);
    if (!limit)
        limit = directive(tuning, ".reqntid", body);
    f->max_threads = limit ? threads_of(limit) : 1024;
    f->shared = shared_bytes(body, last);
    f->registers = 32;
    f->kernel = fk_kernel_named(f->name);
    *at = last + 1;
    return 0;
}

static int read_variables(const char *text, struct fk_image *out)
{
    const char *name, *p = text;
    size_t length;
    unsigned align, nbytes;
    while ((p = directive(p, ".global", NULL)) != NULL) {
        const char *const before = p;
        if (!isspace((unsigned char)p[0]) || !declaration(p, &name, &length, &align, &nbytes)) {
            p = before;
            continue;
        }
        struct fk_variable *const v = calloc(1, sizeof *v);
        if (!v || !(v->name = strndup(name, length)))
            return free(v), CUDA_ERROR_OUT_OF_MEMORY;
        v->nbytes = nbytes;
        v->next = out->variables;
        out->variables = v;
        p = name;
    }
    return 0;
}

static int read_header(const char *text, const struct fk_device *device, struct fk_image *out)
{
    int major, minor, sm;
    char suffix = '\0';
    (void)device;
    const char *const version = directive(text, ".version", NULL);
    if (!version || skip(text) != version - 8 || sscanf(version, " %d.%d", &major, &minor) != 2)
        return complain(out, CUDA_ERROR_INVALID_PTX,
                        "ptxas application ptx input, line 1; fatal   : Missing .version directive at start of file");
    out->ptx_version = 10 * major + minor;
    if (out->ptx_version > newest(fk_settings.driver))
        return complain(out, CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
                        "ptxas application ptx input, line 1; fatal   : Unsupported .version %d.%d; current version is '%d.%d'",
                        major, minor, newest(fk_settings.driver) / 10, newest(fk_settings.driver) % 10);
    const char *const target = directive(text, ".target", NULL);
    if (!target || sscanf(target, " sm_%d%c", &sm, &suffix) < 1)
        return complain(out, CUDA_ERROR_INVALID_PTX, "ptxas application ptx input, fatal   : Missing .target directive");
    out->binary_version = sm;
    const int mine = 10 * fk_settings.major + fk_settings.minor;
    if (sm > mine) /* seen with drivers of CUDA 12.9: 218 */
        return complain(out, CUDA_ERROR_INVALID_PTX,
                        "ptxas fatal   : SM version specified by .target is higher than default SM version assumed");
    if ((suffix == 'a' && sm != mine) || (suffix == 'f' && sm / 10 != mine / 10))
        return complain(out, CUDA_ERROR_NO_BINARY_FOR_GPU, "ptxas fatal   : .target sm_%d%c is not for sm_%d", sm, suffix,
                        mine);
    return 0;
}

int fk_ptx_read(const char *given, const struct fk_device *device, struct fk_image *out)
{
    char *const text = without_comments(given);
    if (!text)
        return CUDA_ERROR_OUT_OF_MEMORY;
    int rc = read_header(text, device, out);
    const char *at = text;
    while (rc == 0 && (at = directive(at, ".entry", NULL)) != NULL)
        rc = read_entry(&at, out);
    if (rc == 0)
        rc = read_variables(text, out);
    free(text);
    return rc;
}
