/* SPDX-License-Identifier: MIT */
/* libc_blocks.c - memory that the C library takes from malloc and the program frees, or the program gives and the
 * C library frees: each pair would mix two allocators if one call were not replaced. At the end the C library
 * frees all that it holds, as it does under memory checkers. */
#include <dirent.h>
#include <dlfcn.h>
#include <glob.h>
#include <iconv.h>
#include <locale.h>
#include <netdb.h>
#include <obstack.h>
#include <pthread.h>
#include <regex.h>
#include <search.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <wchar.h>

#include "../preload/which_malloc.h"

#define obstack_chunk_alloc malloc
#define obstack_chunk_free free

#define REQUIRE(condition)                                                                              \
    do {                                                                                                \
        if (!(condition)) {                                                                             \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                     \
            exit(1);                                                                                    \
        }                                                                                               \
    } while (0)

static void lines(void)
{
    char *line = NULL;
    size_t size = 0;
    FILE *const file = tmpfile();

    REQUIRE(file != NULL && setvbuf(file, NULL, _IOFBF, 70000) == 0);
    for (int i = 0; i < 3000; i++)
        fputc(i % 100 == 99 ? '\n' : 'a', file);
    for (int i = 0; i < 40000; i++)
        fputc('b', file);
    rewind(file);
    /* A buffer of the program's that getline() resizes. */
    line = malloc(1);
    size = 1;
    while (getline(&line, &size, file) == 100) {
    }
    REQUIRE(strlen(line) == 40000 && size > 40000);
    free(line);
    line = NULL;
    rewind(file);
    REQUIRE(getdelim(&line, &size, 'b', file) == 3001);
    free(line);
    fclose(file);

    char *text = NULL;
    FILE *memory = open_memstream(&text, &size);
    REQUIRE(memory != NULL && fprintf(memory, "%5000d", 1) == 5000 && fclose(memory) == 0);
    wchar_t *wide = NULL;
    memory = open_wmemstream(&wide, &size);
    REQUIRE(memory != NULL && fputws(L"wide", memory) >= 0 && fclose(memory) == 0 && wcslen(wide) == 4);
    char *scanned = NULL;
    REQUIRE(sscanf(text, "%ms", &scanned) == 1 && strcmp(scanned, "1") == 0);
    memory = fmemopen(NULL, 100, "w+");
    REQUIRE(memory != NULL && fclose(memory) == 0);
    free(scanned);
    free(text);
    free(wide);
}

static void strings(void)
{
    char *printed = NULL;
    wchar_t *const wide = wcsdup(L"wide");
    char *const path = realpath("/usr/../usr/.", NULL);
    char *const exact = malloc(4097);
    char *const here = getcwd(NULL, 0);
    char *const here_long = getcwd(NULL, 10000);

    REQUIRE(asprintf(&printed, "%0*d", 20000, 7) == 20000);
    REQUIRE(wide != NULL && path != NULL && strcmp(path, "/usr") == 0 && here != NULL && here_long != NULL);
    REQUIRE(exact != NULL && realpath("/usr", exact) == exact);
    free(printed);
    free(wide);
    free(path);
    free(exact);
    free(here);
    free(here_long);
    free(strdup("copy"));
    free(strndup("copy", 2));
    free(get_current_dir_name());
}

