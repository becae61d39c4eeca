/* Reads from a cubin what a launch needs: the entries are its sections .text.NAME, their parameters stand in
 * .nv.info.NAME as records KPARAM_INFO (format 4, attribute 0x17; ordinal and offset in bytes 4-7, size above bit 18 of
 * the last word), as cuobjdump --dump-elf prints them. */
#include "../include/fake.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EM_CUDA_MACHINE = 190, KPARAM_INFO = 0x17, VALUE_16 = 4 };

static void read_params(const unsigned char *at, size_t nbytes, struct fk_params *out)
{
    for (size_t i = 0; i + 4 <= nbytes;) {
        uint16_t size;
        memcpy(&size, at + i + 2, 2);
        const bool sized = at[i] == VALUE_16;
        if (sized && at[i + 1] == KPARAM_INFO && size == 12 && i + 16 <= nbytes) {
            uint16_t ordinal, offset;
            uint32_t flags;
            memcpy(&ordinal, at + i + 8, 2);
            memcpy(&offset, at + i + 10, 2);
            memcpy(&flags, at + i + 12, 4);
            if (ordinal < FK_MAX_PARAMS) {
                out->at[ordinal].offset = offset;
                out->at[ordinal].size = flags >> 18;
                out->count = out->count > ordinal + 1u ? out->count : ordinal + 1u;
                out->nbytes = out->nbytes > offset + (flags >> 18) ? out->nbytes : offset + (flags >> 18);
            }
        }
        i += 4 + (sized ? size : 0u);
    }
}

static const Elf64_Shdr *section(const unsigned char *bytes, unsigned index)
{
    const Elf64_Ehdr *const header = (const void *)bytes;
    return (const Elf64_Shdr *)(const void *)(bytes + header->e_shoff) + index;
}

int fk_cubin_read(const unsigned char *bytes, const struct fk_device *device, struct fk_image *out)
{
    const Elf64_Ehdr *const header = (const void *)bytes;
    const int mine = 10 * fk_settings.major + fk_settings.minor;
    (void)device;
    if (header->e_machine != EM_CUDA_MACHINE || header->e_ident[EI_CLASS] != ELFCLASS64)
        return CUDA_ERROR_INVALID_IMAGE;
    /* CUDA 13 moved the target from bits 0-7 to 8-15 and says so by the ABI version. */
    out->binary_version = (int)(header->e_ident[EI_ABIVERSION] >= 8 ? header->e_flags >> 8 & 0xff : header->e_flags & 0xff);
    if (out->binary_version / 10 != mine / 10 || out->binary_version > mine) {
        snprintf(out->log, sizeof out->log, "the cubin is for sm_%d, the device is sm_%d", out->binary_version, mine);
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    }
    const char *const names = (const char *)bytes + section(bytes, header->e_shstrndx)->sh_offset;
    for (unsigned i = 0; i < header->e_shnum; i++) {
        const char *const name = names + section(bytes, i)->sh_name;
        if (strncmp(name, ".text.", 6) != 0)
            continue;
        struct fk_function *const f = calloc(1, sizeof *f);
        if (!f || !(f->name = strdup(name + 6)))
            return free(f), CUDA_ERROR_OUT_OF_MEMORY;
        f->next = out->functions;
        out->functions = f;
        f->max_threads = 1024;
        f->registers = section(bytes, i)->sh_info >> 24;
        f->registers = f->registers ? f->registers : 32;
        f->kernel = fk_kernel_named(f->name);
        for (unsigned j = 0; j < header->e_shnum; j++) {
            const Elf64_Shdr *const s = section(bytes, j);
            const char *const other = names + s->sh_name;
            if (strncmp(other, ".nv.info.", 9) == 0 && strcmp(other + 9, f->name) == 0)
                read_params(bytes + s->sh_offset, s->sh_size, &f->params);
            if (strncmp(other, ".nv.shared.", 11) == 0 && strcmp(other + 11, f->name) == 0)
                f->shared = (unsigned)s->sh_size;
        }
    }
    return 0;
}
