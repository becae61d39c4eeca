/* Parses the text of a card: the name of a chip, then options, each after a colon.
 * "gfx1103:kms-3.42:bar-256M".
 *
 *   kms-3.N   the KMS version; a version below 3.42 changes only the number that is reported
 *   vram-SIZE, bar-SIZE, gtt-SIZE   the card's memory, its part visible to the CPU, and GTT;
 *           whole MiB as 256M, GiB as 8G
 *   se-N, cu-N   shader engines and compute units that work; the rest is fused off */
#include "state.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum option { KMS, VRAM, BAR, GTT, SE, CU, OPTIONS };
static const char *const words[OPTIONS] = {"kms", "vram", "bar", "gtt", "se", "cu"};
/* The largest number or size in bytes that the text of a card may give. It is far more than any
 * card has, and the sum of two such sizes does not overflow. */
static const uint64_t MOST_NBYTES = UINT64_C(1) << 50;

struct reading {
    char *why;
    size_t room;
    uint64_t value[OPTIONS];
    uint32_t given; /* a bit of enum option for each option that was given */
};

__attribute__((format(printf, 2, 3))) static int refuse(const struct reading *r, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(r->why, r->room, format, arguments);
    va_end(arguments);
    return -EINVAL;
}

static int refuse_name(const struct reading *r, const char *text, size_t length)
{
    char known[128] = "";
    const char *name;
    for (uint32_t i = 0; (name = kmd_chip_name(i)); i++)
        snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", i ? ", " : "", name);
    return refuse(r, "no chip is called '%.*s'; known are %s", (int)(length < 40 ? length : 40), text, known);
}

/* Parses a whole number at *at and moves *at to the first character after it. Returns -1 if there
 * is no number, or one above MOST_NBYTES. */
static int64_t number(const char **at)
{
    uint64_t value = 0;
    const char *first = *at;
    for (; **at >= '0' && **at <= '9'; ++*at)
        if ((value = value * 10 + (uint64_t)(**at - '0')) > MOST_NBYTES)
            return -1;
    return *at == first ? -1 : (int64_t)value;
}

static int read_value(struct reading *r, enum option which, const char *text, size_t length)
{
    const char *at = text, *end = text + length;
    int64_t value = number(&at);
    if (which == KMS) {
        bool three = value == 3 && at < end && *at == '.';
        value = three && ++at < end ? number(&at) : -1;
        if (value < 0 || at != end || value > KMD_KMS_NEWEST)
            return refuse(r, "kms-%.*s: expected kms-3.42 to kms-3.%u", (int)length, text, KMD_KMS_NEWEST);
    } else if (which <= GTT) {
        uint32_t shift = at < end && *at == 'M' ? 20 : at < end && *at == 'G' ? 30 : 0;
        if (value <= 0 || !shift || at + 1 != end || (uint64_t)value > MOST_NBYTES >> shift)
            return refuse(r, "%s-%.*s: expected a size above 0, such as %s-256M or %s-8G", words[which], (int)length, text,
                          words[which], words[which]);
        value = (int64_t)((uint64_t)value << shift);
    } else if (value < 0 || at != end) {
        return refuse(r, "%s-%.*s: expected a number", words[which], (int)length, text);
    }
    r->value[which] = (uint64_t)value;
    return 0;
}

static int read_option(struct reading *r, const char *text, size_t length)
{
    for (uint32_t i = 0; i < OPTIONS; i++) {
        size_t n = strlen(words[i]);
        if (length <= n || memcmp(text, words[i], n) != 0 || text[n] != '-')
            continue;
        if (r->given & 1U << i)
            return refuse(r, "%s is given twice", words[i]);
        r->given |= 1U << i;
        return length - n - 1 > 20 ? refuse(r, "%s-: expected at most 20 characters", words[i])
                                   : read_value(r, i, text + n + 1, length - n - 1);
    }
    return refuse(r, "no option is called '%.*s'; known are kms-3.N, vram-SIZE, bar-SIZE, gtt-SIZE, se-N, cu-N",
                  (int)(length < 40 ? length : 40), text);
}

