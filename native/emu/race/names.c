/* Writes the text of a race: both instructions with their addresses and waves, and the order that
 * is missing between them. */
#include "group_state.h"

uint64_t sp_race_pc_of(const struct sp_wave *w, uint32_t low)
{
    int32_t away = (int32_t)((low - sp_race_pc(w)) << 12) >> 12;
    return w->pc + (uint64_t)((int64_t)away * 4);
}

static void group_id(const struct sp_race_group *r, uint64_t number, uint32_t id[3])
{
    id[0] = r->first[0] + (uint32_t)(number % r->count[0]);
    id[1] = r->first[1] + (uint32_t)(number / r->count[0] % r->count[1]);
    id[2] = r->first[2] + (uint32_t)(number / r->count[0] / r->count[1]);
}

int sp_race_found(struct sp_wave *w, const struct sp_inst *i, const struct sp_race_pair *pair)
{
    uint32_t id[3];
    bool reads = pair->kind <= SP_RACE_DEVICE, first = w->fault->kind == SP_FAULT_NONE;
    group_id(w->race, pair->group, id);
    sp_wave_fault(w, SP_FAULT_RACE,
                  "%s at pc 0x%llx, wave %u of group %u,%u,%u, %s %s 0x%llx, which %s at pc 0x%llx, wave %u of group %u,%u,%u, "
                  "has %s: expected %s between the two",
                  sp_wave_op_name(i->op), (unsigned long long)w->pc, w->id, w->group->id[0], w->group->id[1], w->group->id[2],
                  reads ? "reads" : "writes", pair->space, (unsigned long long)pair->at, w->race->name_at(w, pair->pc),
                  (unsigned long long)pair->pc, pair->wave, id[0], id[1], id[2], pair->wrote ? "written" : "read",
                  pair->expected);
    if (first) {
        w->fault->va = pair->at;
        w->fault->access = reads ? SP_VM_READ : SP_VM_WRITE;
    }
    return sp_wave_fault_at(w, pair->lane);
}

void sp_race_data(const struct sp_race_lanes *a, uint32_t lane, uint8_t *to)
{
    for (uint32_t k = 0; 4 * k < a->nbytes; k++) {
        uint32_t data = a->from[k][lane] >> a->shift;
        memcpy(to + 4 * k, &data, 4);
    }
}

static bool differ(const struct sp_race_lanes *a, uint32_t l, uint32_t m)
{
    uint8_t one[16], two[16];
    uint64_t low = a->va[l] < a->va[m] ? a->va[l] : a->va[m], high = a->va[l] + a->va[m] - low;
    uint32_t away = (uint32_t)(high - low);
    if (high - low >= a->nbytes || (away && a->step != 4)) return false;
    sp_race_data(a, low == a->va[l] ? l : m, one);
    sp_race_data(a, low == a->va[l] ? m : l, two);
    return memcmp(one + away, two, a->nbytes - away) != 0;
}

/* Looks for two lanes of a store that write different values to the same byte. Returns the
 * higher-numbered of the two lanes, or -1 if there are none. */
static int lanes_clash(const struct sp_race_lanes *a)
{
    for (uint64_t left = a->lanes; left; left &= left - 1) {
        uint32_t l = (uint32_t)__builtin_ctzll(left);
        for (uint64_t rest = left & (left - 1); rest; rest &= rest - 1) {
            uint32_t m = (uint32_t)__builtin_ctzll(rest);
            if (differ(a, l, m)) return (int)m;
        }
    }
    return -1;
}

int sp_race_clash(struct sp_wave *w, const struct sp_inst *i, const struct sp_race_lanes *a, const char *space)
{
    int lane = a->from ? lanes_clash(a) : -1;
    if (lane < 0) return 0;
    if (w->fault->kind == SP_FAULT_NONE) {
        w->fault->va = a->va[lane];
        w->fault->access = SP_VM_WRITE;
    }
    sp_wave_fault(w, SP_FAULT_RACE,
                  "%s at pc 0x%llx, wave %u of group %u,%u,%u, writes %s 0x%llx for two lanes, with different values",
                  sp_wave_op_name(i->op), (unsigned long long)w->pc, w->id, w->group->id[0], w->group->id[1], w->group->id[2],
                  space, (unsigned long long)a->va[lane]);
    return sp_wave_fault_at(w, (uint32_t)lane);
}
