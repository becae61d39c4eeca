/* Conversions between bytes and channels. Sources: "Data Format Conversion" of AMD's RDNA2 and
 * RDNA3 ISA documents, and the rules of Direct3D 11.3 (3.2.3, data conversion) that those follow.
 * Normalised numbers are clamped and rounded to nearest, NaN becomes 0, integers are clamped to the
 * channel's range. Floats are rounded to nearest even; AMD does not document how a store rounds
 * small floats. */
#include "format.h"
#include "emu/ops/half.h"

/* Formats that only images have. The first one has the number 0x80 on gfx10, and 0x40 on gfx11. A
 * row {{0}, 0} stands for a format that is not modelled. */
static const struct sp_format_row only_images[] = {
    {{8}, SP_NUMBER_SRGB},
    {{8, 8}, SP_NUMBER_SRGB},
    {{8, 8, 8, 8}, SP_NUMBER_SRGB},
    {{0}, 0}, /* format 6E4, which only gfx10 has */
    {{9, 9, 9, 5}, SP_NUMBER_SHARED_EXPONENT},
    {{5, 6, 5}, SP_NUMBER_UNORM},
    {{5, 5, 5, 1}, SP_NUMBER_UNORM},
    {{1, 5, 5, 5}, SP_NUMBER_UNORM},
    {{4, 4, 4, 4}, SP_NUMBER_UNORM},
    {{4, 4}, SP_NUMBER_UNORM},
};
enum { ONLY_IMAGES = sizeof only_images / sizeof *only_images, LACKING = 3 };

static bool row_of(uint32_t generation, bool image, uint32_t number, struct sp_format_row *out)
{
    bool old = generation == 10;
    uint32_t count = old ? sp_formats_gfx10_count : sp_formats_gfx11_count, first = old ? 0x80 : 0x40;
    if (number < count) {
        *out = (old ? sp_formats_gfx10 : sp_formats_gfx11)[number];
        return true;
    }
    if (!image || number < first) return false;
    number -= first;
    if (!old && number >= LACKING) number++;
    if (number >= ONLY_IMAGES || !only_images[number].bits[0]) return false;
    *out = only_images[number];
    return true;
}

bool sp_texel_format(uint32_t generation, bool image, uint32_t number, struct sp_texel_format *out)
{
    uint32_t bits = 0;
    memset(out, 0, sizeof *out);
    if (!row_of(generation, image, number, &out->row)) return false;
    for (uint32_t c = 0; c < 4 && out->row.bits[c]; c++) {
        bits += out->row.bits[c];
        out->channels++;
    }
    out->nbytes = (uint8_t)(bits / 8);
    /* channels of whole bytes are accessed one by one, packed channels together */
    out->align = out->row.bits[0] % 8 || (out->channels > 1 && out->row.bits[1] % 8) ? out->nbytes : out->row.bits[0] / 8;
    return true;
}

/* Converts a float of 10 or 11 bits (five bits of exponent, no sign) to the bits of a half. */
static uint32_t half_of(uint32_t raw, uint32_t bits) { return raw << (15 - bits); }

static uint32_t from_raw(uint32_t number, uint32_t raw, uint32_t bits)
{
    uint32_t most = bits == 32 ? UINT32_MAX : (1u << bits) - 1, sign = 1u << (bits - 1);
    int32_t value = (int32_t)((raw ^ sign) - sign);
    switch (number) {
    case SP_NUMBER_UNORM: return sp_u32((float)((double)raw / most));
    case SP_NUMBER_SNORM: return sp_u32((float)fmax((double)value / (most >> 1), -1));
    case SP_NUMBER_USCALED: return sp_u32((float)raw);
    case SP_NUMBER_SSCALED: return sp_u32((float)value);
    case SP_NUMBER_SINT: return (uint32_t)value;
    case SP_NUMBER_FLOAT: return bits == 32 ? raw : sp_u32(sp_half_to_float(bits == 16 ? raw : half_of(raw, bits)));
    case SP_NUMBER_SRGB: {
        double x = (double)raw / most;
        return sp_u32((float)(x <= 0.04045 ? x / 12.92 : pow((x + 0.055) / 1.055, 2.4)));
    }
    default: return raw;
    }
}

/* Returns `x` clamped, scaled and rounded to nearest; NaN becomes 0. */
static uint32_t rounded(float x, double low, double high, double scale)
{
    double value = x != x ? 0 : fmin(fmax((double)x, low), high) * scale;
    /* the cast is exact, because a channel has at most 16 bits */
    return (uint32_t)(int32_t)rint(value);
}

/* Converts to a float with five bits of exponent and no sign. A negative number becomes 0. */
static uint32_t unsigned_float(double x, uint32_t digits)
{
    uint32_t infinity = 31u << digits;
    if (x != x) return infinity | 1u << (digits - 1);
    if (!(x > 0)) return 0;
    if (x > 65536) return infinity;
    int exponent;
    frexp(x, &exponent);
    /* denormals are multiples of the last bit of the smallest normal number, whose exponent is
     * -14 */
    exponent = exponent < -13 ? -14 : exponent - 1;
    uint32_t raw = (uint32_t)rint(ldexp(x, (int)digits - exponent)) + ((uint32_t)(exponent + 14) << digits);
    return raw < infinity ? raw : infinity;
}