static int harvest(const struct reading *r, struct drm_amdgpu_info_device *info)
{
    kmd_count_units(info);
    uint64_t engines = r->given & 1U << SE ? r->value[SE] : kmd_engines(info), all = kmd_engines(info);
    if (engines == 0 || engines > all)
        return refuse(r, "se-%llu: expected 1 to %llu shader engines", (unsigned long long)engines, (unsigned long long)all);
    kmd_harvest_engines(info, (uint32_t)engines);
    uint64_t units = r->given & 1U << CU ? r->value[CU] : info->cu_active_number;
    if (units == 0 || units > info->cu_active_number || units % 2)
        return refuse(r, "cu-%llu: expected an even number of compute units, 2 to %u", (unsigned long long)units,
                      info->cu_active_number);
    kmd_harvest_units(info, (uint32_t)units);
    return 0;
}

static void set_core(struct kmd_chip *chip)
{
    chip->core.generation = chip->gfx_version >> 16;
    chip->core.minor = chip->gfx_version >> 8 & 0xff;
    chip->core.num_se = chip->info.num_shader_engines;
    chip->core.num_cu = chip->info.cu_active_number;
    chip->core.counter_khz = chip->info.gpu_counter_freq;
    if (chip->core.generation == 10) { /* gfx11 reports no units that are always on */
        memcpy(chip->info.cu_ao_bitmap, chip->info.cu_bitmap, sizeof chip->info.cu_bitmap);
        chip->info.cu_ao_mask = chip->info.cu_bitmap[0][0];
    }
}

static uint64_t size(const struct reading *r, enum option which, uint64_t of_machine, uint64_t of_chip)
{
    return r->given & 1U << which ? r->value[which] : of_machine ? of_machine : of_chip;
}

int kmd_card_read(const char *text, const struct sp_emu_options *o, struct kmd_chip *chip, uint32_t *kms_minor, char *why,
                  size_t room)
{
    struct reading r = {.why = why, .room = room};
    size_t length = strcspn(text, ":");
    const struct kmd_chip *named = kmd_chip(text, length);
    int rc = named ? 0 : refuse_name(&r, text, length);
    for (const char *at = text + length; rc == 0 && *at; at += length) {
        length = strcspn(++at, ":");
        rc = read_option(&r, at, length);
    }
    if (rc < 0)
        return rc;
    *chip = *named;
    chip->vram_nbytes = size(&r, VRAM, o->vram_nbytes, chip->vram_nbytes);
    chip->visible_nbytes = size(&r, BAR, o->visible_nbytes, chip->vram_nbytes);
    chip->gtt_nbytes = size(&r, GTT, o->gtt_nbytes, chip->gtt_nbytes);
    if (chip->visible_nbytes > chip->vram_nbytes && r.given & 1U << BAR)
        return refuse(&r, "bar-%lluM: expected at most the card's memory, %lluM",
                      (unsigned long long)chip->visible_nbytes >> 20, (unsigned long long)chip->vram_nbytes >> 20);
    if (chip->visible_nbytes > chip->vram_nbytes)
        chip->visible_nbytes = chip->vram_nbytes;
    *kms_minor = r.given & 1U << KMS ? (uint32_t)r.value[KMS] : o->kms_minor ? o->kms_minor : KMD_KMS_DEFAULT;
    rc = harvest(&r, &chip->info);
    if (rc < 0)
        return rc;
    set_core(chip);
    kmd_chip_of_kernel(chip, *kms_minor);
    return 0;
}

int sp_emu_check_card(const char *text, char *why, size_t nbytes)
{
    const struct sp_emu_options none = {0};
    struct kmd_chip chip;
    uint32_t kms_minor;
    snprintf(why, nbytes, "%s", "");
    return kmd_card_read(text, &none, &chip, &kms_minor, why, nbytes);
}
