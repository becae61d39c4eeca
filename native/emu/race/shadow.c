#include "shadow.h"
#include "emu/wave/operand.h"

/* Number of memory lines (128 bytes each) for which the touched dwords are collected before they
 * are checked. Neighbouring lanes mostly touch the same line. */
enum { GATHERED = 4 };

static bool reads(enum sp_race_kind kind) { return kind <= SP_RACE_DEVICE; }

/* --- the check of two accesses for a race --- */
/* Returns true if each of the two accesses is atomic or may be atomic. A store may be atomic,
 * because plain and atomic stores are the same instruction. */
static bool both_atomic(const struct sp_look *k, const struct sp_mark *m, bool wrote)
{
    bool now = k->kind >= SP_RACE_ATOMIC || k->now.how & SP_MARK_MAYBE;
    if (k->kind == SP_RACE_DEVICE) return true;
    if (k->kind == SP_RACE_STORE) return wrote ? m->how & SP_MARK_ATOMIC && now : (m->how & SP_MARK_MAYBE) != 0;
    return now && m->how & (SP_MARK_ATOMIC | SP_MARK_MAYBE);
}

/* Returns true if the store changes a byte of the dword at address `at`, among those in the mask
 * `bytes`. A store of the value that is already there is no race. */
static bool changes(const struct sp_look *k, uint64_t at, uint32_t bytes, const uint8_t *host)
{
    const struct sp_race_lanes *a = k->a;
    if (k->kind != SP_RACE_STORE || !a->from) return true;
    for (uint64_t left = a->lanes; left; left &= left - 1) {
        uint32_t l = (uint32_t)__builtin_ctzll(left);
        uint8_t data[16];
        if (a->va[l] >= at + 4 && a->step == 4) continue;
        sp_race_data(a, l, data);
        for (uint32_t n = 0; n < a->nbytes; n++) {
            uint64_t in = a->va[l] + n / 4 * a->step + n % 4 - at;
            if (in < 4 && bytes >> in & 1 && data[n] != host[in]) return true;
        }
    }
    return false;
}

static int found(struct sp_look *k, const struct sp_mark *m, bool wrote, bool late, uint32_t dword, uint32_t bytes)
{
    uint64_t at = (k->line << SP_LINE_BITS) + 4 * dword;
    const uint8_t *host = k->lds ? k->w->group->lds + at : sp_memory_host(k, at);
    bool same = sp_who_group(m->who) == sp_who_group(k->now.who);
    if (!host || (wrote && !changes(k, at, bytes, host))) return 0;
    if (wrote && k->kind == SP_RACE_STORE && !k->lds && !same) {
        sp_memory_settle(k, m);
        if (!changes(k, at, bytes, host)) return 0;
    }
    struct sp_race_pair pair = {k->kind, k->lds ? "LDS" : "memory", at, sp_race_pc_of(k->w, m->how >> SP_MARK_PC),
                                sp_who_group(m->who) - 1, sp_who_wave(m->who), wrote, 0,
                                late ? "s_waitcnt 0 and s_barrier" : same ? "s_barrier" : "release and acquire"};
    return sp_race_found(k->w, k->i, &pair);
}

/* Returns true if the access of mark `m` surely precedes the one being checked. It does if both are
 * of one wave. It also does if both are of one group, with a barrier between them at which each
 * wave had waited for its accesses. */
static inline bool in_order(const struct sp_look *k, const struct sp_mark *m)
{
    if (!sp_who_other(m->who, k->now.who)) return true;
    return !((m->who ^ k->now.who) >> SP_WHO_GROUP) && !k->r->open && sp_who_barriers(m->who) != sp_who_barriers(k->now.who);
}

/* Checks the present access against one earlier access, of which `m` is the record. `mask` has a
 * bit for each dword of the line that the present access touches. If `dword` is not negative,
 * `mask` has a bit for each byte of that dword. */
static int meets(struct sp_look *k, const struct sp_mark *m, bool wrote, uint32_t mask, int dword)
{
    bool late;
    uint32_t both = m->mask & mask;
    if (SP_LIKELY(!both || in_order(k, m)) || both_atomic(k, m, wrote)) return 0;
    if (!(k->lds ? sp_lds_unordered : sp_memory_unordered)(k, m, &late)) return 0;
    if (dword >= 0) return found(k, m, wrote, late, (uint32_t)dword, both);
    for (; both; both &= both - 1)
        if (found(k, m, wrote, late, (uint32_t)__builtin_ctz(both), 15)) return SP_WAVE_FAULT;
    return 0;
}

/* Checks the present access against the recorded accesses in `to`. They are those to a memory line
 * or, if `dword` is not negative, those to that dword of the line. */