static void environment(void)
{
    char name[100], value[3000];

    memset(value, 'v', sizeof value - 1);
    value[sizeof value - 1] = 0;
    for (int i = 0; i < 300; i++) {
        snprintf(name, sizeof name, "SMM_TEST_%d", i % 150);
        REQUIRE(setenv(name, value, 1) == 0);
    }
    REQUIRE(unsetenv("SMM_TEST_7") == 0 && getenv("SMM_TEST_8") != NULL);
    REQUIRE(putenv(strdup("SMM_TEST_8=x")) == 0);
    REQUIRE(clearenv() == 0 && setenv("A", "b", 1) == 0);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void tables(void)
{
    struct dirent **entries = NULL;
    const int count = scandir("/", &entries, NULL, alphasort);
    REQUIRE(count > 2);
    for (int i = 0; i < count; i++)
        free(entries[i]);
    free(entries);

    glob_t found;
    REQUIRE(glob("/[a-z]*", 0, NULL, &found) == 0);
    globfree(&found);
    regex_t pattern;
    REQUIRE(regcomp(&pattern, "(a|b)*c{1,40}([[:alpha:]]+)$", REG_EXTENDED) == 0);
    REQUIRE(regexec(&pattern, "ababccxyz", 0, NULL, 0) == 0);
    regfree(&pattern);

    void *root = NULL;
    for (int i = 0; i < 100; i++) {
        char *const key = malloc(10);
        snprintf(key, 10, "%d", i);
        REQUIRE(tsearch(key, &root, by_name) != NULL);
    }
    tdestroy(root, free);
    REQUIRE(hcreate(100) != 0);
    hdestroy();

    struct obstack stack;
    obstack_init(&stack);
    for (int i = 0; i < 10000; i++)
        memset(obstack_alloc(&stack, i % 50 + 1), 1, (size_t)(i % 50 + 1));
    obstack_grow(&stack, "grown", 5);
    REQUIRE(memcmp(obstack_finish(&stack), "grown", 5) == 0);
    obstack_free(&stack, NULL);

    struct addrinfo *addresses = NULL;
    const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM};
    if (getaddrinfo("127.0.0.1", "80", &hints, &addresses) == 0)
        freeaddrinfo(addresses);
    REQUIRE(setlocale(LC_ALL, "") != NULL || setlocale(LC_ALL, "C") != NULL);
    const locale_t locale = newlocale(LC_ALL_MASK, "C.UTF-8", (locale_t)0);
    if (locale != (locale_t)0)
        freelocale(locale);
    const iconv_t converter = iconv_open("UTF-16", "UTF-8");
    if (converter != (iconv_t)-1)
        iconv_close(converter);
    char *const words = calloc(50000, 8); /* more than qsort() takes from the stack */
    for (size_t i = 0; i < 50000; i++)
        words[i * 8] = (char)('a' + i * 7919 % 26);
    qsort(words, 50000, 8, by_name);
    REQUIRE(words[0] == 'a' && words[49999 * 8] == 'z');
    free(words);
    REQUIRE(dlopen("/no/such/library", RTLD_NOW) == NULL && dlerror() != NULL);
}

/* An error of dlopen() belongs to its thread, and is freed when that ends, after all destructors. */
static void *thread(void *unused)
{
    for (int i = 0; i < 5; i++)
        REQUIRE(dlopen("/no/such/library/either", RTLD_NOW) == NULL && dlerror() != NULL);
    strings();
    REQUIRE(dlopen("/nor/this", RTLD_NOW) == NULL);
    return unused;
}

static void processes(void)
{
    static char name[] = "true";
    char *const arguments[] = {name, NULL};
    char *const environment_of_it[] = {NULL};
    posix_spawn_file_actions_t actions;
    pid_t child;
    int status = 1;
    char line[10];

    REQUIRE(posix_spawn_file_actions_init(&actions) == 0);
    for (int i = 0; i < 50; i++)
        REQUIRE(posix_spawn_file_actions_addopen(&actions, 50 + i, "/dev/null", 0, 0) == 0);
    REQUIRE(posix_spawnp(&child, name, &actions, NULL, arguments, environment_of_it) == 0);
    REQUIRE(waitpid(child, &status, 0) == child && status == 0);
    REQUIRE(posix_spawn_file_actions_destroy(&actions) == 0);

    FILE *const pipe = popen("echo piped", "r");
    REQUIRE(pipe != NULL && fgets(line, sizeof line, pipe) != NULL && strcmp(line, "piped\n") == 0);
    REQUIRE(pclose(pipe) == 0 && system("true") == 0);

    child = vfork();
    if (child == 0) {
        execlp("true", "true", (char *)NULL);
        _exit(1);
    }
    REQUIRE(child > 0 && waitpid(child, &status, 0) == child && status == 0);
}

int main(void)
{
    pthread_t ids[3];
    void *result = &result;
    void *const free_all = dlsym(RTLD_DEFAULT, "__libc_freeres");
    void (*call)(void);

    require_our_malloc();
    lines();
    strings();
    tables();
    for (int i = 0; i < 3; i++)
        REQUIRE(pthread_create(&ids[i], NULL, thread, NULL) == 0);
    processes();
    for (int i = 0; i < 3; i++)
        REQUIRE(pthread_join(ids[i], &result) == 0 && result == NULL);
    environment();
    if (free_all != NULL) {
        memcpy(&call, &free_all, sizeof call);
        call();
        _exit(0);
    }
    return 0;
}
