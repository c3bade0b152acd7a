/* Event sets: they can be made and waited on; no simulated event ever comes. */
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>
#include <time.h>

#include "node.h"

#define SUPPORTED_EVENTS 0xE00AULL /* Xid, double-bit ECC, poison, GPU unavailable, recovery action */

struct event_set {
    unsigned long long types;
};

NVML_EXPORT nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set)
{
    ENTER();
    NEED(set);
    *set = calloc(1, sizeof **set);
    return *set ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;
}

NVML_EXPORT nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
    ENTER();
    free(set);
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device,
                                                          unsigned long long *types)
{
    ENTER_GPU(device, gpu);
    NEED(types);
    (void)gpu;
    *types = SUPPORTED_EVENTS;
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types,
                                                  nvmlEventSet_t set)
{
    ENTER_GPU(device, gpu);
    NEED(set);
    (void)gpu;
    if (types & ~SUPPORTED_EVENTS)
        return NVML_ERROR_NOT_SUPPORTED;
    set->types |= types;
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data,
                                             unsigned timeout_ms)
{
    ENTER();
    NEED(set && data);
    struct timespec pause = {.tv_sec = timeout_ms / 1000,
                             .tv_nsec = (long)(timeout_ms % 1000) * 1000000};
    nanosleep(&pause, NULL);
    return NVML_ERROR_TIMEOUT;
}
