#include "daemon/formats/gunzip.h"

#include <stdlib.h>

#if EO_HAVE_ZLIB
#include <zlib.h>

struct gunzip {
    z_stream z;
    const char *name;
    bool between_members; /* a member ended; more input starts another */
};

int gunzip_new(const char *name, struct gunzip **out, struct eo_error *err)
{
    struct gunzip *g = calloc(1, sizeof(*g));

    if (g == NULL) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory to unpack %s", name);
    }
    g->name = name;
    /* 15 bits of window, 16: a gzip header is demanded. */
    if (inflateInit2(&g->z, 15 + 16) != Z_OK) {
        free(g);
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory to unpack %s", name);
    }
    *out = g;
    return EO_OK;
}

void gunzip_free(struct gunzip *g)
{
    if (g != NULL) {
        inflateEnd(&g->z);
        free(g);
    }
}

static int clip_uint(size_t n)
{
    return n > (1u << 30) ? (1 << 30) : (int)n;
}

int gunzip_run(struct gunzip *g, const uint8_t **in, size_t *in_size, uint8_t *out, size_t size, size_t *out_n,
               bool *out_end, struct eo_error *err)
{
    *out_n = 0;
    *out_end = false;
    while (*out_n < size) {
        int status;

        if (g->between_members) {
            if (*in_size == 0) {
                *out_end = true;
                return EO_OK;
            }
            inflateReset(&g->z);
            g->between_members = false;
        }
        /* Called without input too: output that did not fit last time may be waiting.
         * next_in is not const in old releases of zlib, although it never writes there. */
        g->z.next_in = (z_const Bytef *)(uintptr_t)*in;
        g->z.avail_in = (uInt)clip_uint(*in_size);
        g->z.next_out = out + *out_n;
        g->z.avail_out = (uInt)clip_uint(size - *out_n);
        status = inflate(&g->z, Z_NO_FLUSH);
        *in_size -= (size_t)(g->z.next_in - *in);
        *in = g->z.next_in;
        *out_n = (size_t)(g->z.next_out - out);
        if (status == Z_STREAM_END) {
            g->between_members = true;
        } else if (status == Z_BUF_ERROR) {
            return EO_OK; /* wants input */
        } else if (status == Z_MEM_ERROR) {
            return EO_RAISE(err, EO_E_NO_MEMORY, "no memory to unpack %s", g->name);
        } else if (status != Z_OK) {
            EO_RAISE(err, EO_E_BAD_FILE, "%s is damaged: gzip data do not unpack (%s)", g->name,
                     g->z.msg != NULL ? g->z.msg : "no progress");
            eo_error_hint(err, "Fetch the file again; `gzip -t FILE` checks it.");
            return EO_E_BAD_FILE;
        }
    }
    *out_end = g->between_members && *in_size == 0;
    return EO_OK;
}

#else

int gunzip_new(const char *name, struct gunzip **out, struct eo_error *err)
{
    *out = NULL;
    EO_RAISE(err, EO_E_UNSUPPORTED, "%s is packed with gzip, and this build has no zlib", name);
    eo_error_hint(err, "Unpack the file with gunzip, or build with EO_WITH_ZLIB=ON.");
    return EO_E_UNSUPPORTED;
}

void gunzip_free(struct gunzip *g)
{
    free(g);
}

int gunzip_run(struct gunzip *g, const uint8_t **in, size_t *in_size, uint8_t *out, size_t size, size_t *out_n,
               bool *out_end, struct eo_error *err)
{
    EO_UNUSED(g);
    EO_UNUSED(in);
    EO_UNUSED(in_size);
    EO_UNUSED(out);
    EO_UNUSED(size);
    EO_UNUSED(out_n);
    EO_UNUSED(out_end);
    return EO_BUG(err, "gunzip_run without zlib");
}

#endif
