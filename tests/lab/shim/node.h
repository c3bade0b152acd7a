/* The node as a whole: whether NVML may answer at all, and which GPU a handle means. */
#ifndef B200_LAB_NODE_H
#define B200_LAB_NODE_H

#include <stdbool.h>

#include "conf.h"

#define MAX_GPUS 64

struct device {
    int index;
};

/* First line of every call: initialised? does the scenario hang or refuse here? */
nvmlReturn_t node_enter(const char *function);

/* First line of every call on a GPU: the same, and which one; GPU_IS_LOST when it fell off the bus. */
nvmlReturn_t node_enter_gpu(const char *function, nvmlDevice_t device, int *gpu);

int node_gpu_count(void);
nvmlDevice_t node_device(int gpu);
bool node_gpu_is_lost(int gpu);

/* Whether the file the scenario names under `key` exists: how other programs' deeds are seen. */
bool node_marker(const char *key);

#define ENTER()                                       \
    do {                                              \
        nvmlReturn_t entered = node_enter(__func__);  \
        if (entered != NVML_SUCCESS)                  \
            return entered;                           \
    } while (0)

#define ENTER_GPU(device, gpu)                                        \
    int gpu = 0;                                                      \
    do {                                                              \
        nvmlReturn_t entered = node_enter_gpu(__func__, device, &gpu); \
        if (entered != NVML_SUCCESS)                                  \
            return entered;                                           \
    } while (0)

#define TRY(call)                        \
    do {                                 \
        nvmlReturn_t tried = (call);     \
        if (tried != NVML_SUCCESS)       \
            return tried;                \
    } while (0)

#define NEED(pointer)                           \
    do {                                        \
        if (!(pointer))                         \
            return NVML_ERROR_INVALID_ARGUMENT; \
    } while (0)

#endif
