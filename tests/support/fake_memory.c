#include "tests/support/fake_memory.h"

#include <string.h>
#include <sys/mman.h>

bool fake_memory_init(struct fake_memory *m, uint64_t size)
{
    memset(m, 0, sizeof *m);
    m->size = size;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void *alias = mmap(NULL, size, PROT_NONE, flags, -1, 0);
    void *real = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, -1, 0);
    m->alias = alias == MAP_FAILED ? NULL : alias;
    m->real = real == MAP_FAILED ? NULL : real;
    if (m->alias && m->real)
        return true;
    fake_memory_fini(m);
    return false;
}

void fake_memory_fini(struct fake_memory *m)
{
    if (m->alias)
        (void)munmap(m->alias, m->size);
    if (m->real)
        (void)munmap(m->real, m->size);
    m->alias = m->real = NULL;
}

void *fake_memory_alloc(struct fake_memory *m, uint64_t bytes)
{
    uint64_t at = 0;
    int i = 0;
    if (m->n_blocks == FAKE_MEMORY_BLOCKS || bytes > m->size)
        return NULL;
    for (; i < m->n_blocks && m->blocks[i].offset - at < bytes; i++) {
        uint64_t end = m->blocks[i].offset + m->blocks[i].bytes;
        at = (end + FAKE_ALIGNMENT - 1) / FAKE_ALIGNMENT * FAKE_ALIGNMENT;
    }
    if (i == m->n_blocks && (at > m->size || m->size - at < bytes))
        return NULL;
    memmove(m->blocks + i + 1, m->blocks + i, (size_t)(m->n_blocks - i) * sizeof m->blocks[0]);
    m->blocks[i] = (struct fake_block){at, bytes, FAKE_LIVE};
    m->n_blocks++;
    memset(m->real + at, 0xFF, bytes);
    return m->alias + at;
}

static int block_at(const struct fake_memory *m, const void *alias)
{
    uint64_t offset = (uint64_t)((const char *)alias - m->alias);
    for (int i = 0; i < m->n_blocks; i++) {
        if (m->blocks[i].offset == offset)
            return i;
    }
    return -1;
}

bool fake_memory_retire(struct fake_memory *m, const void *alias, uint64_t bytes)
{
    int i = block_at(m, alias);
    if (i < 0 || m->blocks[i].state != FAKE_LIVE || m->blocks[i].bytes != bytes)
        return false;
    m->blocks[i].state = FAKE_DYING;
    return true;
}

void fake_memory_release(struct fake_memory *m, const void *alias)
{
    int i = block_at(m, alias);
    if (i < 0)
        return;
    m->n_blocks--;
    memmove(m->blocks + i, m->blocks + i + 1, (size_t)(m->n_blocks - i) * sizeof m->blocks[0]);
}

void *fake_memory_real(const struct fake_memory *m, const void *alias, uint64_t bytes)
{
    uint64_t offset = (uint64_t)((uintptr_t)alias - (uintptr_t)m->alias);
    for (int i = 0; i < m->n_blocks; i++) {
        const struct fake_block *b = &m->blocks[i];
        if (b->state == FAKE_LIVE && offset >= b->offset && offset - b->offset <= b->bytes &&
            b->bytes - (offset - b->offset) >= bytes)
            return m->real + offset;
    }
    return NULL;
}

int fake_memory_live(const struct fake_memory *m)
{
    int n = 0;
    for (int i = 0; i < m->n_blocks; i++)
        n += m->blocks[i].state == FAKE_LIVE;
    return n;
}
