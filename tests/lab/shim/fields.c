/* nvmlDeviceGetFieldValues: many readings in one call, each with its own return code. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "node.h"

enum { DL_REPLAY = 161, DL_CRC = 163, LINK_SPEED = 164, LINK_STATE = 165 };
enum { LINK_VERSION = 166, TLIMIT_FIRST = 193, TLIMIT_LAST = 196, COUNTERS_FIRST = 201 };
enum { COUNTERS_LAST = 222, FEC_FIRST = 235, FEC_LAST = 250 };

static bool is_counter(uint32_t field)
{
    return (field >= COUNTERS_FIRST && field <= COUNTERS_LAST) ||
           (field >= FEC_FIRST && field <= FEC_LAST);
}

static bool is_per_link(uint32_t field)
{
    return (field >= LINK_SPEED && field <= LINK_VERSION) || is_counter(field);
}

static unsigned type_of(uint32_t field)
{
    if (is_counter(field))
        return VALUE_ULONGLONG;
    return field >= TLIMIT_FIRST && field <= TLIMIT_LAST ? VALUE_INT : VALUE_UINT;
}

static nvmlReturn_t look_up(int gpu, uint32_t field, uint32_t scope, bool per_link, long long *value)
{
    char key[64];
    snprintf(key, sizeof key, "field.%u.%u", field, scope);
    if (!per_link || !conf_gpu_says(gpu, key))
        snprintf(key, sizeof key, "field.%u", field);
    return conf_gpu_number(gpu, key, value);
}

static nvmlReturn_t link_field(int gpu, uint32_t field, uint32_t link, long long *value)
{
    long long links, up;
    char key[64];
    TRY(conf_gpu_number(gpu, "links.count", &links));
    if (link >= links)
        return NVML_ERROR_INVALID_ARGUMENT;
    snprintf(key, sizeof key, "links.%u.state", link);
    TRY(conf_gpu_number(gpu, key, &up));
    if (field == LINK_VERSION) {
        snprintf(key, sizeof key, "links.%u.version", link);
        return conf_gpu_number(gpu, conf_gpu_says(gpu, key) ? key : "links.version", value);
    }
    *value = up;
    if (field == LINK_STATE || (field == LINK_SPEED && !up))
        return NVML_SUCCESS;
    return look_up(gpu, field, link, true, value);
}

/* 161-163 belong to NVLink 4 and before: Blackwell answers "not supported". */
static nvmlReturn_t read_field(int gpu, uint32_t field, uint32_t scope, long long *value)
{
    if (field >= DL_REPLAY && field <= DL_CRC)
        return NVML_ERROR_NOT_SUPPORTED;
    return is_per_link(field) ? link_field(gpu, field, scope, value)
                              : look_up(gpu, field, scope, false, value);
}

static void put(nvmlFieldValue_t *item, long long number)
{
    memset(&item->value, 0, sizeof item->value);
    item->valueType = type_of(item->fieldId);
    if (item->valueType == VALUE_ULONGLONG)
        item->value.ullVal = (unsigned long long)number;
    else if (item->valueType == VALUE_INT)
        item->value.siVal = (int)number;
    else
        item->value.uiVal = (unsigned)number;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count,
                                                  nvmlFieldValue_t *items)
{
    struct timespec now;
    ENTER_GPU(device, gpu);
    NEED(items && count > 0);
    clock_gettime(CLOCK_REALTIME, &now);
    for (nvmlFieldValue_t *item = items; item < items + count; item++) {
        long long number = 0;
        item->nvmlReturn = read_field(gpu, item->fieldId, item->scopeId, &number);
        item->timestamp = (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
        item->latencyUsec = 1;
        put(item, number);
    }
    return NVML_SUCCESS;
}
