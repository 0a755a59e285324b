/* The address space of the fake device: pointers that nobody can dereference, over memory that only the fake device
 * reaches. Two regions of equal size are mapped: one without access rights, whose addresses are handed out, and the
 * real one. */
#ifndef EO_TESTS_SUPPORT_FAKE_MEMORY_H
#define EO_TESTS_SUPPORT_FAKE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FAKE_MEMORY_BLOCKS = 4096, FAKE_ALIGNMENT = 64 };

enum fake_block_state { FAKE_LIVE, FAKE_DYING /* freed by the caller, still used by queued work */ };
struct fake_block {
    uint64_t offset, bytes;
    enum fake_block_state state;
};

struct fake_memory {
    char *alias; /* PROT_NONE: what callers see */
    char *real;
    uint64_t size;
    struct fake_block blocks[FAKE_MEMORY_BLOCKS]; /* by offset */
    int n_blocks;
};

bool fake_memory_init(struct fake_memory *m, uint64_t size);
void fake_memory_fini(struct fake_memory *m);
/* First fit; the contents are 0xFF bytes (NaN in every float dtype), so that reading them shows. NULL when full. */
void *fake_memory_alloc(struct fake_memory *m, uint64_t bytes);
/* Takes a live block out of use: it can be named no more, but is not handed out again before fake_memory_release. False
 * when no live block of this size starts there. */
bool fake_memory_retire(struct fake_memory *m, const void *alias, uint64_t bytes);
void fake_memory_release(struct fake_memory *m, const void *alias);
/* The real memory behind bytes at alias, NULL when they are not all inside one live block. 0 bytes at NULL give NULL
 * too. */
void *fake_memory_real(const struct fake_memory *m, const void *alias, uint64_t bytes);
int fake_memory_live(const struct fake_memory *m);

#endif
