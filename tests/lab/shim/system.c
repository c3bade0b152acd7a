/* Calls about the whole node: versions, counting GPUs, finding one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "node.h"
#include "version.h"

static nvmlReturn_t put_text(char *out, unsigned length, const char *text)
{
    NEED(out);
    if (strlen(text) >= length)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    memcpy(out, text, strlen(text) + 1);
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned length)
{
    ENTER();
    return put_text(version, length, conf_text("kernel.version"));
}

/* "13.580.126.20": CUDA's major version, then the driver's. */
NVML_EXPORT nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned length)
{
    char text[80];
    ENTER();
    snprintf(text, sizeof text, "%d.%s", cuda_version / 1000, library_version);
    return put_text(version, length, text);
}

NVML_EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version)
{
    ENTER();
    NEED(version);
    *version = cuda_version;
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    return nvmlSystemGetCudaDriverVersion(version);
}

NVML_EXPORT nvmlReturn_t nvmlSystemGetDriverBranch(nvmlSystemDriverBranchInfo_v1_t *info,
                                                   unsigned length)
{
    ENTER();
    NEED(info);
    (void)length;
    if (info->version != STRUCT_VERSION(nvmlSystemDriverBranchInfo_v1_t, 1))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    snprintf(info->branch, sizeof info->branch, "r%d_00", atoi(library_version));
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlSystemGetConfComputeState(nvmlConfComputeSystemState_t *state)
{
    ENTER();
    NEED(state);
    memset(state, 0, sizeof *state);
    const char *enabled = conf_text("confidential_compute");
    state->ccFeature = enabled ? (unsigned)atoi(enabled) : 0;
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count)
{
    ENTER();
    NEED(count);
    *count = (unsigned)node_gpu_count();
    return NVML_SUCCESS;
}

static nvmlReturn_t hand_out(int gpu, nvmlDevice_t *device)
{
    if (node_gpu_is_lost(gpu))
        return NVML_ERROR_GPU_IS_LOST;
    *device = node_device(gpu);
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device)
{
    ENTER();
    NEED(device);
    if (index >= (unsigned)node_gpu_count())
        return NVML_ERROR_INVALID_ARGUMENT;
    return hand_out((int)index, device);
}

static nvmlReturn_t find(const char *key, const char *wanted, nvmlDevice_t *device)
{
    for (int gpu = 0; gpu < node_gpu_count(); gpu++) {
        const char *text;
        if (conf_gpu_text(gpu, key, &text) == NVML_SUCCESS && strcasecmp(text, wanted) == 0)
            return hand_out(gpu, device);
    }
    return NVML_ERROR_NOT_FOUND;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
    ENTER();
    NEED(uuid && device);
    return find("uuid", uuid, device);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleBySerial(const char *serial, nvmlDevice_t *device)
{
    ENTER();
    NEED(serial && device);
    return find("serial", serial, device);
}

/* Takes sysfs' four-digit domain as well as NVML's eight. */
NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, nvmlDevice_t *device)
{
    unsigned domain, bus, slot;
    char wanted[32];
    ENTER();
    NEED(bus_id && device);
    if (sscanf(bus_id, "%x:%x:%x", &domain, &bus, &slot) != 3)
        return NVML_ERROR_INVALID_ARGUMENT;
    snprintf(wanted, sizeof wanted, "%08X:%02X:%02X.0", domain, bus, slot);
    return find("pci.bus_id", wanted, device);
}

NVML_EXPORT const char *nvmlErrorString(nvmlReturn_t result)
{
    switch (result) {
    case NVML_SUCCESS: return "Success";
    case NVML_ERROR_UNINITIALIZED: return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT: return "Invalid Argument";
    case NVML_ERROR_NOT_SUPPORTED: return "Not Supported";
    case NVML_ERROR_NO_PERMISSION: return "Insufficient Permissions";
    case NVML_ERROR_NOT_FOUND: return "Not Found";
    case NVML_ERROR_INSUFFICIENT_SIZE: return "Insufficient Size";
    case NVML_ERROR_DRIVER_NOT_LOADED: return "Driver Not Loaded";
    case NVML_ERROR_TIMEOUT: return "Timeout";
    case NVML_ERROR_CORRUPTED_INFOROM: return "Corrupted infoROM";
    case NVML_ERROR_GPU_IS_LOST: return "GPU is lost";
    case NVML_ERROR_RESET_REQUIRED: return "GPU requires reset";
    case NVML_ERROR_LIB_RM_VERSION_MISMATCH: return "Driver/library version mismatch";
    case NVML_ERROR_ARGUMENT_VERSION_MISMATCH: return "Argument version mismatch";
    }
    return "Unknown Error";
}
