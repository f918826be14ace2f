/* SPDX-License-Identifier: MIT */
/* deep_binding.c PLUGIN - a program with another malloc that loads a plugin by RTLD_DEEPBIND and calls it from several
 * threads, which end then; and forks meanwhile.
 *
 * Holds off: a plugin's malloc that is half the program's and half the C library's. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../preload/which_malloc.h"

static int (*plugin)(void);

static void *thread(void *unused)
{
    (void)unused;
    for (int i = 0; i < 20; i++) {
        void *const own = malloc(5000);
        if (plugin() != 0)
            abort();
        free(own);
    }
    return NULL;
}

int main(int count, char **arguments)
{
    pthread_t ids[3];
    int status = 0;

    require_our_malloc();
    void *const handle = count == 2 ? dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND) : NULL;
    void *const address = handle != NULL ? dlsym(handle, "deep_plugin") : NULL;
    if (address == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 2;
    }
    memcpy(&plugin, &address, sizeof plugin);
    for (int i = 0; i < 3; i++)
        if (pthread_create(&ids[i], NULL, thread, NULL) != 0)
            return 2;
    for (int i = 0; i < 20; i++) {
        const pid_t child = fork();
        if (child == 0) {
            alarm(20);
            _exit(plugin());
        }
        if (waitpid(child, &status, 0) != child || status != 0) {
            fprintf(stderr, "a child had the status 0x%x\n", (unsigned)status);
            return 1;
        }
    }
    for (int i = 0; i < 3; i++)
        pthread_join(ids[i], NULL);
    return dlclose(handle) != 0;
}
