/* What kind of instruction an opcode is. table.c sets the kinds together with the functions. */
#ifndef SP_EMU_OPS_OP_KIND_H
#define SP_EMU_OPS_OP_KIND_H
#include <stdbool.h>
#include <stdint.h>

enum sp_op_kind { SP_KIND_SCALAR = 0, SP_KIND_VECTOR = 1, SP_KIND_ALU = 2, SP_KIND_MATRIX = 4 };

/* Sets the kind of instruction `op`: bits of enum sp_op_kind. */
void sp_op_kind_set(uint32_t op, uint8_t kind);
bool sp_wave_op_is_vector(uint32_t op);
/* Returns true if the instruction changes only registers, SCC and the program counter. Poison may
 * spread through such instructions (alu_poison.c). */
bool sp_wave_op_is_alu(uint32_t op);
/* Returns true for dot products of halves and for WMMA. */
bool sp_wave_op_is_matrix(uint32_t op);
#endif
