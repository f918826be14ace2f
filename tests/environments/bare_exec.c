/* SPDX-License-Identifier: MIT */
/* bare_exec.c PROGRAM - runs a program without arguments, its own name among them, and without an environment. */
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int count, char **arguments)
{
    if (count == 2)
        (void)syscall(SYS_execve, arguments[1], NULL, NULL);
    return 2;
}
