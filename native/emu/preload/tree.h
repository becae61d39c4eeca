/* The tree: a temporary folder with the contents of /dev/dri and /sys/dev/char, in which a driver
 * finds its cards. Paths below these two folders are redirected to the tree; all others are
 * unchanged. */
#ifndef SP_PRELOAD_TREE_H
#define SP_PRELOAD_TREE_H
#include <stddef.h>
#include <stdint.h>

enum { SP_TREE_PATH = 4096, SP_TREE_CARDS = 16 };

/* The ids that files below /sys report for a card. A program can read these files without opening
 * the card. */
struct sp_tree_card {
    uint32_t vendor, device, subsystem_vendor, subsystem_device, revision;
};

/* Makes the tree, which sp_tree_remove removes. Returns 0 or -errno. */
int sp_tree_make(const struct sp_tree_card *cards, uint32_t count);
void sp_tree_remove(void);

/* Returns the real place of `path`: `path` itself, or `out` (SP_TREE_PATH bytes) with a path inside
 * the tree. NULL stays NULL. */
const char *sp_tree_redirect(const char *path, char *out);
/* Returns the card whose render node `path` names (in the program's view), or -1. */
int sp_tree_render_node(const char *path);
#endif
