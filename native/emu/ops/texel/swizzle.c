/* Swizzle equations of gfx10.3 and gfx11. Source: AMD's address library (Mesa src/amd/addrlib). All
 * of its patterns for these modes follow the rules here. tests/emu/wave/test_wave_layout.py
 * compares the emulator's offsets with offsets that the library computed.
 *
 * In standard (S) and display (D) blocks, a pattern gives the low bits of an offset: the place in a
 * micro block of 256 bytes. Each offset bit above the pattern is one coordinate bit: the axes take
 * turns, and each gives its next bit. In _X modes the first offset bits above the pattern, from bit
 * 8 on, are pipe bits. Each pipe bit is combined by exclusive or with later coordinate bits of this
 * sequence, and some also with slice bits. Render (R) and depth (Z) blocks have a table. Not
 * modelled: _T, depth blocks of gfx10, blocks of variable size, more than one sample. */
#include "swizzle.h"

#include <stddef.h>
#include <string.h>

/* Swizzle patterns of micro blocks, by the log2 of a texel's size in bytes. */
static const char standard_gfx10[5][17] = {"X0X1X2X3Y0Y1Y2Y3", "X0X1X2Y0Y1Y2X3", "X0X1Y0Y1Y2X2", "X0Y0Y1X1X2", "Y0Y1X0X1"};
static const char display_gfx10[5][17] = {"X0X1X2Y1Y0Y2X3Y3", "X0X1X2Y0Y1Y2X3", "X0X1Y0Y1X2Y2", "X0Y0X1X2Y1", "X0Y0X1Y1"};
static const char render_gfx10[5][17] = {"X0X1X2X3Y0Y1Y2Y3", "X0X1X2Y0Y1Y2X3", "X0X1Y0Y1X2Y2", "X0Y0X1X2Y1", "X0Y0X1Y1"};
static const char thin_gfx11[5][17] = {"X0X1Y0X2Y1Y2X3Y3", "X0Y0X1Y1X2Y2X3", "X0Y0X1Y1X2Y2", "X0Y0X1X2Y1", "X0Y0X1Y1"};
static const char volume_gfx10[5][17] = {"X0X1Z0Y0Z1Y1X2Z2", "X0Z0Y0Z1Y1X1Z2", "X0Y0Z0Y1X1Z1", "X0Z0Y0X1Z1", "Z0Y0X0Z1"};
static const char volume_gfx11[5][17] = {"X0X1Z0Y0Y1Z1X2Z2", "X0Z0Y0X1Z1Y1Z2", "X0Y0X1Z0Y1Z1", "X0Y0Z0X1Z1", "X0Z0Y0Z1"};

enum { PIPES_SHIFT = 8 }; /* the pipe interleave of all these chips is 256 bytes */

/* Adds the coordinate bits of a word such as "X4Y9" to offset bit `bit`. Returns the text after the
 * word. */
static const char *add_terms(struct sp_equation *e, uint32_t bit, const char *text)
{
    for (; *text != ' ' && *text != ';'; text += 2)
        e->mask[bit][text[0] - 'X'] ^= (uint16_t)(1u << (text[1] <= '9' ? text[1] - '0' : text[1] - 'A' + 10));
    return text + 1;
}

/* Adds one equation of swizzle_table.c to `e`, from offset bit 8 on. `text` is a table of
 * equations, each ended by a semicolon; `skip` is the number of the equation, counted from 0. */
static void add_render(struct sp_equation *e, const char *text, uint32_t skip)
{
    while (skip) skip -= *text++ == ';';
    for (uint32_t bit = PIPES_SHIFT; bit < e->block; bit++) text = add_terms(e, bit, text);
}

/* Sets the equation of each offset bit. For bits within the micro block, `micro` names the
 * coordinate bits. Each higher offset bit is one coordinate bit: the lowest bit of x, y or z that
 * no lower offset bit uses yet. The axes take turns: y, x in thin blocks; y, x, z in thick blocks.
 * `order` receives the axis and the bit number for each of these higher bits. */
static void add_turns(struct sp_equation *e, const char *micro, uint32_t texel, char order[24][3])
{
    const char *axes = e->thick ? "YXZ" : "YX";
    uint32_t used[3] = {0, 0, 0}, dims = e->thick ? 3 : 2, turn = 0;
    for (uint32_t bit = texel; *micro; micro += 2, bit++) {
        e->mask[bit][micro[0] - 'X'] = (uint16_t)(1u << (micro[1] - '0'));
        used[micro[0] - 'X']++;
    }
    for (uint32_t k = 0; k < 24; k++, turn++) {
        uint32_t axis = (uint32_t)(axes[turn % dims] - 'X');
        order[k][0] = (char)axis;
        order[k][1] = (char)used[axis]++;
        if (PIPES_SHIFT + k < e->block) e->mask[PIPES_SHIFT + k][axis] = (uint16_t)(1u << order[k][1]);
    }
}

