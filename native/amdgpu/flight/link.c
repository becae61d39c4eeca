/* Creates links between two devices, and destroys a link after its last submission. */
#include "link.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static int make_chunk(struct sp_amdgpu *here, struct sp_amdgpu_link *link, int i)
{
    int rc = sp_amdgpu_alloc(link->reader->dev, SP_CHUNK_NBYTES, SP_AMDGPU_SHARED, &link->there[i]);
    if (rc)
        return rc;
    int fd = sp_amdgpu_export(link->there[i]);
    if (fd < 0)
        return fd;
    rc = sp_amdgpu_import(here, fd, SP_CHUNK_NBYTES, &link->here[i]);
    close(fd);
    if (rc)
        return rc;
    sp_amdgpu_list_by_job(link->there[i]);
    sp_amdgpu_list_by_job(link->here[i]);
    return 0;
}

int sp_amdgpu_link_open(struct sp_amdgpu *here, struct sp_amdgpu_queue *reader, struct sp_amdgpu_link **out)
{
    struct sp_amdgpu_link *link = calloc(1, sizeof *link);
    if (!link)
        return -ENOMEM;
    atomic_store(&link->refs, 1);
    pthread_mutex_init(&link->lock, NULL);
    link->reader = reader;
    atomic_fetch_add(&reader->common.refs, 1);
    int rc = 0;
    for (int i = 0; rc == 0 && i < SP_LINK_CHUNKS; i++)
        rc = make_chunk(here, link, i);
    if (rc)
        sp_amdgpu_link_close(link);
    else
        *out = link;
    return rc;
}

void sp_amdgpu_link_close(struct sp_amdgpu_link *link)
{
    if (!link || !sp_queue_usable(&link->reader->common) || atomic_fetch_sub(&link->refs, 1) != 1)
        return;
    for (int i = 0; i < SP_LINK_CHUNKS; i++) {
        sp_amdgpu_free(link->here[i]);
        sp_amdgpu_free(link->there[i]);
    }
    sp_queue_release(link->reader);
    pthread_mutex_destroy(&link->lock);
    free(link);
}
