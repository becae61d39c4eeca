#include "include/sp_emu.h"

uint32_t sp_emu_version(void)
{
    return 9;
}