/* Combines more coordinate bits with the pipe bits of an _X mode, by exclusive or. `order` lists
 * the coordinate bits above the micro block. The equation already uses the first of these for the
 * pipe bits. The following ones are added in reverse order. A pipe bit gets one of them in a thin
 * block, and two in a thick block. In a thin block each packer bit (the last pipe bits) also gets a
 * slice bit. The first packer bit gets the highest slice bit. */
static void add_pipes(struct sp_equation *e, char order[24][3], uint32_t pipes, uint32_t packers)
{
    uint32_t slices = packers >= 2 ? packers : pipes ? 1 : 0, others = e->thick ? 2 : 1, first = pipes - slices;
    uint32_t most = pipes < e->block - PIPES_SHIFT ? pipes : e->block - PIPES_SHIFT;
    for (uint32_t k = 0; k < most; k++) {
        for (uint32_t n = 0; n < others; n++) {
            const char *from = order[most * (others + 1) - 1 - k * others - n];
            e->mask[PIPES_SHIFT + k][(int)from[0]] ^= (uint16_t)(1u << from[1]);
        }
        if (!e->thick && k >= first)
            e->mask[PIPES_SHIFT + k][2] ^= (uint16_t)(1u << ((slices < most ? slices : most) - 1 - (k - first)));
    }
}

/* Returns the position in swizzle_table.c of the equations for these numbers of pipes and packers,
 * or -1 if there are none. The numbers are fields of GB_ADDR_CONFIG: logarithms to base 2. */
static int render_row(bool old, uint32_t pipes, uint32_t packers)
{
    if (pipes == 2) return old ? packers == 2 : packers == 2 ? 0 : -1;
    if (old) return pipes == 4 && packers == 4 ? 2 : -1;
    return pipes == 3 && packers == 3 ? 1 : pipes == 5 && packers == 5 ? 2 : -1;
}

bool sp_swizzle_equation(uint32_t generation, uint32_t mode, bool volume, uint32_t texel, uint32_t gb_addr_config,
                         struct sp_equation *out)
{
    /* log2 of a block's size in bytes, by SW_MODE / 4: each block size has four modes (Z, S, D, R).
     * Modes from 16 on combine bits by exclusive or (16 to 19 are _T). */
    static const uint8_t blocks[8] = {8, 12, 16, 0, 0, 12, 16, 18};
    bool old = generation == 10, standard = (mode & 3) == 1, display = (mode & 3) == 2, render = !standard && !display;
    uint32_t pipes = gb_addr_config & 7, packers = gb_addr_config >> 8 & 7;
    int row = render ? render_row(old, pipes, packers) : 0;
    const char(*micro)[17] = old ? (standard ? standard_gfx10 : display ? display_gfx10 : render_gfx10) : thin_gfx11;
    char order[24][3];
    memset(out, 0, sizeof *out);
    out->block = mode < 32 ? blocks[mode / 4] : 0;
    out->xored = mode >= 20;
    out->thick = volume && !render;
    if (!out->block || texel > 4 || row < 0 || (old && out->block == 18)) return false;
    if (render ? mode < 24 || (old && (mode & 3) == 0) : volume ? display || out->block == 8 : !old && standard) return false;
    if (out->thick) micro = old ? volume_gfx10 : volume_gfx11;
    add_turns(out, micro[texel], texel, order);
    if (render) {
        memset(out->mask[PIPES_SHIFT], 0, sizeof out->mask - PIPES_SHIFT * sizeof out->mask[0]);
        add_render(out,
                   old                ? sp_swizzle_render_gfx10
                   : out->block == 18 ? sp_swizzle_render256_gfx11
                                      : sp_swizzle_render_gfx11,
                   (uint32_t)row * 5 + texel);
    } else if (out->xored) {
        add_pipes(out, order, pipes, packers);
    }
    return true;
}

uint32_t sp_swizzle_offset(const struct sp_equation *e, const uint32_t at[3])
{
    uint32_t offset = 0;
    for (uint32_t bit = 0; bit < e->block; bit++) {
        const uint16_t *m = e->mask[bit];
        offset |= (uint32_t)__builtin_parity((at[0] & m[0]) ^ (at[1] & m[1]) ^ (at[2] & m[2])) << bit;
    }
    return offset;
}
