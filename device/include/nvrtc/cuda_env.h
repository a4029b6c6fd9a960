// What a kernel source includes first. NVRTC knows the language of CUDA but has no <stdint.h>: the names that kernels
// use are given here. The simulator's compiler finds a file of the same name instead of this one.
#pragma once

typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long int64_t; // as in glibc, so that overloads resolve alike
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long uint64_t;
typedef unsigned long size_t;

#define INT32_MAX 2147483647
#define INT64_MAX 9223372036854775807L
#define UINT32_MAX 4294967295u
#define UINT64_MAX 18446744073709551615ul
