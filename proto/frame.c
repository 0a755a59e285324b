#include "proto/frame.h"

#include <inttypes.h>
#include <string.h>

static void put_le(uint8_t *to, uint64_t v, int n_bytes)
{
    for (int i = 0; i < n_bytes; i++) {
        to[i] = (uint8_t)(v >> (8 * i));
    }
}

static uint64_t get_le(const uint8_t *from, int n_bytes)
{
    uint64_t v = 0;

    for (int i = 0; i < n_bytes; i++) {
        v |= (uint64_t)from[i] << (8 * i);
    }
    return v;
}

void eo_frame_encode(const struct eo_frame_header *h, uint8_t out[EO_FRAME_HEADER_SIZE])
{
    out[0] = 'E';
    out[1] = 'O';
    out[2] = EO_FRAME_VERSION;
    out[3] = h->flags;
    put_le(out + 4, h->envelope_size, 4);
    put_le(out + 8, h->payload_size, 8);
}

/* Who talks to the wrong port deserves to hear which protocol was recognised. */
static const char *stranger(const uint8_t *in)
{
    static const struct {
        const char *start;
        size_t length;
        const char *name;
    } known[] = {
        {"GET ", 4, "an HTTP request"},   {"POST", 4, "an HTTP request"}, {"HEAD", 4, "an HTTP request"},
        {"HTTP", 4, "an HTTP answer"},    {"\x16\x03", 2, "TLS"},         {"SSH-", 4, "SSH"},
        {"PRI ", 4, "an HTTP/2 request"},
    };

    for (size_t i = 0; i < EO_COUNT_OF(known); i++) {
        if (memcmp(in, known[i].start, known[i].length) == 0) {
            return known[i].name;
        }
    }
    return NULL;
}

static int bad_magic(const uint8_t *in, struct eo_error *err)
{
    const char *name = stranger(in);
    char start[64];

    eo_quote((const char *)in, 8, start, sizeof(start));
    EO_RAISE(err, EO_E_BAD_FRAME, "a frame starts with \"EO\", these bytes with %s%s%s", start,
             name == NULL ? "" : ", which looks like ", name == NULL ? "" : name);
    eo_error_hint(err, "Check host and port on both sides: the other end does not speak the EveryO protocol here.");
    return EO_E_BAD_FRAME;
}

int eo_frame_decode(const uint8_t in[EO_FRAME_HEADER_SIZE], uint64_t payload_limit, struct eo_frame_header *out,
                    struct eo_error *err)
{
    uint32_t envelope_size = (uint32_t)get_le(in + 4, 4);
    uint64_t payload_size = get_le(in + 8, 8);

    if (in[0] != 'E' || in[1] != 'O') {
        return bad_magic(in, err);
    }
    if (in[2] != EO_FRAME_VERSION) {
        EO_RAISE(err, EO_E_BAD_FRAME, "frame version is %d, this side knows %d", in[2], EO_FRAME_VERSION);
        eo_error_hint(err, "Upgrade the older of client and daemon; `everyo version` shows both.");
        return EO_E_BAD_FRAME;
    }
    if (in[3] != 0) {
        return EO_RAISE(err, EO_E_BAD_FRAME, "frame flags are 0x%02x, this version defines none", in[3]);
    }
    if (envelope_size == 0) {
        return EO_RAISE(err, EO_E_BAD_FRAME, "frame has an empty envelope");
    }
    if (envelope_size > EO_ENVELOPE_MAX) {
        return EO_RAISE(err, EO_E_FRAME_TOO_LARGE, "envelope of %" PRIu32 " bytes, the limit is %d", envelope_size,
                        EO_ENVELOPE_MAX);
    }
    if (payload_size > payload_limit) {
        EO_RAISE(err, EO_E_FRAME_TOO_LARGE, "payload of %" PRIu64 " bytes, the limit is %" PRIu64, payload_size,
                 payload_limit);
        eo_error_hint(err, "Send it in chunks no larger than the limit that hello gave.");
        return EO_E_FRAME_TOO_LARGE;
    }
    out->flags = in[3];
    out->envelope_size = envelope_size;
    out->payload_size = payload_size;
    return EO_OK;
}
