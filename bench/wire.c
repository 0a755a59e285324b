/* Round trips and throughput through a private everyod on loopback: ping, a 4 x 4 product with its result read, many
 * products in flight, bytes up and down. A client that sleeps in poll pays the wake-up of an idle CPU (some 50 us on
 * virtual machines); one that looks for 50 us first shows what the daemon itself costs. Prints min, median and 99 % of
 * each.
 *
 * Usage: EO_BIN_DIR=build/release/bin bench_wire [unix] */
#include "proto/base/clock.h"
#include "tests/support/daemon_fixture.h"
#include "tests/support/raw_client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { N = 20000, WARM = 2000, IN_FLIGHT = 64, CHUNK = 4 << 20, N_CHUNKS = 16 };

static struct daemon_fixture daemon_;
static struct raw_client client;
static uint64_t times[N];

static int by_value(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

static void show(const char *what, size_t n)
{
    qsort(times, n, sizeof(times[0]), by_value);
    printf("%-44s min %7.2f  median %7.2f  p99 %7.2f us\n", what, (double)times[0] / 1e3, (double)times[n / 2] / 1e3,
           (double)times[n * 99 / 100] / 1e3);
}

static void die(const char *what, const struct eo_error *err)
{
    fprintf(stderr, "bench_wire: %s: %s\n", what, err->message);
    daemon_remove(&daemon_);
    exit(1);
}

/* The frame of the request that was packed, and its bytes. */
static void send_packed(void)
{
    struct eo_error err = {0};
    if (raw_send(&client, NULL, 0, &err) != EO_OK) {
        die("sending", &err);
    }
}

/* Reads exactly size bytes, sleeping or looking. */
static void receive_bytes(void *out, size_t size, bool spins)
{
    size_t used = 0;
    struct eo_error err = {0};
    while (spins && used < size) {
        ssize_t n = recv(client.channel.fd, (char *)out + used, size - used, MSG_DONTWAIT);
        if (n > 0) {
            used += (size_t)n;
        } else if (n == 0 || errno != EAGAIN) {
            EO_RAISE(&err, EO_E_CONNECTION_LOST, "the daemon has gone");
            die("receiving", &err);
        }
    }
    if (!spins && eo_channel_read_full(&client.channel, out, size, 0, &err) != EO_OK) {
        die("receiving", &err);
    }
}

/* One answer, thrown away after a look at its error. */
static void receive(bool spins)
{
    static uint8_t bytes[CHUNK + 65536];
    struct eo_frame_header h;
    struct eo_error err = {0};
    uint8_t header[EO_FRAME_HEADER_SIZE];
    receive_bytes(header, sizeof(header), spins);
    if (eo_frame_decode(header, CHUNK, &h, &err) != EO_OK) {
        die("receiving", &err);
    }
    receive_bytes(bytes, h.envelope_size + (size_t)h.payload_size, spins);
    struct eo_doc doc;
    struct eo_envelope e;
    if (eo_envelope_parse(&doc, &e, bytes, h.envelope_size, &err) != EO_OK) {
        die("receiving", &err);
    }
    if (e.error) {
        EO_RAISE(&err, EO_E_INTERNAL, "the daemon answered with an error");
        die("answer", &err);
    }
    eo_doc_fini(&doc);
}

static void pack_download(uint32_t slot, uint32_t generation, uint64_t offset, uint64_t size)
{
    struct eo_bytes *b = raw_request(&client, "tensor.download");
    eo_pack_map(b, 3);
    eo_pack_str(b, "handle");
    raw_pack_handle(b, slot, generation);
    eo_pack_kv_u64(b, "offset", offset);
    eo_pack_kv_u64(b, "size", size);
}

static void pack_free(uint32_t slot, uint32_t generation)
{
    struct eo_bytes *b = raw_request(&client, "tensor.free");
    eo_pack_map(b, 1);
    eo_pack_str(b, "handles");
    eo_pack_array(b, 1);
    raw_pack_handle(b, slot, generation);
}

static void ping(bool spins)
{
    for (int i = -WARM; i < N; i++) {
        uint64_t start = eo_now_ns();
        eo_pack_map(raw_request(&client, "ping"), 0);
        send_packed();
        receive(spins);
        if (i >= 0) {
            times[i] = eo_now_ns() - start;
        }
    }
    show(spins ? "ping, client looks" : "ping, client sleeps", N);
}

/* op.run and the read of its result, sent together, as a client that wants a value does. */
static void product(bool spins, uint32_t *generation)
{
    for (int i = -WARM; i < N; i++) {
        uint64_t start = eo_now_ns();
        raw_pack_op(&client, "matmul", (uint32_t[]){0, 0}, 2, 1, ++*generation);
        send_packed();
        pack_download(1, *generation, 0, 64);
        send_packed();
        receive(spins);
        receive(spins);
        if (i >= 0) {
            times[i] = eo_now_ns() - start;
        }
        pack_free(1, *generation);
        send_packed();
        receive(spins);
    }
    show(spins ? "4x4 matmul and its 64 bytes, client looks" : "4x4 matmul and its 64 bytes, client sleeps", N);
}

/* Many in flight: what one costs when nobody waits for it. */
static void pipelined(uint32_t *generation)
{
    uint64_t start = eo_now_ns();
    int sent = 0, received = 0;
    while (received < 2 * N) {
        if (sent < 2 * N && sent - received < IN_FLIGHT) {
            raw_pack_op(&client, "matmul", (uint32_t[]){0, 0}, 2, 1, ++*generation);
            send_packed();
            pack_free(1, *generation);
            send_packed();
            sent += 2;
        } else {
            receive(false);
            received++;
        }
    }
    printf("%-44s %.2f us each\n", "4x4 matmul and free, many in flight", (double)(eo_now_ns() - start) / 1e3 / N);
}

static void transfer(void)
{
    struct eo_error err = {0};
    static uint8_t chunk[CHUNK];
    for (int round = 0; round < 3; round++) { /* the first one takes the pages */
        uint64_t start = eo_now_ns();
        for (uint64_t i = 0; i < N_CHUNKS; i++) {
            struct eo_bytes *b = raw_request(&client, i == 0 && round == 0 ? "tensor.create" : "tensor.upload");
            if (i == 0 && round == 0) {
                eo_pack_map(b, 3);
                eo_pack_str(b, "handle");
                raw_pack_handle(b, 2, 1);
                eo_pack_kv_str(b, "dtype", "uint8");
                eo_pack_str(b, "shape");
                eo_pack_i64_array(b, (int64_t[]){CHUNK * (int64_t)N_CHUNKS}, 1);
            } else {
                eo_pack_map(b, 2);
                eo_pack_str(b, "handle");
                raw_pack_handle(b, 2, 1);
                eo_pack_kv_u64(b, "offset", i * CHUNK);
            }
            if (raw_send(&client, chunk, CHUNK, &err) != EO_OK) {
                die("upload", &err);
            }
            receive(false);
        }
        double up = (double)CHUNK * N_CHUNKS / (double)(eo_now_ns() - start);
        start = eo_now_ns();
        for (uint64_t i = 0; i < N_CHUNKS; i++) {
            pack_download(2, 1, i * CHUNK, CHUNK);
            send_packed();
        }
        for (int i = 0; i < N_CHUNKS; i++) {
            receive(false);
        }
        printf("64 MiB in 4 MiB chunks, round %d%15s up %.2f GB/s, down %.2f GB/s\n", round + 1, "", up,
               (double)CHUNK * N_CHUNKS / (double)(eo_now_ns() - start));
    }
}

int main(int argc, char **argv)
{
    struct eo_error err = {0};
    const char *const local[] = {"--listen", "unix:$DIR/socket", NULL};
    const float x[16] = {1};
    uint32_t generation = 0;
    bool by_unix = argc > 1 && strcmp(argv[1], "unix") == 0;
    if (daemon_init(&daemon_, &err) != EO_OK || daemon_start(&daemon_, by_unix ? local : NULL, &err) != EO_OK ||
        raw_open(&client, &daemon_.endpoint, &err) != EO_OK ||
        raw_create(&client, 0, 1, (int64_t[]){4, 4}, 2, x, &err) != EO_OK) {
        die("starting", &err);
    }
    printf("everyod on %s, ready %.1f ms after exec\n", by_unix ? "a unix socket" : "TCP loopback",
           (double)daemon_.ready_ns / 1e6);
    ping(false);
    ping(true);
    product(false, &generation);
    product(true, &generation);
    pipelined(&generation);
    transfer();
    raw_close(&client);
    if (daemon_stop(&daemon_, &err) != EO_OK) {
        die("stopping", &err);
    }
    daemon_remove(&daemon_);
    return 0;
}
