/* The working compute units of a chip: cu_bitmap and the values derived from it. Units are fused
 * off in pairs (WGPs). A shader engine may be off completely and still count in num_shader_engines
 * (Mesa's drm-shim has a 6800 without its engine 1). */
#include "state.h"

enum { WGP = 3, FIRST_OFF = 1 };

static uint32_t *array_at(struct drm_amdgpu_info_device *info, uint32_t engine, uint32_t array)
{
    return &info->cu_bitmap[engine % 4][array + engine / 4 * 2];
}

static uint32_t of_engine(struct drm_amdgpu_info_device *info, uint32_t engine)
{
    uint32_t units = 0;
    for (uint32_t a = 0; a < info->num_shader_arrays_per_engine; a++)
        units += (uint32_t)__builtin_popcount(*array_at(info, engine, a));
    return units;
}

uint32_t kmd_engines(struct drm_amdgpu_info_device *info)
{
    uint32_t engines = 0;
    for (uint32_t e = 0; e < info->num_shader_engines; e++)
        engines += of_engine(info, e) > 0;
    return engines;
}

/* Turns off a shader engine's compute units and render backends. In enabled_rb_pipes_mask, the
 * backends of engine 0 have the lowest bits, then those of engine 1 follow, and so on. */
static void engine_off(struct drm_amdgpu_info_device *info, uint32_t engine)
{
    uint32_t backends = info->num_rb_pipes / info->num_shader_engines;
    for (uint32_t a = 0; a < info->num_shader_arrays_per_engine; a++)
        *array_at(info, engine, a) = 0;
    info->enabled_rb_pipes_mask &= ~(((1U << backends) - 1) << engine * backends);
}

/* Turns off shader engines until only `left` of them are on. Engine 0 is turned off last, engine 1
 * first. */
void kmd_harvest_engines(struct drm_amdgpu_info_device *info, uint32_t left)
{
    for (uint32_t e = FIRST_OFF; kmd_engines(info) > left; e++)
        engine_off(info, e % info->num_shader_engines);
    kmd_count_units(info);
}

/* Turns off one WGP. It chooses the shader engine with the largest number of working compute units,
 * and in this engine the shader array with the largest number. `turn` selects the WGP in the array:
 * not always the last one, because real bitmaps have holes. */
static void drop_wgp(struct drm_amdgpu_info_device *info, uint32_t turn)
{
    uint32_t engine = 0;
    for (uint32_t e = 1; e < info->num_shader_engines; e++)
        engine = of_engine(info, e) > of_engine(info, engine) ? e : engine;
    uint32_t *fullest = array_at(info, engine, 0);
    for (uint32_t a = 1; a < info->num_shader_arrays_per_engine; a++)
        if (__builtin_popcount(*array_at(info, engine, a)) > __builtin_popcount(*fullest))
            fullest = array_at(info, engine, a);
    uint32_t nth = turn % ((uint32_t)__builtin_popcount(*fullest) / 2), at = 0;
    for (;; at += 2)
        if (*fullest >> at & WGP && nth-- == 0)
            break;
    *fullest &= ~((uint32_t)WGP << at);
}

void kmd_harvest_units(struct drm_amdgpu_info_device *info, uint32_t left)
{
    for (uint32_t turn = 1; info->cu_active_number > left; turn++) {
        drop_wgp(info, turn);
        kmd_count_units(info);
    }
}

void kmd_count_units(struct drm_amdgpu_info_device *info)
{
    info->cu_active_number = 0;
    for (uint32_t e = 0; e < info->num_shader_engines; e++)
        info->cu_active_number += of_engine(info, e);
}
