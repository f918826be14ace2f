/* SPDX-License-Identifier: MIT */
/* no_cxx_library.c - a C program under the library gets nothing of the C++ library mapped into it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "which_malloc.h"

int main(void)
{
    char line[4096];
    int found = 0, lines = 0;
    FILE *const maps = fopen("/proc/self/maps", "r");

    require_our_malloc();
    if (maps == NULL)
        return 2;
    while (fgets(line, sizeof line, maps) != NULL) {
        lines++;
        if (strstr(line, "libstdc++") != NULL || strstr(line, "libgcc_s") != NULL) {
            fputs(line, stderr);
            found = 1;
        }
    }
    fclose(maps);
    return found != 0 || lines == 0;
}
