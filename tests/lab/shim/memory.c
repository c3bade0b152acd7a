/* ECC, row remapping, repair. */
#include <string.h>

#include "node.h"

enum { CORRECTED = 0, UNCORRECTED = 1, VOLATILE = 0, AGGREGATE = 1 };

static const char *const ecc_keys[2][2] = {
    [CORRECTED] = {[VOLATILE] = "ecc.volatile_corrected", [AGGREGATE] = "ecc.aggregate_corrected"},
    [UNCORRECTED] = {[VOLATILE] = "ecc.volatile_uncorrected",
                     [AGGREGATE] = "ecc.aggregate_uncorrected"},
};

static nvmlReturn_t count_of(int gpu, const char *key, unsigned long long *count)
{
    long long number;
    TRY(conf_gpu_number(gpu, key, &number));
    *count = (unsigned long long)number;
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, unsigned type,
                                                     unsigned counter, unsigned long long *count)
{
    ENTER_GPU(device, gpu);
    if (!count || type > UNCORRECTED || counter > AGGREGATE)
        return NVML_ERROR_INVALID_ARGUMENT;
    return count_of(gpu, ecc_keys[type][counter], count);
}

static nvmlReturn_t small_count_of(int gpu, const char *key, unsigned *count)
{
    unsigned long long number;
    TRY(count_of(gpu, key, &number));
    *count = (unsigned)number;
    return NVML_SUCCESS;
}

/* Where in the GPU the errors are (the buckets), a scenario does not say. */
NVML_EXPORT nvmlReturn_t nvmlDeviceGetSramEccErrorStatus(nvmlDevice_t device,
                                                         nvmlEccSramErrorStatus_v1_t *status)
{
    ENTER_GPU(device, gpu);
    NEED(status);
    if (status->version != STRUCT_VERSION(nvmlEccSramErrorStatus_v1_t, 1))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    *status = (nvmlEccSramErrorStatus_v1_t){.version = status->version};
    TRY(count_of(gpu, "sram.volatile_parity", &status->volatileUncParity));
    TRY(count_of(gpu, "sram.volatile_secded", &status->volatileUncSecDed));
    TRY(count_of(gpu, "sram.aggregate_parity", &status->aggregateUncParity));
    TRY(count_of(gpu, "sram.aggregate_secded", &status->aggregateUncSecDed));
    return small_count_of(gpu, "sram.threshold_exceeded", &status->bThresholdExceeded);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned *correctable,
                                                   unsigned *uncorrectable, unsigned *pending,
                                                   unsigned *failure)
{
    static const char *const keys[] = {"remap.correctable", "remap.uncorrectable", "remap.pending",
                                       "remap.failure"};
    unsigned *const out[] = {correctable, uncorrectable, pending, failure};
    ENTER_GPU(device, gpu);
    for (int i = 0; i < 4; i++) {
        NEED(out[i]);
        TRY(small_count_of(gpu, keys[i], out[i]));
    }
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetRowRemapperHistogram(
    nvmlDevice_t device, nvmlRowRemapperHistogramValues_t *histogram)
{
    ENTER_GPU(device, gpu);
    NEED(histogram);
    TRY(small_count_of(gpu, "remap.banks.max", &histogram->max));
    TRY(small_count_of(gpu, "remap.banks.high", &histogram->high));
    TRY(small_count_of(gpu, "remap.banks.partial", &histogram->partial));
    TRY(small_count_of(gpu, "remap.banks.low", &histogram->low));
    return small_count_of(gpu, "remap.banks.none", &histogram->none);
}

#if BRANCH >= 580 /* older drivers have no such call (nvml.h) */
NVML_EXPORT nvmlReturn_t nvmlDeviceGetRepairStatus(nvmlDevice_t device, nvmlRepairStatus_t *status)
{
    ENTER_GPU(device, gpu);
    NEED(status);
    if (status->version != STRUCT_VERSION(nvmlRepairStatus_t, 1))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    TRY(small_count_of(gpu, "repair.channel_pending", &status->bChannelRepairPending));
    return small_count_of(gpu, "repair.tpc_pending", &status->bTpcRepairPending);
}
#endif
