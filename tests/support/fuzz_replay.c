/* The ordinary main of every fuzz target: replays its corpus under any compiler, so that a crash once found stays
 * found.
 *
 * Usage: test_fuzz_NAME FILE-or-FOLDER...
 * Each input is run as it is, cut short at every length (at most MAX_CUTS of them, spread evenly), and with single
 * bytes changed by a fixed generator: cheap hostile neighbours of valid input, the same in every run. Under libFuzzer
 * this file is left out. */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_CUTS = 256, N_MUTANTS = 256, INPUT_LIMIT = 1 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t n_runs;

/* xorshift64*: Vigna, "An experimental exploration of Marsaglia's xorshift generators, scrambled", 2016. */
static uint64_t next_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(2685821657736338717);
}

/* Each run gets a heap copy of exactly the input's size, so that a read past the end is seen by AddressSanitizer. */
static int run_copy(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size > 0 ? size : 1);

    if (copy == NULL) {
        return -1;
    }
    if (size > 0) {
        memcpy(copy, data, size);
    }
    (void)LLVMFuzzerTestOneInput(copy, size);
    free(copy);
    n_runs++;
    return 0;
}

static int run_neighbours(uint8_t *data, size_t size)
{
    size_t step = size / MAX_CUTS + 1;
    uint64_t random = UINT64_C(0x9E3779B97F4A7C15) + size;

    for (size_t cut = 0; cut < size; cut += step) {
        if (run_copy(data, cut) != 0) {
            return -1;
        }
    }
    for (int i = 0; size > 0 && i < N_MUTANTS; i++) {
        size_t at = (size_t)(next_random(&random) % size);
        uint8_t old = data[at];

        /* Bit flips, and the values that lengths and type bytes turn on. */
        static const uint8_t edges[] = {0x00, 0x01, 0x7f, 0x80, 0xc0, 0xdd, 0xdf, 0xff};
        uint64_t pick = next_random(&random);
        data[at] = (uint8_t)((pick & 1) != 0 ? old ^ (1U << (pick >> 8) % 8) : edges[(pick >> 8) % sizeof(edges)]);
        int failed = run_copy(data, size);
        data[at] = old;
        if (failed != 0) {
            return -1;
        }
    }
    return 0;
}

static int replay_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(INPUT_LIMIT);
    int result = -1;

    if (file != NULL && data != NULL) {
        size_t size = fread(data, 1, INPUT_LIMIT, file);
        if (ferror(file) == 0 && run_copy(data, size) == 0 && run_neighbours(data, size) == 0) {
            result = 0;
        }
    }
    if (result != 0) {
        fprintf(stderr, "fuzz_replay: %s: %s\n", path, strerror(errno));
    }
    free(data);
    if (file != NULL) {
        fclose(file);
    }
    return result;
}

static int replay(const char *path, unsigned *n_files)
{
    struct stat st;

    if (stat(path, &st) != 0) {
        fprintf(stderr, "fuzz_replay: %s: %s\n", path, strerror(errno));
        return -1;
    }
    if (!S_ISDIR(st.st_mode)) {
        ++*n_files;
        return replay_file(path);
    }
    struct dirent **entries = NULL;
    int n = scandir(path, &entries, NULL, alphasort);
    int result = n < 0 ? -1 : 0;
    for (int i = 0; i < n; i++) {
        char child[4096];
        int length = snprintf(child, sizeof(child), "%s/%s", path, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.' && result == 0) {
            result = length < (int)sizeof(child) ? replay(child, n_files) : -1;
        }
        free(entries[i]);
    }
    free(entries);
    return result;
}

int main(int argc, char **argv)
{
    unsigned n_files = 0;

    if (run_copy(NULL, 0) != 0) {
        return 1;
    }
    for (int i = 1; i < argc; i++) {
        if (replay(argv[i], &n_files) != 0) {
            return 1;
        }
    }
    printf("fuzz_replay: %u inputs, %llu runs\n", n_files, (unsigned long long)n_runs);
    if (n_files == 0) {
        fprintf(stderr, "fuzz_replay: no input: a corpus without files proves nothing\n");
        return 1;
    }
    return 0;
}
