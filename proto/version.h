/* Which EveryO this is. The version number stands in client/include/everyo/everyo.h and CMakeLists.txt (a test
 * compares). */
#ifndef EO_PROTO_VERSION_H
#define EO_PROTO_VERSION_H

const char *eo_version(void);  /* "0.1.0" */
const char *eo_commit(void);   /* "edfbd24" or "unknown" outside a checkout */
const char *eo_build(void);    /* "0.1.0 (edfbd24)" */
const char *eo_compiler(void); /* "gcc 12.2.0" */

#endif
