/* The part of NVML's C ABI that the node program uses: return codes, struct layouts, version words.
 * Facts from NVIDIA's nvml.h (tests/data/nvml.yaml); tests/unit/lab/nvml/test_shim_abi.py compares the two. */
#ifndef B200_LAB_NVML_ABI_H
#define B200_LAB_NVML_ABI_H

#include <stdint.h>

#define NVML_EXPORT __attribute__((visibility("default")))

typedef enum {
    NVML_SUCCESS = 0,
    NVML_ERROR_UNINITIALIZED = 1,
    NVML_ERROR_INVALID_ARGUMENT = 2,
    NVML_ERROR_NOT_SUPPORTED = 3,
    NVML_ERROR_NO_PERMISSION = 4,
    NVML_ERROR_NOT_FOUND = 6,
    NVML_ERROR_INSUFFICIENT_SIZE = 7,
    NVML_ERROR_DRIVER_NOT_LOADED = 9,
    NVML_ERROR_TIMEOUT = 10,
    NVML_ERROR_CORRUPTED_INFOROM = 14,
    NVML_ERROR_GPU_IS_LOST = 15,
    NVML_ERROR_RESET_REQUIRED = 16,
    NVML_ERROR_LIB_RM_VERSION_MISMATCH = 18,
    NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25,
} nvmlReturn_t;

typedef struct device *nvmlDevice_t;
typedef struct event_set *nvmlEventSet_t;

#define STRUCT_VERSION(type, version) ((unsigned)(sizeof(type) | ((unsigned)(version) << 24)))

typedef struct { unsigned long long total, free, used; } nvmlMemory_t;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } nvmlMemory_v2_t;
typedef struct { unsigned long long bar1Total, bar1Free, bar1Used; } nvmlBAR1Memory_t;
typedef struct { unsigned gpu, memory; } nvmlUtilization_t;
typedef struct { unsigned max, high, partial, low, none; } nvmlRowRemapperHistogramValues_t;
typedef struct { unsigned environment, ccFeature, devToolsMode; } nvmlConfComputeSystemState_t;
typedef struct { unsigned version; char branch[80]; } nvmlSystemDriverBranchInfo_v1_t;
typedef struct { unsigned version, sensorType; int temperature; } nvmlTemperature_v1_t;
typedef struct { unsigned version; int marginTemperature; } nvmlMarginTemperature_v1_t;
typedef struct { unsigned version, bChannelRepairPending, bTpcRepairPending; } nvmlRepairStatus_t;
typedef struct { unsigned version, bIsBest; uint8_t bwMode; } nvmlNvlinkGetBwMode_v1_t;

typedef struct {
    unsigned pid;
    unsigned long long usedGpuMemory;
    unsigned gpuInstanceId, computeInstanceId;
} nvmlProcessInfo_t;

typedef struct {
    char busIdLegacy[16];
    unsigned domain, bus, device, pciDeviceId, pciSubSystemId;
    char busId[32];
} nvmlPciInfo_t;

typedef struct {
    unsigned version;
    uint8_t clusterUuid[16];
    uint32_t status, cliqueId;
    uint8_t state; /* and three bytes of padding */
    uint32_t healthMask;
} nvmlGpuFabricInfo_v2_t;

typedef struct {
    unsigned version;
    uint8_t clusterUuid[16];
    uint32_t status, cliqueId;
    uint8_t state; /* and three bytes of padding */
    uint32_t healthMask;
    uint8_t healthSummary;
} nvmlGpuFabricInfo_v3_t;

typedef struct {
    unsigned version;
    uint8_t ibGuid[16], chassisSerialNumber[16];
    uint8_t slotNumber, trayIndex, hostId, peerType, moduleId;
} nvmlPlatformInfo_v2_t;

typedef struct {
    unsigned version;
    unsigned long long aggregateUncParity, aggregateUncSecDed, aggregateCor;
    unsigned long long volatileUncParity, volatileUncSecDed, volatileCor;
    unsigned long long aggregateUncBucketL2, aggregateUncBucketSm, aggregateUncBucketPcie;
    unsigned long long aggregateUncBucketMcu, aggregateUncBucketOther;
    unsigned bThresholdExceeded;
} nvmlEccSramErrorStatus_v1_t;

typedef union {
    double dVal;
    unsigned uiVal;
    unsigned long ulVal;
    unsigned long long ullVal;
    long long sllVal;
    int siVal;
    unsigned short usVal;
} nvmlValue_t;

typedef struct {
    uint32_t fieldId, scopeId;
    int64_t timestamp, latencyUsec;
    uint32_t valueType, nvmlReturn;
    nvmlValue_t value;
} nvmlFieldValue_t;

typedef struct {
    nvmlDevice_t device;
    unsigned long long eventType, eventData;
    unsigned gpuInstanceId, computeInstanceId;
} nvmlEventData_t;

enum { VALUE_UINT = 1, VALUE_ULONGLONG = 3, VALUE_INT = 5 };

#endif
