/* Swizzle equations of render and depth blocks, which follow no rule. An equation is text: words
 * separated by spaces, then ';'. There is one word for each bit of the offset from bit 8 on. A word
 * names the coordinate bits that make this offset bit, combined by exclusive or: an axis and a
 * hexadecimal bit number each. Chips of one configuration of pipes and packers have five equations:
 * for texels of 1, 2, 4, 8 and 16 bytes.
 *
 * Each table is one array, because pointers would take a relocation each. Facts from AMD's address
 * library (Mesa src/amd/addrlib, PAL): the swizzle patterns of gfx10 with RB+ and of gfx11. */
#include "swizzle.h"

/* swizzle patterns of the modes 64KB_R_X of gfx10 */
const char sp_swizzle_render_gfx10[] =
    /* patterns of chips with 4 pipes and 1 or 2 packers */
    "Y4X5Y5 Z0X4Y4 X5 Y5 X6Y9 Y6X9 X7Y8 Y7X8;" "Y4X5Y5 Z0X4Y4 Y3 X5 X6Y8 Y5X9 X7Y7 Y6X8;"
    "Y4X5Y5 Z0X4Y4 X3 Y3 X5Y8 Y5X8 X6Y7 Y6X7;" "Y4X5Y5 Z0X4Y4 Y2 X3 Y3X8 X5Y7 X6Y6 Y5X7;"
    "Y4X5Y5 Z0X4Y4 X2 Y2 Y3X7 X3Y7 X5Y6 Y5X6;"
    /* patterns of chips with 4 pipes and 4 packers */
    "Y4X6Y6 Z1X4Y4 X5 X6 Y6X9 X7Y8 Y7X8 Z0X5Y5;" "Y4X6Y6 Z1X4Y4 Y3 X5 X6Y8 Y6X8 X7Y7 Z0X5Y5;"
    "Y4X6Y6 Z1X4Y4 X3 Y3 X5Y8 X6Y7 Y6X7 Z0X5Y5;" "Y4X6Y6 Z1X4Y4 Y2 X3 Y3X7 X5Y7 X6Y6 Z0X5Y5;"
    "Y4X6Y6 Z1X4Y4 X2 Y2 X3Y7 Y3X6 X5Y6 Z0X5Y5;"
    /* patterns of chips with 16 pipes and 16 packers */
    "Y4X8Y8 Z3X4Y4 Z2Y5X7 Z1X5Y7 X6 X7 Y7X8 Z0X6Y6;" "Y4X8Y8 Z3X4Y4 Z2Y5X7 Z1X5Y7 Y3 X6 X7Y7 Z0X6Y6;"
    "Y4X8Y8 Z3X4Y4 Z2Y5X7 Z1X5Y7 X3 Y3 X6Y7 Z0X6Y6;" "Y4X8Y8 Z3X4Y4 Z2Y5X7 Z1X5Y7 Y2 X3 Y3X7 Z0X6Y6;"
    "Y4X8Y8 Z2X4Y4 Z1Y5X7 Z0X5Y7 X2 X3 Y3X6 Y2X6Y6;";

