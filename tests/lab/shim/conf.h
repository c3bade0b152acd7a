/* The scenario as the guest's firmware wrote it: lines of key=value, loaded once, looked up by key.
 * A value that starts with '!' is an NVML return code to give instead. */
#ifndef B200_LAB_CONF_H
#define B200_LAB_CONF_H

#include <stdbool.h>

#include "abi.h"

#define DEFAULT_CONF "/run/b200-lab/nvml.conf"

nvmlReturn_t conf_load(const char *path);

/* Says another value from now on, also to later processes; in a file of its own, which a boot forgets. */
nvmlReturn_t conf_keep(const char *key, const char *value);
void conf_free(void);

/* The text of `key`, or NULL when the scenario does not say. */
const char *conf_text(const char *key);

/* Whether there is a line for this reading of one GPU, be it a return code. */
bool conf_gpu_says(int gpu, const char *key);

/* One GPU's reading: `gpu.INDEX.KEY`, else `gpu.*.KEY`; NOT_SUPPORTED when neither is there. */
nvmlReturn_t conf_gpu_text(int gpu, const char *key, const char **text);
nvmlReturn_t conf_gpu_number(int gpu, const char *key, long long *number);

#endif
