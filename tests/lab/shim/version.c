#include "version.h"

#ifndef LIBRARY_VERSION
#define LIBRARY_VERSION "580.126.20"
#endif
#ifndef CUDA_VERSION
#define CUDA_VERSION 13000
#endif

const char library_version[] = LIBRARY_VERSION;
const int cuda_version = CUDA_VERSION;
