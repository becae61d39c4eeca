/* The folders through which a driver finds its cards, made in a temporary place: what Linux shows in /dev/dri and
 * /sys/dev/char. Paths below those two are led there; everything else is left alone. */
#ifndef SP_PRELOAD_TREE_H
#define SP_PRELOAD_TREE_H
#include <stddef.h>
#include <stdint.h>

enum { SP_TREE_PATH = 4096, SP_TREE_CARDS = 16 };

/* What /sys tells of a card before anybody opens it. */
struct sp_tree_card {
    uint32_t vendor, device, subsystem_vendor, subsystem_device, revision;
};

/* Makes the tree. 0 or -errno; the tree is removed by sp_tree_remove. */
int sp_tree_make(const struct sp_tree_card *cards, uint32_t count);
void sp_tree_remove(void);

/* Where `path` really is: itself, or `out` (SP_TREE_PATH bytes) filled with a path inside the tree. NULL stays NULL. */
const char *sp_tree_redirect(const char *path, char *out);
/* The card whose render node `path` names (as a program names it), or -1. */
int sp_tree_render_node(const char *path);
#endif
