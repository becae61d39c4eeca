/* Finds the node of a descriptor. A node is one open() of a render node, known from its first call
 * on. */
#define _GNU_SOURCE 1
#include "record.h"

#include "include/sp_amdgpu_target.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { KCMP_FILE_ = 0 }; /* linux/kcmp.h */

static struct sp_record_fd **find_fd(struct sp_record *r, int fd)
{
    struct sp_record_fd **at = &r->fds;
    while (*at && (*at)->fd != fd)
        at = &(*at)->next;
    return at;
}

/* If no descriptor refers to a node any more, unmaps the node's BOs and forgets the node. Its
 * number is never used again. */
static void retire(struct sp_record *r, struct sp_record_node *node)
{
    for (struct sp_record_fd *left = r->fds; left; left = left->next)
        if (left->node == node) {
            node->fd = left->fd;
            return;
        }
    if (node->amdgpu && !r->stopped)
        sp_record_say(&r->text, "close node=%d\n", node->number);
    sp_record_node_drop(r, node);
    struct sp_record_node **at = &r->nodes;
    while (*at != node)
        at = &(*at)->next;
    *at = node->next;
    free(node);
    if (r->text.n)
        sp_record_file_put(&r->file, &r->text);
}

void sp_record_node_forget(struct sp_record *r, int fd)
{
    struct sp_record_fd **at = find_fd(r, fd), *gone = *at;
    if (!gone)
        return;
    struct sp_record_node *node = gone->node;
    *at = gone->next;
    free(gone);
    retire(r, node);
}

static int info(struct sp_record *r, int fd, uint32_t query, void *out, uint32_t nbytes)
{
    struct drm_amdgpu_info ask;
    memset(&ask, 0, sizeof ask);
    ask.return_pointer = (uintptr_t)out;
    ask.return_size = nbytes;
    ask.query = query;
    return sp_kmd_ioctl(r->next, fd, DRM_IOCTL_AMDGPU_INFO, &ask, 0);
}

static void write_node(struct sp_record *r, struct sp_record_node *node)
{
    char name[16] = "";
    struct drm_version version;
    struct drm_amdgpu_info_device device;
    struct drm_amdgpu_info_hw_ip ip;
    memset(&version, 0, sizeof version);
    memset(&device, 0, sizeof device);
    memset(&ip, 0, sizeof ip);
    version.name = name;
    version.name_len = sizeof name - 1;
    if (sp_kmd_ioctl(r->next, node->fd, DRM_IOCTL_VERSION, &version, 0) < 0 || strcmp(name, "amdgpu") != 0)
        return;
    node->amdgpu = 1;
    node->number = ++r->nodes_seen;
    info(r, node->fd, AMDGPU_INFO_DEV_INFO, &device, sizeof device);
    info(r, node->fd, AMDGPU_INFO_HW_IP_INFO, &ip, sizeof ip);
    /* The gfx number tells readers of the file which packet tables apply. For an unknown chip only
     * the major version is known. */
    uint32_t target = sp_amdgpu_target(&ip, &device);
    uint32_t major = ip.ip_discovery_version ? ip.ip_discovery_version >> 16 : ip.hw_ip_version_major;
    sp_record_say(&r->text, "# node %d is a gfx%u\nnode %d amdgpu %d.%d.%d device=%x rev=%x family=%u external_rev=%u memory=%d\n",
                  node->number, target ? target : major, node->number, version.version_major, version.version_minor,
                  version.version_patchlevel, device.device_id, device.pci_rev, device.family, device.external_rev,
                  (r->flags & SP_RECORD_MEMORY) != 0);
    sp_record_file_put(&r->file, &r->text);
}

/* Returns 1 if both descriptors come from one open(). Where kcmp is forbidden, returns 1 if they
 * name the same device file, which is right for programs that open the file once. */
static int same(int a, int b)
{
    struct stat x, y;
    long me = getpid(), rc = syscall(SYS_kcmp, me, me, KCMP_FILE_, a, b);
    if (rc >= 0)
        return rc == 0;
    return !fstat(a, &x) && !fstat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

struct sp_record_node *sp_record_node_of(struct sp_record *r, int fd)
{
    struct sp_record_fd *known = *find_fd(r, fd);
    if (known)
        return known->node;
    struct sp_record_node *node = r->nodes;
    while (node && !same(node->fd, fd))
        node = node->next;
    known = malloc(sizeof *known);
    if (!known)
        return NULL;
    if (!node) {
        node = calloc(1, sizeof *node);
        if (!node) {
            free(known);
            return NULL;
        }
        *node = (struct sp_record_node){.next = r->nodes, .fd = fd};
        r->nodes = node;
        write_node(r, node);
    }
    *known = (struct sp_record_fd){r->fds, fd, node};
    r->fds = known;
    return node;
}

struct sp_record_node *sp_record_node_numbered(const struct sp_record *r, int number)
{
    struct sp_record_node *node = r->nodes;
    while (node && node->number != number)
        node = node->next;
    return node;
}
