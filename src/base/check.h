/* SPDX-License-Identifier: MIT */
/* check.h - the three tiers of assertions.
 *
 *     SMM_ALWAYS    in every build: cheap, and what follows would corrupt memory
 *     SMM_DEBUG     in builds with SMM_CHECKS >= 1 (meson --buildtype=debug)
 *     SMM_PARANOID  in builds with SMM_CHECKS >= 2: whole walks of a structure
 *
 * A failure prints one line and aborts. Misuse by the program is no assertion: see platform/report.h.
 */
#ifndef SMM_BASE_CHECK_H
#define SMM_BASE_CHECK_H

#include "base/compiler.h"

#ifndef SMM_CHECKS
#define SMM_CHECKS 0
#endif

/* Defined by the platform layer, which alone can write and abort. */
SMM_COLD SMM_NORETURN void smm_check_failed(const char *what, const char *file, unsigned line);

#define SMM_ALWAYS(condition)                                                                             \
    (SMM_LIKELY(condition) ? (void)0 : smm_check_failed(#condition, __FILE__, __LINE__))

#if SMM_CHECKS >= 1
#define SMM_DEBUG(condition) SMM_ALWAYS(condition)
#else
#define SMM_DEBUG(condition) ((void)sizeof(condition))
#endif

#if SMM_CHECKS >= 2
#define SMM_PARANOID(condition) SMM_ALWAYS(condition)
#else
#define SMM_PARANOID(condition) ((void)sizeof(condition))
#endif

#endif
