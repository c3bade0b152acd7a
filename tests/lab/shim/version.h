/* The one thing that differs between builds: which driver this library came with (-DLIBRARY_VERSION=...). */
#ifndef B200_LAB_VERSION_H
#define B200_LAB_VERSION_H

extern const char library_version[];
extern const int cuda_version;

#endif
