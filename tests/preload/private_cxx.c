/* SPDX-License-Identifier: MIT */
/* private_cxx.c PLUGIN.SO - a C program that loads a C++ library for that library's own use (RTLD_LOCAL), as Python
 * does with its extensions.
 *
 * The C++ run-time library is in the process then, but not where the weak names look that the preloaded library
 * has of it: a failing operator new must find what it throws with, and the new handler, all the same.
 */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "which_malloc.h"

typedef int plugin_fn(size_t);

int main(int count, char **arguments)
{
    static const size_t impossible[] = {(size_t)1 << 47, PTRDIFF_MAX};
    static const size_t possible[] = {1, 100, 20000, 5000000};
    void *const plugin = count == 2 ? dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    void *const address = plugin != NULL ? dlsym(plugin, "plugin_run") : NULL;
    plugin_fn *run;
    int failures = 0;

    require_our_malloc();
    if (address == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 2;
    }
    if (dlsym(RTLD_DEFAULT, "_ZSt17__throw_bad_allocv") != NULL) {
        fputs("the C++ library is visible to all: nothing is tested\n", stderr);
        return 2;
    }
    memcpy(&run, &address, sizeof address);
    for (size_t i = 0; i < sizeof impossible / sizeof impossible[0]; i++)
        failures += run(impossible[i]);
    for (size_t i = 0; i < sizeof possible / sizeof possible[0]; i++)
        failures += run(possible[i]);
    return failures != 0;
}
