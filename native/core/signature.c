/* Extent checks as functions that are not inline, for backends in C and in Python. */
#include "extents.h"

int sp_signature_need(const struct sp_signature *sig, uint32_t index, const void *args, uint64_t *need)
{
    const struct sp_extent_step *steps = sig->steps;
    for (uint32_t i = 0; i < index; i++)
        steps += sig->pointers[i].nsteps;
    return sp_extent_need(&sig->pointers[index], steps, args, need);
}

int sp_signature_check(const struct sp_signature *sig, const void *args, uint32_t *bad, uint64_t *need)
{
    uint32_t nowhere;
    uint64_t unused;
    return sp_extents_check(sig, args, bad ? bad : &nowhere, need ? need : &unused);
}
