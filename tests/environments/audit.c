/* SPDX-License-Identifier: MIT */
/* audit.c - a library for LD_AUDIT, which the dynamic linker calls for all that it does. It has a C library and a
 * malloc of its own, in the same process. */
#define _GNU_SOURCE 1
#include <link.h>
#include <stdlib.h>
#include <string.h>

unsigned la_version(unsigned version);
unsigned la_objopen(struct link_map *map, Lmid_t space, uintptr_t *cookie);

unsigned la_version(unsigned version)
{
    free(strdup("audit"));
    return version;
}

unsigned la_objopen(struct link_map *map, Lmid_t space, uintptr_t *cookie)
{
    (void)space;
    (void)cookie;
    free(strdup(map->l_name));
    return LA_FLG_BINDTO | LA_FLG_BINDFROM;
}
