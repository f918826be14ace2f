/* SPDX-License-Identifier: MIT */
/* verify.h - checks every structure against the invariants that the headers state. */
#ifndef SMM_CONTROL_VERIFY_H
#define SMM_CONTROL_VERIFY_H

/* 0 when all hold. Else says where the first one that does not is checked, on standard error, and returns
 * the line. No other thread may be in the library. */
int smm_verify(void);

#endif
