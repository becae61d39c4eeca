/* "Initialization", "Version Management", "Device Management", peer queries of "Peer Context Memory Access". What a
 * device says of itself is that of an H200 (its data sheet and NVIDIA's tables of compute capability 9.0). */
#include "../include/fake.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fk_settings fk_settings = {.devices = 2, .memory = 143771ull << 20, .major = 9, .minor = 0, .driver = 13000,
                                  .peer = 1, .name = "Fake H200"};
struct fk_device fk_devices[FK_MAX_DEVICES];
_Atomic int fk_trouble = CUDA_ERROR_NOT_INITIALIZED;
_Atomic bool fk_forked;
static pthread_mutex_t init_lock = PTHREAD_MUTEX_INITIALIZER;

static void in_child(void)
{
    atomic_store(&fk_forked, true);
    atomic_store(&fk_trouble, CUDA_ERROR_NOT_INITIALIZED);
}

/* CUDA_VISIBLE_DEVICES (CUDA C++ Programming Guide, "CUDA Environment Variables"): the cards that are there, in that order.
 * Numbers behind one that is wrong do not count. */
static void see(const char *visible)
{
    const int cards = fk_settings.devices;
    uint32_t seen = 0;
    int n = 0;
    for (char *end; visible && n < cards; visible = *end == ',' ? end + 1 : NULL) {
        const long card = strtol(visible, &end, 10);
        if (end == visible || card < 0 || card >= cards || seen >> card & 1)
            break;
        seen |= 1u << card;
        fk_devices[n++].card = (int)card;
    }
    fk_settings.devices = n;
}

static int initialise(void)
{
    if (atomic_load(&fk_forked))
        return CUDA_ERROR_NOT_INITIALIZED;
    if (atomic_load(&fk_trouble) == 0)
        return 0;
    const char *const visible = getenv("CUDA_VISIBLE_DEVICES");
    for (int i = 0; i < fk_settings.devices; i++)
        fk_devices[i].card = i;
    if (visible)
        see(visible);
    if (fk_settings.devices == 0)
        return CUDA_ERROR_NO_DEVICE;
    if (!fk_slots || fk_heap_init() != 0 || pthread_atfork(NULL, NULL, in_child) != 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    fk_kernels_init();
    for (int i = 0; i < fk_settings.devices; i++) {
        fk_devices[i].ordinal = i;
        fk_devices[i].default_pool = fk_devices[i].pool = fk_pool_new(&fk_devices[i], 0);
        if (!fk_devices[i].pool)
            return CUDA_ERROR_OUT_OF_MEMORY;
    }
    atomic_store(&fk_trouble, 0);
    return 0;
}

CUresult cuInit(unsigned flags)
{
    FK_ENTER_ANYTIME(cuInit);
    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&init_lock);
    const int rc = initialise();
    pthread_mutex_unlock(&init_lock);
    return rc;
}

CUresult cuDriverGetVersion(int *version)
{
    FK_ENTER_ANYTIME(cuDriverGetVersion);
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    *version = fk_settings.driver;
    return 0;
}

struct fk_device *fk_device_of(CUdevice device)
{
    return device >= 0 && device < fk_settings.devices ? &fk_devices[device] : NULL;
}

CUresult cuDeviceGetCount(int *count)
{
    FK_ENTER(cuDeviceGetCount);
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    *count = fk_settings.devices;
    return 0;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    FK_ENTER(cuDeviceGet);
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    if (!fk_device_of(ordinal))
        return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return 0;
}

CUresult cuDeviceGetName(char *name, int nbytes, CUdevice device)
{
    FK_ENTER(cuDeviceGetName);
    if (!name || nbytes <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!fk_device_of(device))
        return CUDA_ERROR_INVALID_DEVICE;
    snprintf(name, (size_t)nbytes, "%s", fk_settings.name);
    return 0;
}

static int uuid_of(CUuuid *uuid, CUdevice device)
{
    if (!uuid)
        return CUDA_ERROR_INVALID_VALUE;
    if (!fk_device_of(device))
        return CUDA_ERROR_INVALID_DEVICE;
    memcpy(uuid->bytes, "sparkle-fake-cu", 15);
    uuid->bytes[15] = (char)fk_devices[device].card;
    return 0;
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
    FK_ENTER(cuDeviceGetUuid);
    return uuid_of(uuid, device);
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
    FK_ENTER(cuDeviceGetUuid_v2);
    return uuid_of(uuid, device);
}

CUresult cuDeviceTotalMem_v2(size_t *nbytes, CUdevice device)
{
    FK_ENTER(cuDeviceTotalMem_v2);
    if (!nbytes)
        return CUDA_ERROR_INVALID_VALUE;
    if (!fk_device_of(device))
        return CUDA_ERROR_INVALID_DEVICE;
    *nbytes = fk_settings.memory;
    return 0;
}

