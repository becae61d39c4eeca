/* Texel formats by Vulkan's rules: values to store, the bytes that they become in memory, and what a load gives of them. */
#ifndef VK_TEXEL_H
#define VK_TEXEL_H
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <vulkan/vulkan.h>

enum kind { UNORM, SNORM, UINT, FLOAT };

struct format {
    VkFormat format;
    const char *name;
    enum kind kind;
    uint8_t bits[4]; /* from the least significant on */
    uint8_t order[4]; /* the component in each place */
};
#define RGBA {0, 1, 2, 3}
static const struct format formats[] = {
    {VK_FORMAT_R8_UNORM, "r8", UNORM, {8}, RGBA},
    {VK_FORMAT_R8G8_SNORM, "rg8_snorm", SNORM, {8, 8}, RGBA},
    {VK_FORMAT_R8G8B8A8_UNORM, "rgba8", UNORM, {8, 8, 8, 8}, RGBA},
    {VK_FORMAT_B8G8R8A8_UNORM, "bgra8", UNORM, {8, 8, 8, 8}, {2, 1, 0, 3}},
    {VK_FORMAT_A2B10G10R10_UNORM_PACK32, "rgb10_a2", UNORM, {10, 10, 10, 2}, RGBA},
    {VK_FORMAT_R16_UNORM, "r16", UNORM, {16}, RGBA},
    {VK_FORMAT_R16G16B16A16_SNORM, "rgba16_snorm", SNORM, {16, 16, 16, 16}, RGBA},
    {VK_FORMAT_R16G16B16A16_SFLOAT, "rgba16f", FLOAT, {16, 16, 16, 16}, RGBA},
    {VK_FORMAT_B10G11R11_UFLOAT_PACK32, "r11g11b10f", FLOAT, {11, 11, 10}, RGBA},
    {VK_FORMAT_R32_SFLOAT, "r32f", FLOAT, {32}, RGBA},
    {VK_FORMAT_R32G32B32A32_SFLOAT, "rgba32f", FLOAT, {32, 32, 32, 32}, RGBA},
    {VK_FORMAT_R32_UINT, "r32ui", UINT, {32}, RGBA},
    {VK_FORMAT_R8G8B8A8_UINT, "rgba8ui", UINT, {8, 8, 8, 8}, RGBA},
    {VK_FORMAT_R16G16_UINT, "rg16ui", UINT, {16, 16}, RGBA},
    {VK_FORMAT_R32G32B32A32_UINT, "rgba32ui", UINT, {32, 32, 32, 32}, RGBA},
};

static uint32_t state = 12345;
static uint32_t any(void)
{
    state = state * 1664525u + 1013904223u;
    return state >> 8 | state << 24;
}

static uint32_t nbytes_of(const struct format *f)
{
    return (f->bits[0] + f->bits[1] + f->bits[2] + f->bits[3]) / 8u;
}

/* Values that floats of 10 bits hold exactly, and normalised ones beyond their range, too. */
static uint32_t given(const struct format *f, int channel)
{
    float value = f->kind == FLOAT ? (float)(any() % 63 + 1) * 0x1p-4f : (float)(int32_t)any() * 0x1.4p-31f;
    uint32_t bits = f->bits[channel] ? f->bits[channel] : 32, word;
    if (f->kind == UINT)
        return bits == 32 ? any() : any() & ((1u << bits) - 1);
    memcpy(&word, &value, 4);
    return word;
}

/* What is in memory for a component. */
static uint32_t packed(const struct format *f, uint32_t word, uint32_t bits)
{
    float value;
    int exponent;
    memcpy(&value, &word, 4);
    double most = bits == 32 ? 0xFFFFFFFFu : (1u << bits) - 1, top = floor(most / 2);
    switch (f->kind) {
    case UNORM: return (uint32_t)rint(fmin(fmax((double)value, 0), 1) * most);
    case SNORM: return (uint32_t)(int32_t)rint(fmin(fmax((double)value, -1), 1) * top) & (uint32_t)most;
    case UINT: return word;
    default: break;
    }
    if (bits == 32)
        return word;
    uint32_t digits = bits == 16 ? 10 : bits - 5; /* normal numbers only */
    double fraction = frexp((double)value, &exponent) * 2 - 1;
    return (uint32_t)(exponent - 1 + 15) << digits | (uint32_t)(fraction * (1 << digits));
}

static void pack(const struct format *f, const uint32_t *texel, uint8_t *bytes)
{
    uint32_t at = 0;
    for (int k = 0; k < 4 && f->bits[k]; at += f->bits[k++]) {
        uint32_t word = packed(f, texel[f->order[k]], f->bits[k]);
        for (uint32_t b = 0; b < f->bits[k]; b++)
            bytes[(at + b) / 8] |= (uint8_t)((word >> b & 1) << (at + b) % 8);
    }
}

/* What a load gives of it: components that the format lacks are 0, 0 and 1. */
static uint32_t loaded(const struct format *f, const uint32_t *texel, int channel)
{
    float value = channel == 3;
    uint32_t word, bits = 0;
    for (int k = 0; k < 4; k++)
        if (f->bits[k] && f->order[k] == channel)
            bits = f->bits[k];
    if (bits == 0 && f->kind == UINT)
        return channel == 3;
    if (bits != 0) {
        uint32_t raw = packed(f, texel[channel], bits);
        double most = (double)((UINT64_C(1) << bits) - 1), top = floor(most / 2);
        if (f->kind == UINT || f->kind == FLOAT)
            return texel[channel];
        value = (float)(f->kind == UNORM ? raw / most : fmax((raw > top ? raw - most - 1 : raw) / top, -1));
    }
    memcpy(&word, &value, 4);
    return word;
}
#endif
