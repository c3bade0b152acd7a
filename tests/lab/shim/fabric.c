/* NVLink, the NVSwitch fabric, peer to peer: what makes eight GPUs one. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node.h"

enum { IN_PROGRESS = 2, COMPLETED = 3 };
enum { P2P_OK = 0, P2P_NOT_SUPPORTED = 5, P2P_PROP = 4 };
enum { LEVEL_INTERNAL = 0, LEVEL_NODE = 40, LEVEL_SYSTEM = 50 };

static nvmlReturn_t number_of(int gpu, const char *key, unsigned *out)
{
    long long number;
    TRY(conf_gpu_number(gpu, key, &number));
    *out = (unsigned)number;
    return NVML_SUCCESS;
}

/* ---- links ---- */

static nvmlReturn_t link_state(int gpu, unsigned link, unsigned *up)
{
    unsigned links;
    char key[64];
    TRY(number_of(gpu, "links.count", &links));
    if (link >= links)
        return NVML_ERROR_INVALID_ARGUMENT;
    snprintf(key, sizeof key, "links.%u.state", link);
    return number_of(gpu, key, up);
}

/* `links.LINK.KEY` of one link, else `links.KEY` of all. */
static nvmlReturn_t link_number(int gpu, unsigned link, const char *name, unsigned *out)
{
    char key[64];
    snprintf(key, sizeof key, "links.%u.%s", link, name);
    if (!conf_gpu_says(gpu, key))
        snprintf(key, sizeof key, "links.%s", name);
    return number_of(gpu, key, out);
}

static bool has_a_link(int gpu)
{
    unsigned links = 0, up = 0;
    if (number_of(gpu, "links.count", &links) != NVML_SUCCESS)
        return false;
    for (unsigned link = 0; link < links && !up; link++)
        link_state(gpu, link, &up);
    return up;
}