/* Rounds a channel, the bits of a float, to a half. The function is not inlined, so that only one
 * copy of the long inline function that it calls exists. */
static __attribute__((noinline)) uint32_t half_from(uint32_t channel)
{
    return sp_half_from_double((double)sp_f32(channel), 0);
}

static uint32_t small_float(uint32_t channel, uint32_t bits)
{
    return bits == 16 ? half_from(channel) : unsigned_float((double)sp_f32(channel), bits - 5);
}

static uint32_t to_raw(uint32_t number, uint32_t channel, uint32_t bits)
{
    uint32_t most = bits == 32 ? UINT32_MAX : (1u << bits) - 1;
    float x = sp_f32(channel);
    int32_t top = (int32_t)(most >> 1), value = (int32_t)channel;
    switch (number) {
    case SP_NUMBER_UNORM: return rounded(x, 0, 1, most);
    case SP_NUMBER_SNORM: return rounded(x, -1, 1, top) & most;
    case SP_NUMBER_USCALED: return rounded(x, 0, most, 1);
    case SP_NUMBER_SSCALED: return rounded(x, -top - 1, top, 1) & most;
    case SP_NUMBER_UINT: return channel < most ? channel : most;
    case SP_NUMBER_SINT: return (uint32_t)(value > top ? top : value < -top - 1 ? -top - 1 : value) & most;
    case SP_NUMBER_FLOAT: return bits == 32 ? channel : small_float(channel, bits);
    default: {
        double v = x > 0 ? fmin((double)x, 1) : 0;
        return (uint32_t)rint((v <= 0.0031308 ? v * 12.92 : 1.055 * pow(v, 1 / 2.4) - 0.055) * most);
    }
    }
}

/* Returns the number format of channel c. Alpha of an sRGB format is linear. */
static uint32_t number_of(const struct sp_texel_format *f, uint32_t c)
{
    return f->row.number == SP_NUMBER_SRGB && c == 3 ? SP_NUMBER_UNORM : f->row.number;
}

void sp_texel_unpack(const struct sp_texel_format *f, const void *bytes, uint32_t channel[4])
{
    uint64_t word[2] = {0, 0};
    uint32_t at = 0;
    memcpy(word, bytes, f->nbytes);
    channel[0] = channel[1] = channel[2] = 0;
    channel[3] = sp_texel_is_integer(f) ? 1 : sp_u32(1.0f);
    for (uint32_t c = 0; c < f->channels; at += f->row.bits[c++]) {
        uint32_t raw = (uint32_t)(word[at / 64] >> at % 64 & ((UINT64_C(1) << f->row.bits[c]) - 1));
        channel[c] = f->row.number == SP_NUMBER_SHARED_EXPONENT
                         ? sp_u32((float)raw * sp_f32(((uint32_t)(word[0] >> 27) + 127 - 24) << 23))
                         : from_raw(number_of(f, c), raw, f->row.bits[c]);
    }
    if (f->row.number == SP_NUMBER_SHARED_EXPONENT) channel[3] = sp_u32(1.0f);
}

void sp_texel_pack(const struct sp_texel_format *f, const uint32_t channel[4], void *bytes)
{
    uint64_t word[2] = {0, 0};
    uint32_t at = 0;
    for (uint32_t c = 0; c < f->channels; at += f->row.bits[c++])
        word[at / 64] |= (uint64_t)to_raw(number_of(f, c), channel[c], f->row.bits[c]) << at % 64;
    memcpy(bytes, word, f->nbytes);
}

bool sp_texel_select(const struct sp_texel_format *f, uint32_t dst_sel, uint32_t channel[4])
{
    uint32_t one = sp_texel_is_integer(f) ? 1 : sp_u32(1.0f), from[4];
    bool known = true;
    memcpy(from, channel, sizeof from);
    for (uint32_t c = 0; c < 4; c++) {
        uint32_t select = dst_sel >> 3 * c & 7;
        channel[c] = select >= 4 ? from[select - 4] : select ? one : 0;
        known &= select < 2 || select >= 4;
    }
    return known;
}

/* Reverses DST_SEL for a store. A load gives a channel of memory to each component that selects the
 * channel. A store takes the channel from the first of these components. */
void sp_texel_unselect(uint32_t dst_sel, uint32_t channel[4])
{
    uint32_t from[4];
    memcpy(from, channel, sizeof from);
    for (uint32_t c = 0; c < 4; c++) {
        channel[c] = 0;
        for (uint32_t k = 4; k-- > 0;)
            if ((dst_sel >> 3 * k & 7) == 4 + c) channel[c] = from[k];
    }
}

uint32_t sp_texel_to_d16(const struct sp_texel_format *f, uint32_t channel)
{
    return sp_texel_is_integer(f) ? channel & 0xFFFF : half_from(channel);
}

uint32_t sp_texel_from_d16(const struct sp_texel_format *f, uint32_t half)
{
    if (f->row.number == SP_NUMBER_SINT) return (uint32_t)(int16_t)half;
    return sp_texel_is_integer(f) ? half & 0xFFFF : sp_u32(sp_half_to_float(half & 0xFFFF));
}
