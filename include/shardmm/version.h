/* SPDX-License-Identifier: MIT */
/* version.h - the version of these headers; shardmm_version() tells that of the library that runs. */
#ifndef SHARDMM_VERSION_H
#define SHARDMM_VERSION_H

#define SHARDMM_VERSION_MAJOR 0
#define SHARDMM_VERSION_MINOR 1
#define SHARDMM_VERSION_PATCH 0
#define SHARDMM_VERSION_STRING "0.1.0"

#endif
