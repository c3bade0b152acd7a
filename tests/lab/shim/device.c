/* What one GPU says of itself. A plain reading is one line of the tables; the rest are small functions. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "node.h"

#define MIB (1024ULL * 1024ULL)

static nvmlReturn_t text_of(int gpu, const char *key, char *out, unsigned length)
{
    const char *text;
    NEED(out);
    TRY(conf_gpu_text(gpu, key, &text));
    if (strlen(text) >= length)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    memcpy(out, text, strlen(text) + 1);
    return NVML_SUCCESS;
}

static nvmlReturn_t number_of(int gpu, const char *key, unsigned *out)
{
    long long number;
    NEED(out);
    TRY(conf_gpu_number(gpu, key, &number));
    *out = (unsigned)number;
    return NVML_SUCCESS;
}

static nvmlReturn_t wide_number_of(int gpu, const char *key, unsigned long long *out)
{
    long long number;
    NEED(out);
    TRY(conf_gpu_number(gpu, key, &number));
    *out = (unsigned long long)number;
    return NVML_SUCCESS;
}

#define TEXT(function, key)                                                          \
    NVML_EXPORT nvmlReturn_t function(nvmlDevice_t device, char *out, unsigned size) \
    {                                                                                \
        ENTER_GPU(device, gpu);                                                      \
        return text_of(gpu, key, out, size);                                         \
    }

#define NUMBER(function, key)                                           \
    NVML_EXPORT nvmlReturn_t function(nvmlDevice_t device, unsigned *out) \
    {                                                                   \
        ENTER_GPU(device, gpu);                                         \
        return number_of(gpu, key, out);                                \
    }

#define WIDE_NUMBER(function, key)                                                \
    NVML_EXPORT nvmlReturn_t function(nvmlDevice_t device, unsigned long long *out) \
    {                                                                             \
        ENTER_GPU(device, gpu);                                                   \
        return wide_number_of(gpu, key, out);                                     \
    }

#define PAIR(function, first_key, second_key)                                              \
    NVML_EXPORT nvmlReturn_t function(nvmlDevice_t device, unsigned *first, unsigned *second) \
    {                                                                                      \
        ENTER_GPU(device, gpu);                                                            \
        TRY(number_of(gpu, first_key, first));                                             \
        return number_of(gpu, second_key, second);                                         \
    }

/* On B200 the driver answers "not supported" (retired pages, GPU NUMA node). */
#define NOT_ON_B200(function)                                            \
    NVML_EXPORT nvmlReturn_t function(nvmlDevice_t device, void *out)    \
    {                                                                    \
        ENTER_GPU(device, gpu);                                          \
        (void)out;                                                       \
        (void)gpu;                                                       \
        return NVML_ERROR_NOT_SUPPORTED;                                 \
    }

TEXT(nvmlDeviceGetName, "name")
TEXT(nvmlDeviceGetUUID, "uuid")
TEXT(nvmlDeviceGetSerial, "serial")
TEXT(nvmlDeviceGetBoardPartNumber, "board_part_number")
TEXT(nvmlDeviceGetVbiosVersion, "vbios")
TEXT(nvmlDeviceGetInforomImageVersion, "inforom")

NUMBER(nvmlDeviceGetModuleId, "module_id")
NUMBER(nvmlDeviceGetPowerManagementLimit, "power.limit_mw")
NUMBER(nvmlDeviceGetPowerManagementDefaultLimit, "power.default_mw")
NUMBER(nvmlDeviceGetEnforcedPowerLimit, "power.enforced_mw")
NUMBER(nvmlDeviceGetPowerUsage, "power.usage_mw")
NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, "pcie.max_generation")
NUMBER(nvmlDeviceGetGpuMaxPcieLinkGeneration, "pcie.max_generation")
NUMBER(nvmlDeviceGetMaxPcieLinkWidth, "pcie.max_width")
NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, "pcie.generation")
NUMBER(nvmlDeviceGetCurrPcieLinkWidth, "pcie.width")
NUMBER(nvmlDeviceGetPcieReplayCounter, "pcie.replays")

WIDE_NUMBER(nvmlDeviceGetCurrentClocksEventReasons, "clocks.event_reasons")
WIDE_NUMBER(nvmlDeviceGetCurrentClocksThrottleReasons, "clocks.event_reasons")

