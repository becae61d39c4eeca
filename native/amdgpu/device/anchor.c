/* Converts readings of the GPU's clock (ticks) to CLOCK_MONOTONIC.
 *
 * An anchor is one reading of both clocks. The conversion is a line of straight pieces that follows
 * the anchors. Past parts of the line never change.
 *
 * The clocks drift apart by some 50 ppm, and a suspend of the machine shifts one against the other.
 * So a conversion takes a new anchor when the newest anchor is a second old. Times that were
 * already reported stay valid: a new piece starts at the newest reported ticks, or where the newest
 * piece starts if that is later. The new piece leads to the new anchor. Beyond the anchor the line
 * continues at the measured rate. Unless a clock leaps, as in a suspend, the line has no step and
 * never goes back. So times of one queue are in order, and a duration does not depend on when the
 * caller asks for the duration.
 *
 * While the clocks run within 100 ppm of one another, times are within 0.2 ms of CLOCK_MONOTONIC.
 * Half of that error comes from the second between two anchors. The other half is an earlier error
 * that the line still corrects. The line has a step where a clock has leapt. If a job ended before
 * a leap and its time is read after the leap, that time is wrong by the size of the leap. */
#include "anchor.h"
#include "core/base.h"

enum { QUESTIONS = 5 };
static const uint64_t RENEW_NS = 1000000000;
static const double SECOND = 1e9, LEAP_NS = 1e6;
/* Largest relative change of the rate; a larger change counts as a leap of a clock. Spread
 * spectrum shifts a clock by up to 0.25 %. */
static const double SLEW = 1.0 / 256;
/* Longest time between two anchors that measure the rate: a longer time may include a suspend. */
static const double MEASURED_NS = 10e9;
/* limit of the ns that a conversion adds to the start of its piece: twice this number fits into an
 * int64_t */
static const double MOST_NS = 4e18;
static const uint64_t FAR = UINT64_C(1) << 53; /* largest range of exact integers in a double */

static double within(double x, double limit)
{
    return x < -limit ? -limit : x > limit ? limit : x;
}

static double nominal(const struct sp_amdgpu *dev)
{
    return 1e6 / dev->setup.counter_khz;
}

static double at_rate(uint64_t from, uint64_t to, double ns_per_tick)
{
    uint64_t far = to >= from ? to - from : from - to;
    double ns = (double)(far < FAR ? far : FAR) * ns_per_tick;
    return to >= from ? ns : -ns;
}

/* Converts `ticks` to CLOCK_MONOTONIC, in ns. Uses the newest stored piece of the conversion
 * (struct sp_piece) that begins at or before `ticks`, or the oldest piece if none does. */
static int64_t line_at(const struct sp_anchors *a, uint64_t ticks)
{
    uint32_t kept = a->n < SP_PIECES ? a->n : SP_PIECES;
    const struct sp_piece *p = &a->piece[(a->n - 1) % SP_PIECES];
    for (uint32_t back = 2; ticks < p->ticks && back <= kept; back++)
        p = &a->piece[(a->n - back) % SP_PIECES];
    return p->ns + (int64_t)within(at_rate(p->ticks, ticks, p->ns_per_tick), MOST_NS);
}

static void begin_piece(struct sp_anchors *a, uint64_t ticks, int64_t ns, double ns_per_tick)
{
    a->piece[a->n++ % SP_PIECES] = (struct sp_piece){ticks, ns, ns_per_tick};
}

/* Returns 1 if a clock has leapt since the last anchor, or if the newest reported ticks are more
 * than a second after `ticks`. */
static int has_jumped(const struct sp_anchors *a, uint64_t ticks, int64_t ns, double rate)
{
    double off = (double)(ns - line_at(a, ticks)), most = SLEW * (double)(ns - a->ns) + LEAP_NS;
    return ticks <= a->ticks || off > most || off < -most || at_rate(ticks, a->told, rate) > SECOND;
}

/* Adds pieces (struct sp_piece) to the conversion from ticks to ns, so that it approaches a new
 * anchor: at time `ns` the GPU's clock read `ticks`. SLEW limits how much the rate changes, so
 * the conversion of `ticks` may still differ from `ns`. The caller holds the lock of the
 * anchors. */
static void slew(struct sp_anchors *a, uint64_t ticks, int64_t ns, double rate)
{
    double gone = (double)(ns - a->ns);
    if (!a->n || has_jumped(a, ticks, ns, rate)) {
        a->n = 0;
        a->told = ticks;
        begin_piece(a, ticks, ns, rate);
    } else {
        const uint64_t begun = a->piece[(a->n - 1) % SP_PIECES].ticks;
        uint64_t from = a->told > begun ? a->told : begun;
        if (gone < MEASURED_NS)
            rate *= 1 + within(gone / at_rate(a->ticks, ticks, rate) - 1, SLEW);
        if (from < ticks) {
            int64_t had = line_at(a, from);
            double want = (double)(ns - had) / at_rate(from, ticks, rate) - 1;
            begin_piece(a, from, had, rate * (1 + within(want, SLEW)));
            from = ticks;
        }
        int64_t had = line_at(a, from);
        double want = (double)(ns - had) + at_rate(ticks, from, rate);
        begin_piece(a, from, had, rate * (1 + within(want / SECOND, SLEW)));
    }
    a->ticks = ticks;
    a->ns = ns;
}

void sp_anchor_renew(struct sp_amdgpu *dev)
{
    struct sp_anchors *a = &dev->anchors;
    uint64_t due = atomic_load(&a->due_ns), now = sp_clock_ns(), best = UINT64_MAX, ticks = 0, ns = 0;
    if (now < due || !atomic_compare_exchange_strong(&a->due_ns, &due, now + RENEW_NS))
        return;
    /* Read both clocks QUESTIONS times, and use the reading with the shortest round trip: it is
     * the most exact one. */
    for (int i = 0; i < QUESTIONS; i++) {
        uint64_t answer, before = sp_clock_ns();
        if (sp_amdgpu_info(dev, AMDGPU_INFO_TIMESTAMP, 0, &answer, sizeof answer) < 0)
            return;
        uint64_t took = sp_clock_ns() - before;
        if (took < best) {
            best = took;
            ticks = answer;
            ns = before + took / 2;
        }
    }
    pthread_mutex_lock(&a->lock);
    slew(a, ticks, (int64_t)ns, nominal(dev));
    pthread_mutex_unlock(&a->lock);
}

uint64_t sp_amdgpu_ns(struct sp_amdgpu *dev, uint64_t ticks)
{
    struct sp_anchors *a = &dev->anchors;
    pthread_mutex_lock(&a->lock);
    if (ticks > a->told && ticks - a->told < FAR)
        a->told = ticks;
    int64_t ns = a->n ? line_at(a, ticks) : (int64_t)sp_ticks_ns(dev, ticks);
    pthread_mutex_unlock(&a->lock);
    return (uint64_t)ns;
}

uint64_t sp_ticks_ns(const struct sp_amdgpu *dev, uint64_t ticks)
{
    return (uint64_t)((unsigned __int128)ticks * 1000000u / dev->setup.counter_khz);
}
