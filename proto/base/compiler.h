/* Attributes of the two supported compilers (gcc, clang) under short names. */
#ifndef EO_PROTO_BASE_COMPILER_H
#define EO_PROTO_BASE_COMPILER_H

#define EO_PRINTF(fmt_index, first_arg) __attribute__((format(printf, fmt_index, first_arg)))
#define EO_MUST_CHECK __attribute__((warn_unused_result))
#define EO_COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define EO_UNUSED(x) ((void)(x))
#define EO_MIN(a, b) ((a) < (b) ? (a) : (b))
#define EO_MAX(a, b) ((a) > (b) ? (a) : (b))

#endif