/* swizzle patterns of the modes 64KB_R_X and 64KB_Z_X of gfx11 */
const char sp_swizzle_render_gfx11[] =
    /* patterns of chips with 4 pipes and 4 packers */
    "Y4X6Y6 Z1X4Y4 X5 X6 Y6X9 X7Y8 Y7X8 Z0X5Y5;" "Y4X6Y6 Z1X4Y4 Y3 X5 X6Y8 Y6X8 X7Y7 Z0X5Y5;"
    "Y4X6Y6 Z1X4Y4 X3 Y3 X5Y8 X6Y7 Y6X7 Z0X5Y5;" "Y4X6Y6 Z1X4Y4 Y2 X3 Y3X7 X5Y7 X6Y6 Z0X5Y5;"
    "Y4X6Y6 Z1X4Y4 X2 Y2 X3Y7 Y3X6 X5Y6 Z0X5Y5;"
    /* patterns of chips with 8 pipes and 8 packers */
    "Y4X7Y7 Z1X4Y4 Z0Y5X6 X6 Y6 X7Y8 Y7X8 X5Y6;" "Y4X7Y7 Z1X4Y4 Z0Y5X6 Y3 X6 X7Y7 Y6X8 X5Y6;"
    "Y4X7Y7 Z1X4Y4 Z0Y5X6 X3 Y3 X6Y7 Y6X7 X5Y6;" "Y4X7Y7 Z2X4Y4 Z1Y5X6 Y2 X3 Y3X7 X6Y6 Z0X5Y6;"
    "Y4X7Y7 Z2X4Y4 Z1Y5X6 X2 Y2 Y3X6 X3Y6 Z0X5Y6;"
    /* patterns of chips with 32 pipes and 32 packers */
    "Y4X9Y9 Z1X4Y4 Z0Y5X8 X5Y8 Y6X7 X7 Y7 X6Y7;" "Y4X9Y9 Z1X4Y4 Z0Y5X8 X5Y8 Y6X7 Y3 X7 X6Y7;"
    "Y4X9Y9 Z1X4Y4 Z0Y5X8 X5Y8 Y6X7 X3 Y3 X6Y7;" "Y4X9Y9 Z3X4Y4 Z2Y5X8 Z1X5Y8 Y2Y6X7 X3 Y3 Z0X6Y7;"
    "Y4X9Y9 Z2X4Y4 Z1Y5X8 Z0X5Y8 Y2Y6X7 X3 Y3 X2X6Y7;";

/* swizzle patterns of the modes 256KB_R_X and 256KB_Z_X of gfx11 */
const char sp_swizzle_render256_gfx11[] =
    /* patterns of chips with 4 pipes and 4 packers */
    "Y4X6Y6 Z1X4Y4 X5 X6 Y6XA X7Y9 Y7X9 X8Y8 Y8 Z0X5Y5;" "Y4X6Y6 Z1X4Y4 Y3 X5 X6Y9 Y6X9 X7Y8 Y7X8 X8 Z0X5Y5;"
    "Y4X6Y6 Z1X4Y4 X3 Y3 X5Y9 X6Y8 Y6X8 X7Y7 Y7 Z0X5Y5;" "Y4X6Y6 Z1X4Y4 Y2 X3 Y3X8 X5Y8 X6Y7 Y6X7 X7 Z0X5Y5;"
    "Y4X6Y6 Z1X4Y4 X2 Y2 X3Y8 Y3X7 X5Y7 X6Y6 Y6 Z0X5Y5;"
    /* patterns of chips with 8 pipes and 8 packers */
    "Y4X7Y7 Z1X4Y4 Z0Y5X6 X6 Y6 X7YA Y7XA X8Y9 Y8X9 X5Y6;" "Y4X7Y7 Z1X4Y4 Z0Y5X6 Y3 X6 X7Y9 Y6XA X8Y8 Y7X9 X5Y6;"
    "Y4X7Y7 Z1X4Y4 Z0Y5X6 X3 Y3 X6Y9 Y6X9 X7Y8 Y7X8 X5Y6;" "Y4X7Y7 Z2X4Y4 Z1Y5X6 Y2 X3 Y3X9 X6Y8 X7Y7 Y6X8 Z0X5Y6;"
    "Y4X7Y7 Z2X4Y4 Z1Y5X6 X2 Y2 Y3X8 X3Y8 X6Y7 Y6X7 Z0X5Y6;"
    /* patterns of chips with 32 pipes and 32 packers */
    "Y4X9Y9 Z1X4Y4 Z0Y5X8 X5Y8 Y6X7 X7 Y7 X8Y9 Y8X9 X6Y7;" "Y4X9Y9 Z1X4Y4 Z0Y5X8 X5Y8 Y6X7 Y3 X7 X8Y8 Y7X9 X6Y7;"
    "Y4X9Y9 Z1X4Y4 Z0Y5X8 X5Y8 Y6X7 X3 Y3 X7Y8 Y7X8 X6Y7;" "Y4X9Y9 X4Y4Z4 Z3Y5X8 Z2X5Y8 Z1Y6X7 Y2 X3 Y3X8 X7Y7 Z0X6Y7;"
    "Y4X9Y9 X4Y4Z4 Z3Y5X8 Z2X5Y8 Z1Y6X7 X2 Y2 Y3X7 X3Y7 Z0X6Y7;";
