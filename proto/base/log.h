/* Log lines on stderr: text `2026-11-30T13:45:40.123Z info  server: listening ...` or one JSON object a line, with a
 * "<n>" priority prefix when stderr is the journal. Only programs log (everyod, everyod-worker, the CLI); libraries
 * return errors. No payloads, no secrets. Thread-safe: each line is one write(2). */
#ifndef EO_PROTO_BASE_LOG_H
#define EO_PROTO_BASE_LOG_H

#include "proto/base/compiler.h"

struct eo_error;

enum eo_log_level { EO_LOG_DEBUG, EO_LOG_INFO, EO_LOG_WARN, EO_LOG_ERROR };
enum eo_log_format { EO_LOG_TEXT, EO_LOG_JSON };

void eo_log_setup(enum eo_log_level level, enum eo_log_format format);
void eo_log(enum eo_log_level level, const char *component, const char *fmt, ...) EO_PRINTF(3, 4);
void eo_log_error(const char *component, const struct eo_error *err); /* the JSON or one-line form of an error */

#endif
