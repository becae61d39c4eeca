/* The folders in which a driver finds its cards, in a temporary place, with the contents of
 * /dev/dri and /sys/dev/char. Paths below those two are redirected there; all others are
 * unchanged. */
#ifndef SP_PRELOAD_TREE_H
#define SP_PRELOAD_TREE_H
#include <stddef.h>
#include <stdint.h>

enum { SP_TREE_PATH = 4096, SP_TREE_CARDS = 16 };

/* What /sys reports about a closed card. */
struct sp_tree_card {
    uint32_t vendor, device, subsystem_vendor, subsystem_device, revision;
};

/* Makes the tree. 0 or -errno. sp_tree_remove removes it. */
int sp_tree_make(const struct sp_tree_card *cards, uint32_t count);
void sp_tree_remove(void);

/* The real place of `path`: itself, or `out` (SP_TREE_PATH bytes) filled with a path inside the
 * tree. NULL stays NULL. */
const char *sp_tree_redirect(const char *path, char *out);
/* The card whose render node `path` names (in the program's view), or -1. */
int sp_tree_render_node(const char *path);
#endif