static int meet(struct sp_look *k, struct sp_marks *to, uint32_t mask, int dword)
{
    uint32_t both = to->write.mask & mask;
    if (both && meets(k, &to->write, true, mask, dword)) return SP_WAVE_FAULT;
    if (both && k->kind != SP_RACE_LOAD && k->kind != SP_RACE_STORE && to->write.how & (SP_MARK_ATOMIC | SP_MARK_MAYBE) &&
        sp_who_other(to->write.who, k->now.who)) {
        if (k->lds)
            sp_lds_saw(k, &to->write);
        else
            sp_memory_saw(k, &to->write, dword >= 0 ? 1u << dword : both);
    }
    if (reads(k->kind)) return 0;
    if (meets(k, &to->read, false, mask, dword) || meets(k, &to->other, false, mask, dword)) return SP_WAVE_FAULT;
    if (both && k->kind == SP_RACE_STORE && to->write.who == k->now.who && to->write.how == k->now.how) k->clash = 1;
    return 0;
}

/* --- marks (struct sp_mark, the record of an earlier access): replacing and splitting them --- */
/* Replaces the mark of an earlier access to a memory line by the mark of a new access. Returns
 * false if the two marks must be kept apart, one for each dword of the line. */
static bool put(struct sp_mark *m, const struct sp_mark *new)
{
    uint32_t differ = m->how ^ new->how;
    if (m->who == new->who && !(differ & ~(0xFFu << SP_MARK_SEQ))) {
        m->how = new->how;
        m->mask |= new->mask;
        return true;
    }
    if (m->mask & ~new->mask)
        return m->who == new->who && !(new->mask & ~m->mask) && !(differ & (SP_MARK_ATOMIC | SP_MARK_MAYBE));
    *m = *new;
    return true;
}

static bool put_all(struct sp_marks *to, const struct sp_mark *new, bool read)
{
    if (!read) return put(&to->write, new);
    if (!to->read.mask || !sp_who_other(to->read.who, new->who)) return put(&to->read, new);
    if (!put(&to->other, &to->read)) return false;
    to->read = *new;
    return true;
}

static void put_bytes(struct sp_mark *m, const struct sp_mark *new)
{
    uint32_t kept = m->who == new->who ? m->mask : 0;
    *m = *new;
    m->mask |= kept;
}

static void split(struct sp_look *k, struct sp_line *line)
{
    struct sp_races *races = k->r->all;
    if (!line->dword) {
        pthread_mutex_lock(&races->lock);
        line->dword = sp_arena_get(&races->arena, SP_LINE_DWORDS * sizeof *line->dword);
        pthread_mutex_unlock(&races->lock);
        if (!line->dword) return;
    }
    for (uint32_t d = 0; d < SP_LINE_DWORDS; d++) {
        struct sp_marks *to = &line->dword[d];
        *to = line->all;
        to->write.mask = line->all.write.mask >> d & 1 ? 15 : 0;
        to->read.mask = line->all.read.mask >> d & 1 ? 15 : 0;
        to->other.mask = line->all.other.mask >> d & 1 ? 15 : 0;
    }
    line->apart = 1;
}

static int each_dword(struct sp_look *k, struct sp_line *line, uint32_t dwords, uint32_t bytes)
{
    struct sp_mark now = k->now;
    now.mask = bytes;
    for (; dwords; dwords &= dwords - 1) {
        uint32_t d = (uint32_t)__builtin_ctz(dwords);
        struct sp_marks *to = &line->dword[d];
        /* This wave has loaded the same bytes before, so a second load of them needs no check. A
         * later access by another wave was checked against the first load. */
        if (k->kind == SP_RACE_LOAD && to->read.who == now.who && !(bytes & ~to->read.mask)) continue;
        if (k->kind == SP_RACE_LOAD && (!to->write.mask || in_order(k, &to->write))) {
            /* no race: there is no write yet, or the last write precedes this load */
        } else if (meet(k, to, bytes, (int)d)) {
            return SP_WAVE_FAULT;
        }
        if (reads(k->kind) && to->read.mask && sp_who_other(to->read.who, now.who)) to->other = to->read;
        put_bytes(reads(k->kind) ? &to->read : &to->write, &now);
    }
    return 0;
}

static int in_line(struct sp_look *k, struct sp_line *line, uint32_t dwords, uint32_t bytes)
{
    k->now.mask = dwords;
    if (!line->apart) {
        if (meet(k, &line->all, dwords, -1)) return SP_WAVE_FAULT;
        if (bytes == 15 && put_all(&line->all, &k->now, reads(k->kind))) return 0;
        split(k, line);
        if (!line->apart) return 0;
    }
    return each_dword(k, line, dwords, bytes);
}

/* Checks an access to line `number` for races, and marks it. `dwords` is the mask of the dwords
 * that it touches, `bytes` the mask of the bytes in each of these dwords. */
static int touch(struct sp_look *k, uint64_t number, uint32_t dwords, uint32_t bytes)
{
    k->line = number;
    if (k->lds) {
        struct sp_line *line = &k->r->lds[number % SP_RACE_LDS_LINES];
        /* all accesses recorded in this line precede a barrier that the present access follows, so
         * their records are dropped */
        if (line->epoch + 1 < k->r->lds_epoch) {
            memset(&line->all, 0, sizeof line->all);
            line->apart = 0;
        }
        line->epoch = k->r->lds_epoch;
        return in_line(k, line, dwords, bytes);
    }
    struct sp_race_page *page = sp_race_page_of(k->r, number << SP_LINE_BITS);
    if (!page) return 0;
    sp_race_lock(k->r, page);
    int rc = in_line(k, &page->line[number % SP_PAGE_LINES], dwords, bytes);
    sp_race_unlock(k->r, page);
    return rc;
}

