#define _POSIX_C_SOURCE 200809L
#include "node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "version.h"

static int users;
static struct device devices[MAX_GPUS];

static bool told_to_hang(const char *prefix, const char *function)
{
    char key[128];
    snprintf(key, sizeof key, "%s%s", prefix, function);
    return conf_text(key) != NULL;
}

static void hang_if_told(const char *prefix, const char *function)
{
    while (told_to_hang(prefix, function))
        pause();
}

/* What the real library finds out when it opens the driver: is it there, and is it of my version? */
static nvmlReturn_t open_driver(void)
{
    const char *path = getenv("B200_LAB_NVML_CONF");
    TRY(conf_load(path ? path : DEFAULT_CONF));
    const char *kernel = conf_text("kernel.version");
    if (!kernel)
        return NVML_ERROR_DRIVER_NOT_LOADED;
    if (strcmp(kernel, library_version) != 0)
        return NVML_ERROR_LIB_RM_VERSION_MISMATCH;
    for (int gpu = 0; gpu < MAX_GPUS; gpu++)
        devices[gpu].index = gpu;
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlInitWithFlags(unsigned flags)
{
    (void)flags;
    if (users == 0) {
        nvmlReturn_t result = open_driver();
        hang_if_told("hang.", "nvmlInit");
        if (result != NVML_SUCCESS)
            return result;
    }
    users++;
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlInit_v2(void)
{
    return nvmlInitWithFlags(0);
}

NVML_EXPORT nvmlReturn_t nvmlShutdown(void)
{
    if (users == 0)
        return NVML_ERROR_UNINITIALIZED;
    if (--users == 0)
        conf_free();
    return NVML_SUCCESS;
}

/* "refuse.FUNCTION=3": that call answers with an NVML error, on one GPU or at all. */
static nvmlReturn_t told_to_refuse(const char *function)
{
    char key[128];
    snprintf(key, sizeof key, "refuse.%s", function);
    const char *code = conf_text(key);
    return code ? (nvmlReturn_t)atoi(code) : NVML_SUCCESS;
}

static nvmlReturn_t told_to_refuse_on(int gpu, const char *function)
{
    char key[128];
    long long code = NVML_SUCCESS;
    snprintf(key, sizeof key, "refuse.%s", function);
    conf_gpu_number(gpu, key, &code);
    return (nvmlReturn_t)code;
}

nvmlReturn_t node_enter(const char *function)
{
    if (users == 0)
        return NVML_ERROR_UNINITIALIZED;
    hang_if_told("hang.", function);
    return told_to_refuse(function);
}

nvmlReturn_t node_enter_gpu(const char *function, nvmlDevice_t device, int *gpu)
{
    TRY(node_enter(function));
    if (device < devices || device >= devices + node_gpu_count())
        return NVML_ERROR_INVALID_ARGUMENT;
    *gpu = device->index;
    char prefix[32];
    snprintf(prefix, sizeof prefix, "gpu.%d.hang.", *gpu);
    hang_if_told(prefix, function);
    hang_if_told("gpu.*.hang.", function);
    return node_gpu_is_lost(*gpu) ? NVML_ERROR_GPU_IS_LOST : told_to_refuse_on(*gpu, function);
}

int node_gpu_count(void)
{
    const char *text = conf_text("gpu.count");
    int count = text ? atoi(text) : 0;
    return count > MAX_GPUS ? MAX_GPUS : count;
}

nvmlDevice_t node_device(int gpu)
{
    return &devices[gpu];
}

bool node_gpu_is_lost(int gpu)
{
    long long lost = 0;
    return conf_gpu_number(gpu, "lost", &lost) == NVML_SUCCESS && lost;
}

bool node_marker(const char *key)
{
    const char *path = conf_text(key);
    return path && access(path, F_OK) == 0;
}
