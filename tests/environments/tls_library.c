/* SPDX-License-Identifier: MIT */
/* tls_library.c - a library that takes much of the static thread-local storage which is left for late loading. */
__attribute__((tls_model("initial-exec"))) _Thread_local char tls_library_bytes[1200] = {1};
char *tls_library_address(void);

char *tls_library_address(void)
{
    return tls_library_bytes;
}
