#define _POSIX_C_SOURCE 200809L
#include "conf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct entry {
    char *key, *value;
    size_t order;
};

static struct entry *entries;
static size_t count, room, added;
static char kept[4096];

static int by_key(const void *left, const void *right)
{
    return strcmp(((const struct entry *)left)->key, ((const struct entry *)right)->key);
}

/* Equal keys keep the order of the file, so that the last one can win. */
static int by_key_and_order(const void *left, const void *right)
{
    const struct entry *a = left, *b = right;
    int order = strcmp(a->key, b->key);
    return order ? order : (a->order > b->order) - (a->order < b->order);
}

static int add(const char *key, const char *value)
{
    if (count == room) {
        size_t wanted = room ? room * 2 : 256;
        struct entry *grown = realloc(entries, wanted * sizeof *entries);
        if (!grown)
            return -1;
        entries = grown;
        room = wanted;
    }
    entries[count].key = strdup(key);
    entries[count].value = strdup(value);
    entries[count].order = added++;
    count++;
    return entries[count - 1].key && entries[count - 1].value ? 0 : -1;
}

/* "@1700000000 key=value" holds only from that second on: a fault that comes later. */
static char *due(char *line)
{
    if (*line != '@')
        return line;
    char *rest;
    long long from = strtoll(line + 1, &rest, 10);
    return *rest == ' ' && (long long)time(NULL) >= from ? rest + 1 : NULL;
}

static void keep_last_of_each_key(void)
{
    size_t kept = 0;
    qsort(entries, count, sizeof *entries, by_key_and_order);
    for (size_t i = 0; i < count; i++) {
        if (i + 1 < count && strcmp(entries[i].key, entries[i + 1].key) == 0) {
            free(entries[i].key);
            free(entries[i].value);
        } else {
            entries[kept++] = entries[i];
        }
    }
    count = kept;
}

/* Where what was set is kept: /dev is writable to units that may write nowhere else. */
static void kept_path(const char *path, char *out, size_t size)
{
    if (strcmp(path, DEFAULT_CONF) == 0)
        snprintf(out, size, "%s", "/dev/shm/b200-lab-nvml");
    else
        snprintf(out, size, "%s.kept", path);
}

static int add_lines(FILE *file)
{
    char *buffer = NULL;
    size_t size = 0;
    ssize_t length;
    int failed = 0;

    while ((length = getline(&buffer, &size, file)) > 0) {
        buffer[strcspn(buffer, "\r\n")] = '\0';
        char *line = due(buffer);
        char *equals = line ? strchr(line, '=') : NULL;
        if (!equals || *line == '#')
            continue;
        *equals = '\0';
        failed |= add(line, equals + 1);
    }
    free(buffer);
    fclose(file);
    return failed;
}

nvmlReturn_t conf_load(const char *path)
{
    int failed = 0;
    FILE *file = fopen(path, "re");

    conf_free();
    if (!file)
        return NVML_ERROR_DRIVER_NOT_LOADED;
    failed |= add_lines(file);
    kept_path(path, kept, sizeof kept);
    file = fopen(kept, "re");
    if (file)
        failed |= add_lines(file);
    if (count)
        keep_last_of_each_key();
    return failed ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

nvmlReturn_t conf_keep(const char *key, const char *value)
{
    FILE *file = fopen(kept, "ae");
    if (!file)
        return NVML_ERROR_NO_PERMISSION;
    fprintf(file, "%s=%s\n", key, value);
    if (fclose(file) != 0 || add(key, value) != 0)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    keep_last_of_each_key();
    return NVML_SUCCESS;
}

void conf_free(void)
{
    for (size_t i = 0; i < count; i++) {
        free(entries[i].key);
        free(entries[i].value);
    }
    free(entries);
    entries = NULL;
    count = room = 0;
}

const char *conf_text(const char *key)
{
    struct entry wanted = {.key = (char *)(uintptr_t)key};
    struct entry *found =
        count ? bsearch(&wanted, entries, count, sizeof *entries, by_key) : NULL;
    return found ? found->value : NULL;
}

static const char *gpu_value(int gpu, const char *key)
{
    char name[128];
    snprintf(name, sizeof name, "gpu.%d.%s", gpu, key);
    const char *value = conf_text(name);
    if (value)
        return value;
    snprintf(name, sizeof name, "gpu.*.%s", key);
    return conf_text(name);
}

bool conf_gpu_says(int gpu, const char *key)
{
    return gpu_value(gpu, key) != NULL;
}

nvmlReturn_t conf_gpu_text(int gpu, const char *key, const char **text)
{
    const char *value = gpu_value(gpu, key);
    if (!value)
        return NVML_ERROR_NOT_SUPPORTED;
    if (*value == '!')
        return (nvmlReturn_t)atoi(value + 1);
    *text = value;
    return NVML_SUCCESS;
}

nvmlReturn_t conf_gpu_number(int gpu, const char *key, long long *number)
{
    const char *text = "";
    nvmlReturn_t result = conf_gpu_text(gpu, key, &text);
    if (result == NVML_SUCCESS)
        *number = strtoll(text, NULL, 0);
    return result;
}
