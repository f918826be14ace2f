/* SPDX-License-Identifier: MIT */
/* stats_at_exit.c - where the statistics at exit go in programs that rearrange their files: to the standard error
 * that there was at the start, also when the program has closed its own, and never into a file of the program's
 * that got the number under which the library keeps it.
 *
 * Starts itself anew for each, with a pipe as standard error.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "which_malloc.h"

static const char closes_stderr[] = "closes-stderr";
static const char takes_all_numbers[] = "takes-all-numbers";

static const char data[] = "data of the program\n";

/* What the program that was started does; the second word is the file. */
static int act(const char *what, const char *path)
{
    free(malloc(10));
    if (strcmp(what, closes_stderr) == 0)
        return close(STDERR_FILENO) != 0;
    /* As daemons do. Each number up to far beyond what the library may have used is then this file. */
    int file = -1;
    for (int i = STDERR_FILENO + 1; i < 1024; i++)
        (void)close(i);
    while (file < 400) {
        file = open(path, O_RDWR | O_APPEND);
        if (file < 0)
            return 2;
    }
    return write(file, data, sizeof data - 1) != sizeof data - 1;
}

/* Starts the program, and stores what it wrote to standard error. */
static int start(const char *what, const char *path, char *said, size_t size)
{
    int ends[2];
    int status = 0;
    size_t length = 0;
    ssize_t part;

    if (pipe(ends) != 0)
        return 2;
    const pid_t child = fork();
    if (child == 0) {
        if (dup2(ends[1], STDERR_FILENO) < 0 || close(ends[0]) != 0 || close(ends[1]) != 0 ||
            setenv("SHARDMM_STATS", "text", 1) != 0)
            _exit(2);
        execl("/proc/self/exe", "stats_at_exit", what, path, (char *)NULL);
        _exit(2);
    }
    close(ends[1]);
    while (length < size - 1 && (part = read(ends[0], said + length, size - 1 - length)) > 0)
        length += (size_t)part;
    said[length] = 0;
    close(ends[0]);
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
        fprintf(stderr, "%s: status 0x%x\n", what, (unsigned)status);
        return 1;
    }
    return 0;
}

int main(int count, char **arguments)
{
    static char said[65536];
    static char kept[65536];
    char path[] = "/tmp/shardmm-stats-XXXXXX";
    int failures = 0;

    require_our_malloc();
    if (count == 3)
        return act(arguments[1], arguments[2]);

    const int file = mkstemp(path);
    if (file < 0)
        return 2;
    failures += start(closes_stderr, path, said, sizeof said);
    if (strstr(said, "committed now") == NULL) {
        fprintf(stderr, "no statistics after standard error was closed, but:\n%s", said);
        failures++;
    }
    failures += start(takes_all_numbers, path, said, sizeof said);
    const ssize_t length = read(file, kept, sizeof kept - 1);
    kept[length > 0 ? length : 0] = 0;
    if (strcmp(kept, data) != 0) {
        fprintf(stderr, "the file of the program holds:\n%s", kept);
        failures++;
    }
    close(file);
    unlink(path);
    return failures != 0;
}