PAIR(nvmlDeviceGetMigMode, "mig", "mig_pending")
PAIR(nvmlDeviceGetEccMode, "ecc.enabled", "ecc.pending")
PAIR(nvmlDeviceGetPowerManagementLimitConstraints, "power.min_mw", "power.max_mw")
/* As the driver: for administrators, within the constraints, on every GPU by itself. */
NVML_EXPORT nvmlReturn_t nvmlDeviceSetPowerManagementLimit(nvmlDevice_t device, unsigned limit)
{
    static const char *const keys[] = {"power.limit_mw", "power.enforced_mw"};
    unsigned lowest, highest;
    char key[64], value[16];
    ENTER_GPU(device, gpu);
    if (geteuid() != 0)
        return NVML_ERROR_NO_PERMISSION;
    TRY(number_of(gpu, "power.min_mw", &lowest));
    TRY(number_of(gpu, "power.max_mw", &highest));
    if (limit < lowest || limit > highest)
        return NVML_ERROR_INVALID_ARGUMENT;
    snprintf(value, sizeof value, "%u", limit);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        snprintf(key, sizeof key, "gpu.%d.%s", gpu, keys[i]);
        TRY(conf_keep(key, value));
    }
    return NVML_SUCCESS;
}

PAIR(nvmlDeviceGetCudaComputeCapability, "cc.major", "cc.minor")

NOT_ON_B200(nvmlDeviceGetNumaNodeId)
NOT_ON_B200(nvmlDeviceGetRetiredPagesPendingStatus)

