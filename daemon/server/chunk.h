/* A chunk of a file as the answer to a request: what blob.get, job.read and model.read have in common. */
#ifndef EO_DAEMON_SERVER_CHUNK_H
#define EO_DAEMON_SERVER_CHUNK_H

#include "daemon/server/connection.h"

/* Answers r, whose params hold offset and size, with {total} and the bytes as payload, less at the end of the file;
 * read on a file thread. The file is path, or fd when that is not -1 (taken over, in any case). Only regular files, no
 * links. Errors: BAD_PARAMS, NO_MEMORY; later ones (NO_FILE, IO) are the answer. */
int chunk_answer(struct request *r, const char *path, int fd, struct eo_error *err);

#endif
