/* SPDX-License-Identifier: MIT */
/* dlopen_modes.c LIBSHARDMM.SO TLS_LIBRARY - the library loaded late, in each way in which that can be said, after
 * libraries that take static thread-local storage. The process's own malloc stays the C library's: what it made
 * before is freed by it afterwards, and what ShardMM made is ShardMM's, in threads of before and of after. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCKS = 300 };

static void *(*take)(size_t);
static void *(*resize)(void *, size_t);
static void (*give)(void *);
static int (*verify)(void);
static char *before[BLOCKS];
static pthread_barrier_t loaded;

static void look_up(void *handle, const char *name, void *function)
{
    void *const address = dlsym(handle, name);
    if (address == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        _exit(1);
    }
    memcpy(function, &address, sizeof address);
}

static void use(void)
{
    char *blocks[BLOCKS];

    for (size_t i = 0; i < BLOCKS; i++) {
        const size_t size = i % 50 == 49 ? 2000000 : i % 10 == 9 ? 100000 : i * 7;
        blocks[i] = take(size + 1);
        if (blocks[i] == NULL)
            _exit(1);
        memset(blocks[i], (int)i, size + 1);
        char *const other = strdup("the process's own");
        blocks[i] = resize(blocks[i], 2 * size + 10);
        if (blocks[i] == NULL || blocks[i][size] != (char)i)
            _exit(1);
        free(other);
    }
    for (size_t i = 0; i < BLOCKS; i++)
        give(blocks[i]);
}

static void *thread(void *unused)
{
    void *const own = malloc(1000);
    pthread_barrier_wait(&loaded);
    use();
    free(own);
    return unused;
}

static int run(const char *library, const char *tls_library, int mode)
{
    pthread_t early, late;

    if (dlopen(tls_library, RTLD_NOW) == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 2;
    }
    for (size_t i = 0; i < BLOCKS; i++)
        before[i] = malloc(i * i);
    pthread_barrier_init(&loaded, NULL, 2);
    if (pthread_create(&early, NULL, thread, NULL) != 0)
        return 2;
    void *const handle = dlopen(library, mode);
    if (handle == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    look_up(handle, "shardmm_malloc", &take);
    look_up(handle, "shardmm_realloc", &resize);
    look_up(handle, "shardmm_free", &give);
    look_up(handle, "shardmm_verify", &verify);
    for (size_t i = 0; i < BLOCKS; i++)
        before[i] = realloc(before[i], i * i + 100);
    pthread_barrier_wait(&loaded);
    if (pthread_create(&late, NULL, (void *(*)(void *))thread, NULL) != 0)
        return 2;
    use();
    pthread_barrier_wait(&loaded); /* the late one's */
    pthread_join(early, NULL);
    pthread_join(late, NULL);
    if (verify() != 0 || dlclose(handle) != 0)
        return 1;
    use();
    for (size_t i = 0; i < BLOCKS; i++)
        free(before[i]);
    return 0;
}

int main(int count, char **arguments)
{
    static const int modes[] = {
        RTLD_NOW | RTLD_LOCAL,  RTLD_LAZY | RTLD_LOCAL,    RTLD_NOW | RTLD_GLOBAL,
        RTLD_LAZY | RTLD_GLOBAL, RTLD_NOW | RTLD_DEEPBIND, RTLD_LAZY | RTLD_GLOBAL | RTLD_DEEPBIND,
    };
    int wrong = 0;

    if (count != 3)
        return 2;
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        int status = 0;
        const pid_t child = fork();
        if (child == 0) {
            alarm(20);
            exit(run(arguments[1], arguments[2], modes[i]));
        }
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
            fprintf(stderr, "mode 0x%x: status 0x%x\n", (unsigned)modes[i], (unsigned)status);
            wrong++;
        }
    }
    return wrong != 0;
}
