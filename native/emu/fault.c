#include "fault.h"

#include <stdarg.h>
#include <stdio.h>

int sp_emu_fault_set(struct sp_emu_fault *fault, uint32_t kind, int error, const char *format, ...)
{
    if (fault->kind == SP_FAULT_NONE) {
        va_list args;
        va_start(args, format);
        vsnprintf(fault->text, sizeof(fault->text), format, args);
        va_end(args);
        fault->kind = kind;
    }
    return error;
}
