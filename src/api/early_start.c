/* SPDX-License-Identifier: MIT */
/* early_start.c - the shared library before the dynamic linker has finished.
 *
 * A program's IFUNC resolvers run while the program is being bound, and may call malloc(). This library is bound by
 * then, but the initial values of thread-local variables are copied only at the end: smm_heap_self is still null,
 * for which the fast paths have no test. So a resolver of the library's own, which runs at the end of its own
 * binding, gives the variable its value. The linker does so once more at its end; the heap that the thread may
 * have by then is found again (heap.c).
 *
 * Not in the static libraries: in a static program there is no thread-local storage at that time, and the C
 * library's own malloc cannot be called either.
 */
#include "heap/heap.h"

#if defined(__GLIBC__) && !SMM_TLS_DYNAMIC

static void nothing(void)
{
}

__attribute__((used)) static void (*resolve(void))(void)
{
    if (smm_heap_self == NULL)
        smm_heap_self = &smm_empty_heap;
    return nothing;
}

void smm_early_start(void) __attribute__((ifunc("resolve"), visibility("hidden")));

/* Bound with the library, which is what calls the resolver. */
__attribute__((used)) static void (*const volatile bound)(void) = smm_early_start;

#endif