NVML_EXPORT nvmlReturn_t nvmlDeviceGetRetiredPages(nvmlDevice_t device, unsigned cause,
                                                   unsigned *count, unsigned long long *pages)
{
    (void)cause;
    (void)count;
    return nvmlDeviceGetRetiredPagesPendingStatus(device, pages);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t device, unsigned *architecture)
{
    ENTER_GPU(device, gpu);
    return number_of(gpu, "cc.major", architecture); /* Blackwell is 10 in both countings */
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned *index)
{
    ENTER_GPU(device, gpu);
    NEED(index);
    *index = (unsigned)gpu;
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned *minor)
{
    return nvmlDeviceGetIndex(device, minor);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceValidateInforom(nvmlDevice_t device)
{
    unsigned valid;
    ENTER_GPU(device, gpu);
    TRY(number_of(gpu, "inforom_valid", &valid));
    return valid ? NVML_SUCCESS : NVML_ERROR_CORRUPTED_INFOROM;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t device, unsigned *mode)
{
    ENTER_GPU(device, gpu);
    NEED(mode);
    (void)gpu;
    *mode = node_marker("persistence.marker");
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetGspFirmwareVersion(nvmlDevice_t device, char *version)
{
    ENTER_GPU(device, gpu);
    NEED(version);
    (void)gpu;
    snprintf(version, 0x40, "%s", conf_text("kernel.version"));
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetGspFirmwareMode(nvmlDevice_t device, unsigned *enabled,
                                                      unsigned *by_default)
{
    ENTER_GPU(device, gpu);
    NEED(enabled && by_default);
    *by_default = 1;
    return number_of(gpu, "gsp_enabled", enabled);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
    ENTER_GPU(device, gpu);
    NEED(pci);
    memset(pci, 0, sizeof *pci);
    TRY(text_of(gpu, "pci.bus_id", pci->busId, sizeof pci->busId));
    TRY(number_of(gpu, "pci.device_id", &pci->pciDeviceId));
    TRY(number_of(gpu, "pci.subsystem_id", &pci->pciSubSystemId));
    sscanf(pci->busId, "%x:%x:%x", &pci->domain, &pci->bus, &pci->device);
    snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "%s", pci->busId + 4);
    return NVML_SUCCESS;
}

/* reserved, used and free in bytes; v1 counts what is reserved as used */
static nvmlReturn_t memory_of(int gpu, nvmlMemory_v2_t *memory)
{
    TRY(wide_number_of(gpu, "memory.total_mib", &memory->total));
    TRY(wide_number_of(gpu, "memory.reserved_mib", &memory->reserved));
    TRY(wide_number_of(gpu, "memory.used_mib", &memory->used));
    memory->total *= MIB;
    memory->reserved *= MIB;
    memory->used *= MIB;
    memory->free = memory->total - memory->reserved - memory->used;
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
    nvmlMemory_v2_t all;
    ENTER_GPU(device, gpu);
    NEED(memory);
    TRY(memory_of(gpu, &all));
    *memory = (nvmlMemory_t){.total = all.total, .free = all.free, .used = all.used + all.reserved};
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
    ENTER_GPU(device, gpu);
    NEED(memory);
    if (memory->version != STRUCT_VERSION(nvmlMemory_v2_t, 2))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    return memory_of(gpu, memory);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t *bar1)
{
    ENTER_GPU(device, gpu);
    NEED(bar1);
    TRY(wide_number_of(gpu, "bar1.total_mib", &bar1->bar1Total));
    bar1->bar1Total *= MIB;
    bar1->bar1Used = MIB;
    bar1->bar1Free = bar1->bar1Total - bar1->bar1Used;
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetConfComputeProtectedMemoryUsage(nvmlDevice_t device,
                                                                      nvmlMemory_t *memory)
{
    ENTER_GPU(device, gpu);
    NEED(memory);
    (void)gpu;
    memset(memory, 0, sizeof *memory);
    return NVML_SUCCESS;
}

/* Clock domains: 0 graphics, 1 SM, 2 memory, 3 video; graphics and video follow SM here. */
NVML_EXPORT nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, unsigned domain, unsigned *mhz)
{
    ENTER_GPU(device, gpu);
    return domain > 3 ? NVML_ERROR_INVALID_ARGUMENT
                      : number_of(gpu, domain == 2 ? "clocks.mem_mhz" : "clocks.sm_mhz", mhz);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, unsigned domain,
                                                   unsigned *mhz)
{
    ENTER_GPU(device, gpu);
    return domain > 3 ? NVML_ERROR_INVALID_ARGUMENT
                      : number_of(gpu, domain == 2 ? "clocks.mem_max_mhz" : "clocks.sm_max_mhz", mhz);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, unsigned sensor,
                                                  unsigned *celsius)
{
    ENTER_GPU(device, gpu);
    return sensor ? NVML_ERROR_INVALID_ARGUMENT : number_of(gpu, "temperature.gpu_c", celsius);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device,
                                                   nvmlTemperature_v1_t *reading)
{
    ENTER_GPU(device, gpu);
    NEED(reading);
    if (reading->version != STRUCT_VERSION(nvmlTemperature_v1_t, 1))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (reading->sensorType)
        return NVML_ERROR_INVALID_ARGUMENT;
    return number_of(gpu, "temperature.gpu_c", (unsigned *)&reading->temperature);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMarginTemperature(nvmlDevice_t device,
                                                        nvmlMarginTemperature_v1_t *reading)
{
    ENTER_GPU(device, gpu);
    NEED(reading);
    if (reading->version != STRUCT_VERSION(nvmlMarginTemperature_v1_t, 1))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    return number_of(gpu, "temperature.margin_c", (unsigned *)&reading->marginTemperature);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *rates)
{
    ENTER_GPU(device, gpu);
    NEED(rates);
    (void)gpu;
    memset(rates, 0, sizeof *rates);
    return NVML_SUCCESS;
}

/* Nothing computes on a simulated GPU, unless the scenario names processes: `processes=4711 4712`. */
NVML_EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device,
                                                                 unsigned *count,
                                                                 nvmlProcessInfo_t *processes)
{
    ENTER_GPU(device, gpu);
    NEED(count);
    const char *text = "";
    unsigned room = *count;
    char *end;
    if (conf_gpu_says(gpu, "processes"))
        TRY(conf_gpu_text(gpu, "processes", &text));
    *count = 0;
    for (unsigned long pid; (pid = strtoul(text, &end, 10)) && end != text; text = end) {
        if (processes && *count < room)
            processes[*count] = (nvmlProcessInfo_t){.pid = (unsigned)pid, .usedGpuMemory = 512 * MIB};
        ++*count;
    }
    return *count > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}