/* CUdevice_attribute: number and value. */
static const int attributes[][2] = {
    {1, 1024}, {2, 1024}, {3, 1024}, {4, 64},     /* threads a block; block x y z */
    {5, 2147483647}, {6, 65535}, {7, 65535},      /* grid x y z */
    {8, 49152}, {9, 65536}, {10, 32},             /* shared memory a block; constant memory; warp */
    {11, 2147483647}, {12, 65536}, {13, 1980000}, /* pitch; registers a block; kHz */
    {14, 512}, {15, 1}, {16, 132}, {17, 0}, {18, 0}, {19, 1}, {20, 0}, /* 16: multiprocessors */
    {31, 1}, {32, 1}, {34, 0}, {35, 0},           /* concurrent kernels; ECC; PCI device; TCC */
    {36, 3201000}, {37, 6144}, {38, 62914560},    /* memory kHz, bits; L2 */
    {39, 2048}, {40, 3}, {41, 1}, {50, 0},        /* threads a multiprocessor; copy engines; UVA; PCI domain */
    {78, 1}, {79, 1}, {80, 1}, {81, 233472}, {82, 65536}, {83, 0}, {84, 0}, /* 81: shared a multiprocessor */
    {86, 0}, {87, 2}, {88, 0}, {89, 0}, {90, 1}, {91, 1}, {92, 1}, {93, 1}, {94, 1}, {95, 1},
    {97, 232448}, {98, 1}, {99, 1}, {100, 0}, {101, 0}, {102, 0}, {106, 32}, {108, 134217728}, {109, 41943040},
    {111, 1024}, {115, 1}, {116, 0}, {119, 0}, {120, 1}, {122, 1}, {125, 1}, {128, 0},
};

int fk_device_attribute(const struct fk_device *device, int attribute, int *value)
{
    if (attribute == 75)
        return *value = fk_settings.major, 0;
    if (attribute == 76)
        return *value = fk_settings.minor, 0;
    if (attribute == 33) /* PCI bus */
        return *value = 0x10 + device->card, 0;
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++)
        if (attributes[i][0] == attribute)
            return *value = attributes[i][1], 0;
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device)
{
    FK_ENTER(cuDeviceGetAttribute);
    const struct fk_device *const dev = fk_device_of(device);
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    return dev ? fk_device_attribute(dev, attribute, value) : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device)
{
    FK_ENTER(cuDeviceComputeCapability);
    if (!major || !minor)
        return CUDA_ERROR_INVALID_VALUE;
    if (!fk_device_of(device))
        return CUDA_ERROR_INVALID_DEVICE;
    *major = fk_settings.major;
    *minor = fk_settings.minor;
    return 0;
}

CUresult cuDeviceGetPCIBusId(char *text, int nbytes, CUdevice device)
{
    FK_ENTER(cuDeviceGetPCIBusId);
    if (!text || nbytes < 13)
        return CUDA_ERROR_INVALID_VALUE;
    if (!fk_device_of(device))
        return CUDA_ERROR_INVALID_DEVICE;
    snprintf(text, (size_t)nbytes, "0000:%02X:00.0", (unsigned)(0x10 + fk_devices[device].card) & 0xff);
    return 0;
}

CUresult cuDeviceGetByPCIBusId(CUdevice *device, const char *text)
{
    unsigned domain, bus, slot;
    FK_ENTER(cuDeviceGetByPCIBusId);
    if (!device || !text)
        return CUDA_ERROR_INVALID_VALUE;
    if (sscanf(text, "%x:%x:%x", &domain, &bus, &slot) != 3 || domain || slot)
        return CUDA_ERROR_INVALID_DEVICE;
    for (int i = 0; i < fk_settings.devices; i++)
        if (bus == 0x10u + (unsigned)fk_devices[i].card)
            return *device = i, 0;
    return CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
    FK_ENTER(cuDeviceCanAccessPeer);
    if (!can)
        return CUDA_ERROR_INVALID_VALUE;
    if (!fk_device_of(device) || !fk_device_of(peer))
        return CUDA_ERROR_INVALID_DEVICE;
    *can = fk_reach(device, peer);
    return 0;
}

CUresult cuDeviceGetP2PAttribute(int *value, int attribute, CUdevice device, CUdevice peer)
{
    FK_ENTER(cuDeviceGetP2PAttribute);
    if (!value || attribute < 1 || attribute > 5)
        return CUDA_ERROR_INVALID_VALUE;
    if (!fk_device_of(device) || !fk_device_of(peer) || device == peer)
        return CUDA_ERROR_INVALID_DEVICE;
    *value = attribute == 2 || attribute == 3 ? fk_reach(device, peer) : 0; /* access, atomics; rank 0 is the best */
    return 0;
}
