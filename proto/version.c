#include "proto/version.h"

#ifdef __clang__
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

const char *eo_version(void)
{
    return EO_VERSION;
}

const char *eo_commit(void)
{
    return EO_COMMIT;
}

const char *eo_build(void)
{
    return EO_VERSION " (" EO_COMMIT ")";
}

const char *eo_compiler(void)
{
    return COMPILER;
}
