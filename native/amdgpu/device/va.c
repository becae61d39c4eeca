/* The allocator of GPU addresses: a sorted array of free ranges, first fit. A freed range is merged
 * with its neighbours. */
#include "include/sp_amdgpu.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct range {
    uint64_t at;
    uint64_t end;
};

struct sp_va {
    uint64_t begin, end, page;
    struct range *free_;
    size_t count, most;
};

static int power_of_two(uint64_t n)
{
    return n != 0 && (n & (n - 1)) == 0;
}

int sp_va_open(uint64_t begin, uint64_t end, uint64_t page, struct sp_va **out)
{
    if (!power_of_two(page) || end > UINT64_MAX - page)
        return -EINVAL;
    begin = (begin + page - 1) & ~(page - 1);
    end &= ~(page - 1);
    if (begin == 0) /* address 0 is never allocated */
        begin = page;
    if (begin >= end)
        return -EINVAL;
    struct sp_va *va = calloc(1, sizeof *va);
    struct range *first = calloc(16, sizeof *first);
    if (!va || !first) {
        free(va);
        free(first);
        return -ENOMEM;
    }
    *first = (struct range){begin, end};
    *va = (struct sp_va){.begin = begin, .end = end, .page = page, .free_ = first, .count = 1, .most = 16};
    *out = va;
    return 0;
}

void sp_va_close(struct sp_va *va)
{
    if (va)
        free(va->free_);
    free(va);
}

/* Inserts a free range at index `i` of the array. Returns 0 or -ENOMEM. */
static int insert(struct sp_va *va, size_t i, struct range range)
{
    if (va->count == va->most) {
        struct range *more = realloc(va->free_, 2 * va->most * sizeof *more);
        if (!more)
            return -ENOMEM;
        va->free_ = more;
        va->most *= 2;
    }
    memmove(va->free_ + i + 1, va->free_ + i, (va->count - i) * sizeof *va->free_);
    va->free_[i] = range;
    va->count++;
    return 0;
}

static void take_out(struct sp_va *va, size_t i)
{
    va->count--;
    memmove(va->free_ + i, va->free_ + i + 1, (va->count - i) * sizeof *va->free_);
}

int sp_va_take(struct sp_va *va, uint64_t nbytes, uint64_t align, uint64_t *out)
{
    if (nbytes == 0 || nbytes > va->end || !power_of_two(align))
        return -EINVAL;
    if (align < va->page)
        align = va->page;
    nbytes = (nbytes + va->page - 1) & ~(va->page - 1);
    for (size_t i = 0; i < va->count; i++) {
        struct range *r = &va->free_[i];
        uint64_t at = (r->at + align - 1) & ~(align - 1);
        if (at < r->at || at >= r->end || r->end - at < nbytes)
            continue;
        struct range rest = {at + nbytes, r->end};
        if (at == r->at && rest.at == rest.end) {
            take_out(va, i);
        } else if (at == r->at) {
            r->at = rest.at;
        } else {
            if (rest.at < rest.end && insert(va, i + 1, rest))
                return -ENOMEM;
            va->free_[i].end = at;
        }
        *out = at;
        return 0;
    }
    return -ENOMEM;
}

int sp_va_give(struct sp_va *va, uint64_t at, uint64_t nbytes)
{
    nbytes = (nbytes + va->page - 1) & ~(va->page - 1);
    if (nbytes == 0 || at % va->page || at < va->begin || at > va->end || nbytes > va->end - at)
        return -EINVAL;
    size_t i = 0;
    while (i < va->count && va->free_[i].at < at)
        i++;
    struct range *before = i ? &va->free_[i - 1] : NULL, *after = i < va->count ? &va->free_[i] : NULL;
    if ((before && before->end > at) || (after && after->at < at + nbytes))
        return -EINVAL;
    int joins = before && before->end == at, joined = after && after->at == at + nbytes;
    if (joins && joined) {
        before->end = after->end;
        take_out(va, i);
    } else if (joins) {
        before->end = at + nbytes;
    } else if (joined) {
        after->at = at;
    } else {
        return insert(va, i, (struct range){at, at + nbytes});
    }
    return 0;
}