/* A link that is down is an answer (0), not an error. */
NVML_EXPORT nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned link, unsigned *up)
{
    ENTER_GPU(device, gpu);
    NEED(up);
    return link_state(gpu, link, up);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetNvLinkVersion(nvmlDevice_t device, unsigned link,
                                                    unsigned *version)
{
    unsigned up;
    ENTER_GPU(device, gpu);
    NEED(version);
    TRY(link_state(gpu, link, &up));
    return link_number(gpu, link, "version", version);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t device, unsigned link,
                                                             unsigned *type)
{
    unsigned up;
    ENTER_GPU(device, gpu);
    NEED(type);
    TRY(link_state(gpu, link, &up));
    return link_number(gpu, link, "remote_type", type);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetNvLinkCapability(nvmlDevice_t device, unsigned link,
                                                       unsigned capability, unsigned *result)
{
    unsigned up;
    ENTER_GPU(device, gpu);
    NEED(result);
    (void)capability;
    TRY(link_state(gpu, link, &up));
    *result = up;
    return NVML_SUCCESS;
}

/* The switches of NVLink 5 are no local PCI devices, and the old counters are gone on Blackwell. */
NVML_EXPORT nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned link,
                                                             nvmlPciInfo_t *pci)
{
    unsigned up;
    ENTER_GPU(device, gpu);
    (void)pci;
    TRY(link_state(gpu, link, &up));
    return NVML_ERROR_NOT_SUPPORTED;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetNvLinkErrorCounter(nvmlDevice_t device, unsigned link,
                                                         unsigned counter,
                                                         unsigned long long *value)
{
    (void)counter;
    (void)value;
    return nvmlDeviceGetNvLinkRemotePciInfo_v2(device, link, NULL);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetNvlinkBwMode(nvmlDevice_t device,
                                                   nvmlNvlinkGetBwMode_v1_t *mode)
{
    ENTER_GPU(device, gpu);
    NEED(mode);
    (void)gpu;
    if (mode->version != STRUCT_VERSION(nvmlNvlinkGetBwMode_v1_t, 1))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    mode->bIsBest = 1;
    mode->bwMode = 0; /* full */
    return NVML_SUCCESS;
}

/* ---- fabric ---- */

/* Set by the fabric manager and kept until the next boot, even when the manager dies. */
static unsigned fabric_state(int gpu)
{
    unsigned state = 0;
    number_of(gpu, "fabric.state", &state);
    if (state == COMPLETED && !node_marker("fabric.marker"))
        return IN_PROGRESS;
    return state;
}

static void put_uuid(uint8_t *out, const char *hex)
{
    for (int i = 0; i < 16; i++) {
        unsigned byte = 0;
        sscanf(hex + 2 * i, "%2x", &byte);
        out[i] = (uint8_t)byte;
    }
}

/* Nobody promises what padding holds, and nvidia-ml-py reads it as part of the state. */
static void spoil_padding(nvmlGpuFabricInfo_v3_t *info)
{
    memset(&info->state + 1, 0xA5, offsetof(nvmlGpuFabricInfo_v3_t, healthMask) -
                                       offsetof(nvmlGpuFabricInfo_v3_t, state) - 1);
}

/* Only a completed registration says more than its state. */
static nvmlReturn_t fabric_of(int gpu, nvmlGpuFabricInfo_v3_t *info)
{
    const char *uuid;
    unsigned summary;
    memset(info, 0, sizeof *info);
    spoil_padding(info);
    info->state = (uint8_t)fabric_state(gpu);
    if (info->state != COMPLETED)
        return NVML_SUCCESS;
    TRY(conf_gpu_text(gpu, "fabric.cluster_uuid", &uuid));
    if (strlen(uuid) == 32)
        put_uuid(info->clusterUuid, uuid);
    TRY(number_of(gpu, "fabric.status", &info->status));
    TRY(number_of(gpu, "fabric.clique_id", &info->cliqueId));
    TRY(number_of(gpu, "fabric.health_mask", &info->healthMask));
    TRY(number_of(gpu, "fabric.health_summary", &summary));
    info->healthSummary = (uint8_t)summary;
    return NVML_SUCCESS;
}

/* v2, all that drivers before 580 know, is v3 without its last member; the caller's version word says
 * which of the two it holds. */
NVML_EXPORT nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, void *out)
{
    nvmlGpuFabricInfo_v3_t info;
    unsigned version;
    ENTER_GPU(device, gpu);
    NEED(out);
    memcpy(&version, out, sizeof version);
    bool v3 = BRANCH >= 580 && version == STRUCT_VERSION(nvmlGpuFabricInfo_v3_t, 3);
    if (!v3 && version != STRUCT_VERSION(nvmlGpuFabricInfo_v2_t, 2))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    TRY(fabric_of(gpu, &info));
    info.version = version;
    memcpy(out, &info, v3 ? sizeof info : sizeof(nvmlGpuFabricInfo_v2_t));
    return NVML_SUCCESS;
}

/* Peer type 1 is "switch connected"; slot, tray and chassis say nothing on HGX. */
NVML_EXPORT nvmlReturn_t nvmlDeviceGetPlatformInfo(nvmlDevice_t device, nvmlPlatformInfo_v2_t *info)
{
    unsigned module;
    ENTER_GPU(device, gpu);
    NEED(info);
    if (info->version != STRUCT_VERSION(nvmlPlatformInfo_v2_t, 2))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    TRY(number_of(gpu, "module_id", &module));
    *info = (nvmlPlatformInfo_v2_t){.version = info->version,
                                    .slotNumber = 0xff,
                                    .trayIndex = 0xff,
                                    .hostId = 1,
                                    .peerType = 1,
                                    .moduleId = (uint8_t)module};
    return NVML_SUCCESS;
}

/* ---- peer to peer ---- */

static bool can_reach_peers(int gpu)
{
    return has_a_link(gpu) && fabric_state(gpu) == COMPLETED;
}

/* `gpu.A.p2p.B=STATUS`, said for the one or the other, spoils the pair both ways. */
static bool told_of_pair(int gpu, int other, unsigned *status)
{
    char key[64];
    snprintf(key, sizeof key, "p2p.%d", other);
    return number_of(gpu, key, status) == NVML_SUCCESS;
}

/* Links that are up are not enough: without a completed fabric no peer is reached (see docs/lab.md). */
NVML_EXPORT nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t device, nvmlDevice_t peer,
                                                unsigned index, unsigned *status)
{
    ENTER_GPU(device, gpu);
    ENTER_GPU(peer, other);
    NEED(status);
    if (index > P2P_PROP || gpu == other)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (told_of_pair(gpu, other, status) || told_of_pair(other, gpu, status))
        return NVML_SUCCESS;
    *status = can_reach_peers(gpu) && can_reach_peers(other) ? P2P_OK : P2P_NOT_SUPPORTED;
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t device, nvmlDevice_t peer,
                                                             unsigned *level)
{
    unsigned node, other_node;
    ENTER_GPU(device, gpu);
    ENTER_GPU(peer, other);
    NEED(level);
    TRY(number_of(gpu, "numa_node", &node));
    TRY(number_of(other, "numa_node", &other_node));
    *level = gpu == other ? LEVEL_INTERNAL : node == other_node ? LEVEL_NODE : LEVEL_SYSTEM;
    return NVML_SUCCESS;
}

static void set_bit(unsigned long *set, unsigned words, unsigned long bit)
{
    if (bit / 64 < words)
        set[bit / 64] |= 1UL << (bit % 64);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetCpuAffinityWithinScope(nvmlDevice_t device, unsigned words,
                                                             unsigned long *set, unsigned scope)
{
    const char *list;
    ENTER_GPU(device, gpu);
    NEED(set && words);
    (void)scope;
    TRY(conf_gpu_text(gpu, "cpus", &list));
    memset(set, 0, words * sizeof *set);
    while (*list) {
        char *end;
        unsigned long first = strtoul(list, &end, 10);
        unsigned long last = *end == '-' ? strtoul(end + 1, &end, 10) : first;
        for (unsigned long cpu = first; cpu <= last; cpu++)
            set_bit(set, words, cpu);
        list = *end == ',' ? end + 1 : "";
    }
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMemoryAffinity(nvmlDevice_t device, unsigned words,
                                                     unsigned long *set, unsigned scope)
{
    unsigned node;
    ENTER_GPU(device, gpu);
    NEED(set && words);
    (void)scope;
    TRY(number_of(gpu, "numa_node", &node));
    memset(set, 0, words * sizeof *set);
    set_bit(set, words, node);
    return NVML_SUCCESS;
}
