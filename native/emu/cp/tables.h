/* The declared packets and registers, generated from sparkle_drv/amd/tables, and their look-up. */
#ifndef SP_EMU_CP_TABLES_H
#define SP_EMU_CP_TABLES_H
#include <stdint.h>

/* Names are stored in the rows: pointers would take a relocation each. */
enum { SP_PACKET_FIXED_MAX = 9, SP_PACKET_NAME_NBYTES = 32, SP_REGISTER_NAME_NBYTES = 40 };

struct sp_packet {
    char name[SP_PACKET_NAME_NBYTES];
    uint16_t code;   /* PM4: opcode; SDMA: op | sub_op << 8 */
    uint16_t queues; /* PM4: bit 0 GFX, bit 1 COMPUTE */
    uint16_t fixed;  /* dwords with the header, without the tail */
    uint32_t tail_least, tail_most, tail_step;
    uint32_t addresses; /* bit i: a 64-bit address begins at dword i */
    uint32_t allowed[SP_PACKET_FIXED_MAX]; /* declared bits of each fixed dword */
};

struct sp_register {
    char name[SP_REGISTER_NAME_NBYTES];
    uint16_t offset; /* in its space */
    uint16_t user;   /* 0: not allowed in a user's command stream */
    uint32_t allowed;
};

enum sp_space { SP_SPACE_SH, SP_SPACE_CONTEXT, SP_SPACE_UCONFIG };

/* NULL: that generation has no such packet (on such a queue). */
const struct sp_packet *sp_emu_pm4_packet(uint32_t generation, uint32_t ip, uint32_t opcode);
const struct sp_packet *sp_emu_sdma_packet(uint32_t generation, uint32_t code);
const struct sp_register *sp_emu_register(uint32_t generation, enum sp_space space, uint32_t offset);
#endif
