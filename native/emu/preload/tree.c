/* Makes the tree of files in which a driver finds its cards: a folder /dev/dri, and for each node
 * MAJOR:MINOR its device with subsystem, uevent and PCI ids. File names and contents follow Linux
 * and libdrm (xf86drm.c: drmGetDevices2, drmParseSubsystemType, drmParsePciBusInfo,
 * drmParsePciDeviceInfo). */
#define _GNU_SOURCE 1
#include "tree.h"
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DRM_MAJOR = 226, FIRST_RENDER_MINOR = 128, FIRST_BUS = 3 };

static char root[1024]; /* path of the tree's folder; "" until the tree is made */
static pid_t maker;     /* process that made the tree: a forked child must not remove it */
static const char *const led[] = {"/dev/dri", "/sys/dev/char/226:"};

/* Makes all folders before the last '/' of `path`, as mkdir -p does. */
static int make_parents(char *path)
{
    for (char *at = path + strlen(root) + 1; (at = strchr(at, '/')); at++) {
        *at = 0;
        int failed = mkdir(path, 0755) && errno != EEXIST;
        *at = '/';
        if (failed)
            return -errno;
    }
    return 0;
}

/* Makes the file `name`, a path within the tree, with the given text. Also makes the folders that
 * lead to the file. */
__attribute__((format(printf, 2, 3))) static int put(const char *name, const char *format, ...)
{
    char path[SP_TREE_PATH];
    snprintf(path, sizeof path, "%s/%s", root, name);
    int rc = make_parents(path);
    if (rc)
        return rc;
    FILE *file = fopen(path, "we");
    if (!file)
        return -errno;
    va_list arguments;
    va_start(arguments, format);
    rc = vfprintf(file, format, arguments) < 0 ? -EIO : 0;
    va_end(arguments);
    return fclose(file) && !rc ? -errno : rc;
}

static int put_link(const char *name, const char *target)
{
    char path[SP_TREE_PATH];
    snprintf(path, sizeof path, "%s/%s", root, name);
    int rc = make_parents(path);
    if (rc)
        return rc;
    return symlink(target, path) ? -errno : 0;
}

static int put_card(const struct sp_tree_card *card, uint32_t index)
{
    char device[128], name[256], target[256];
    uint32_t minor = FIRST_RENDER_MINOR + index;
    snprintf(device, sizeof device, "sys/devices/pci0000:00/0000:%02x:00.0", FIRST_BUS + index);
    const struct {
        const char *name;
        uint32_t value;
        int digits;
    } ids[] = {{"vendor", card->vendor, 4},
               {"device", card->device, 4},
               {"subsystem_vendor", card->subsystem_vendor, 4},
               {"subsystem_device", card->subsystem_device, 4},
               {"revision", card->revision, 2}};
    int rc = 0;
    for (size_t i = 0; !rc && i < sizeof ids / sizeof *ids; i++) {
        snprintf(name, sizeof name, "%s/%s", device, ids[i].name);
        rc = put(name, "0x%0*x\n", ids[i].digits, ids[i].value);
    }
    snprintf(name, sizeof name, "%s/uevent", device);
    if (!rc)
        rc = put(name, "DRIVER=amdgpu\nPCI_CLASS=30000\nPCI_ID=%04X:%04X\nPCI_SLOT_NAME=0000:%02x:00.0\n", card->vendor,
                 card->device, FIRST_BUS + index);
    snprintf(name, sizeof name, "%s/drm/renderD%u/dev", device, minor);
    if (!rc)
        rc = put(name, "%u:%u\n", DRM_MAJOR, minor);
    snprintf(name, sizeof name, "%s/subsystem", device);
    if (!rc)
        rc = put_link(name, "../../../bus/pci");
    snprintf(name, sizeof name, "sys/dev/char/%u:%u/device", DRM_MAJOR, minor);
    snprintf(target, sizeof target, "../../../../%s", device);
    if (!rc)
        rc = put_link(name, target);
    snprintf(name, sizeof name, "dev/dri/renderD%u", minor);
    return rc ? rc : put(name, "%s", "");
}

int sp_tree_make(const struct sp_tree_card *cards, uint32_t count)
{
    const char *place = getenv("TMPDIR");
    char path[sizeof root];
    if (count > SP_TREE_CARDS)
        return -EINVAL;
    if (snprintf(path, sizeof path, "%s/sparkle-emu-XXXXXX", place && *place ? place : "/tmp") >= (int)sizeof path)
        return -ENAMETOOLONG;
    if (!mkdtemp(path))
        return -errno;
    memcpy(root, path, sizeof root);
    maker = getpid();
    int rc = put("sys/bus/pci/drivers_autoprobe", "1\n");
    for (uint32_t i = 0; !rc && i < count; i++)
        rc = put_card(&cards[i], i);
    if (rc)
        sp_tree_remove();
    return rc;
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *where)
{
    (void)status, (void)kind, (void)where;
    return remove(path);
}

void sp_tree_remove(void)
{
    if (*root && maker == getpid())
        nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    *root = 0;
}

const char *sp_tree_redirect(const char *path, char *out)
{
    for (size_t i = 0; *root && path && i < sizeof led / sizeof *led; i++) {
        size_t length = strlen(led[i]);
        char next = strncmp(path, led[i], length) ? 'x' : path[length];
        int inside = led[i][length - 1] == ':' ? next >= '0' && next <= '9' : next == '/' || next == 0;
        if (inside && snprintf(out, SP_TREE_PATH, "%s%s", root, path) < SP_TREE_PATH)
            return out;
    }
    return path;
}

int sp_tree_render_node(const char *path)
{
    int minor = -1, end = 0;
    if (!path || sscanf(path, "/dev/dri/renderD%d%n", &minor, &end) != 1 || path[end])
        return -1;
    minor -= FIRST_RENDER_MINOR;
    return minor >= 0 && minor < SP_TREE_CARDS ? minor : -1;
}
