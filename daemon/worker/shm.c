#include "daemon/worker/shm.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static uint64_t page_size(void)
{
    return (uint64_t)sysconf(_SC_PAGESIZE);
}

static int shm_map(struct shm *m, struct eo_error *err)
{
    void *at = mmap(NULL, m->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, m->fd, 0);
    if (at == MAP_FAILED) {
        int errnum = errno;
        return EO_RAISE_ERRNO(err, EO_E_NO_MEMORY, errnum, "%llu bytes of shared memory cannot be mapped",
                              (unsigned long long)m->size);
    }
    m->data = at;
    return EO_OK;
}

int shm_create(struct shm *m, const char *name, uint64_t size, struct eo_error *err)
{
    *m = (struct shm){.fd = -1};
    const uint64_t page = page_size();
    if (size == 0 || size > (uint64_t)INT64_MAX - page) {
        return EO_RAISE(err, EO_E_TOO_LARGE, "%llu bytes of shared memory", (unsigned long long)size);
    }
    m->size = (size + page - 1) / page * page;
    m->fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (m->fd < 0 || ftruncate(m->fd, (off_t)m->size) != 0 ||
        fcntl(m->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
        int errnum = errno;
        shm_close(m);
        return EO_RAISE_ERRNO(err, EO_E_NO_MEMORY, errnum, "%llu bytes of shared memory cannot be made",
                              (unsigned long long)size);
    }
    int code = shm_map(m, err);
    if (code != EO_OK) {
        shm_close(m);
    }
    return code;
}

int shm_attach(struct shm *m, int fd, uint64_t min_size, struct eo_error *err)
{
    struct stat st;
    *m = (struct shm){.fd = -1};
    int seals = fcntl(fd, F_GET_SEALS);
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || seals < 0 || !(seals & F_SEAL_SHRINK)) {
        return EO_RAISE(err, EO_E_INTERNAL, "the descriptor is no sealed shared memory");
    }
    if (st.st_size <= 0 || (uint64_t)st.st_size < min_size) {
        return EO_RAISE(err, EO_E_INTERNAL, "shared memory of %lld bytes is smaller than %llu", (long long)st.st_size,
                        (unsigned long long)min_size);
    }
    m->fd = fd;
    m->size = (uint64_t)st.st_size;
    int code = shm_map(m, err);
    if (code != EO_OK) {
        m->fd = -1; /* still the caller's */
    }
    return code;
}

void shm_close(struct shm *m)
{
    if (m->data) {
        munmap(m->data, m->size);
    }
    if (m->fd >= 0) {
        close(m->fd);
    }
    *m = (struct shm){.fd = -1};
}

int shm_commit(const struct shm *m, uint64_t offset, uint64_t size, struct eo_error *err)
{
    if (offset > m->size || size > m->size - offset) {
        return EO_RAISE(err, EO_E_INTERNAL, "%llu bytes at %llu lie outside shared memory of %llu",
                        (unsigned long long)size, (unsigned long long)offset, (unsigned long long)m->size);
    }
    if (size == 0) {
        return EO_OK;
    }
    int rc;
    do {
        rc = fallocate(m->fd, FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)size);
    } while (rc != 0 && errno == EINTR);
    if (rc != 0) {
        int errnum = errno;
        return EO_RAISE_ERRNO(err, EO_E_DEVICE_MEMORY, errnum, "the host has no memory for %llu more bytes of tensors",
                              (unsigned long long)size);
    }
    return EO_OK;
}

void shm_decommit(const struct shm *m, uint64_t offset, uint64_t size)
{
    if (offset > m->size || size > m->size - offset) {
        return;
    }
    const uint64_t page = page_size();
    const uint64_t first = (offset + page - 1) / page * page;
    const uint64_t end = (offset + size) / page * page;
    if (end > first) {
        (void)fallocate(m->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)first, (off_t)(end - first));
    }
}