static int flush(struct sp_look *k)
{
    unsigned __int128 bytes = k->bytes;
    uint64_t line = k->line;
    uint32_t whole = k->dwords;
    k->bytes = k->dwords = 0;
    for (uint32_t d = 0; bytes; d++, bytes >>= 4) {
        uint32_t of = (uint32_t)bytes & 15;
        if (of == 15)
            whole |= 1u << d;
        else if (of && touch(k, line, 1u << d, of))
            return SP_WAVE_FAULT;
    }
    return whole ? touch(k, line, whole, 15) : 0;
}

static int gather(struct sp_look *k, uint64_t va, uint32_t nbytes)
{
    uint64_t line = va >> SP_LINE_BITS;
    uint32_t at = va % (1u << SP_LINE_BITS), here = (1u << SP_LINE_BITS) - at;
    uint32_t n = nbytes < here ? nbytes : here;
    if (line != k->line) {
        if ((k->dwords || k->bytes) && flush(k)) return SP_WAVE_FAULT;
        k->line = line;
    }
    if ((at | n) % 4 == 0) {
        uint32_t dwords = (n == 1u << SP_LINE_BITS ? ~0u : (1u << n / 4) - 1) << at / 4;
        k->clash |= k->dwords & dwords;
        k->dwords |= dwords;
    } else {
        unsigned __int128 bytes = (((unsigned __int128)1 << n) - 1) << at;
        k->clash |= (k->bytes & bytes) != 0;
        k->bytes |= bytes;
    }
    return n < nbytes ? gather(k, va + n, nbytes - n) : 0;
}

/* Checks accesses of one whole dword per lane. Collects a mask of the touched dwords of each memory
 * line, then checks each line once. The function `gather` does the same for accesses of any width,
 * but needs a call for each lane. */
static int gather_dwords(struct sp_look *k)
{
    const uint64_t *at = k->a->va;
    uint64_t line[GATHERED] = {0};
    uint32_t dwords[GATHERED] = {0}, clash = 0;
    for (uint64_t left = k->a->lanes; left; left &= left - 1) {
        uint64_t va = at[__builtin_ctzll(left)], number = va >> SP_LINE_BITS;
        uint32_t n = number % GATHERED, bit = 1u << (va / 4 % SP_LINE_DWORDS);
        if (number != line[n]) {
            if (dwords[n] && touch(k, line[n], dwords[n], 15)) return SP_WAVE_FAULT;
            line[n] = number;
            dwords[n] = 0;
        }
        clash |= dwords[n] & bit;
        dwords[n] |= bit;
    }
    k->clash |= clash;
    for (uint32_t n = 0; n < GATHERED; n++)
        if (dwords[n] && touch(k, line[n], dwords[n], 15)) return SP_WAVE_FAULT;
    return 0;
}

static bool all_dwords(const struct sp_race_lanes *a)
{
    uint64_t odd = 0;
    if (a->nbytes != 4) return false;
    for (uint64_t left = a->lanes; left; left &= left - 1) odd |= a->va[__builtin_ctzll(left)];
    return odd % 4 == 0;
}

int sp_look_at_lanes(struct sp_look *k)
{
    const struct sp_race_lanes *a = k->a;
    uint32_t whole = a->step == 4 ? a->nbytes : a->nbytes < 4 ? a->nbytes : 4;
    k->line = UINT64_MAX;
    if (a->one_piece) {
        uint64_t va = a->va[0], end = va + a->nbytes * k->w->lanes;
        for (uint32_t n; va < end; va += n) {
            n = (1u << SP_LINE_BITS) - va % (1u << SP_LINE_BITS);
            if (n > end - va) n = (uint32_t)(end - va);
            if (gather(k, va, n)) return SP_WAVE_FAULT;
        }
    } else if (all_dwords(a)) {
        if (gather_dwords(k)) return SP_WAVE_FAULT;
    } else {
        uint64_t last = UINT64_MAX;
        for (uint64_t left = a->lanes; left; left &= left - 1) {
            uint64_t va = a->va[__builtin_ctzll(left)];
            if (va == last && k->kind != SP_RACE_STORE) continue;
            last = va;
            for (uint32_t n = 0; n < a->nbytes; n += whole)
                if (gather(k, va + n / 4 * a->step, whole)) return SP_WAVE_FAULT;
        }
    }
    if ((k->dwords || k->bytes) && flush(k)) return SP_WAVE_FAULT;
    return k->clash && k->kind == SP_RACE_STORE ? sp_race_clash(k->w, k->i, a, k->lds ? "LDS" : "memory") : 0;
}
