#include "backends/registry.h"

#include "proto/base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EO_BACKEND(name, symbol, stability) extern const struct eo_backend symbol;
#include "backends/backends.def"

static const struct eo_backend *const built_in[] = {
#define EO_BACKEND(name, symbol, stability) &symbol,
#include "backends/backends.def"
};

enum { N_BUILT_IN = EO_COUNT_OF(built_in), MAX_ADDED = 4, N_HARD_FACTS = EO_FACT_BUILT + 1 };

static const struct eo_backend *added[MAX_ADDED];
static int n_added;

static const char *const fact_names[EO_FACT_COUNT] = {
    [EO_FACT_INSTALLED] = "dependency installed", [EO_FACT_INITIALISED] = "runtime initialised",
    [EO_FACT_HARDWARE] = "hardware detected",     [EO_FACT_BUILT] = "supported by this build",
    [EO_FACT_SUPPORTED] = "operation supported",  [EO_FACT_USED] = "acceleration used",
};
static const char *const refusals[N_HARD_FACTS] = {
    [EO_FACT_INSTALLED] = "not installed",
    [EO_FACT_INITIALISED] = "not initialised",
    [EO_FACT_HARDWARE] = "no hardware",
    [EO_FACT_BUILT] = "not in this build",
};

int registry_count(void)
{
    return N_BUILT_IN + n_added;
}

const struct eo_backend *registry_at(int index)
{
    if (index < 0 || index >= registry_count())
        return NULL;
    return index < N_BUILT_IN ? built_in[index] : added[index - N_BUILT_IN];
}

static const struct eo_backend *find(const char *name, size_t length)
{
    for (int i = 0; i < registry_count(); i++) {
        const struct eo_backend *b = registry_at(i);
        if (strlen(b->name) == length && memcmp(b->name, name, length) == 0)
            return b;
    }
    return NULL;
}

const struct eo_backend *registry_find(const char *name)
{
    return find(name, strlen(name));
}

/* The name of the first mandatory slot that is empty, NULL when there is none. */
static const char *missing_slot(const struct eo_backend *b)
{
    const struct {
        const char *name;
        bool there;
    } slots[] = {
        {"probe", b->probe != NULL},
        {"device_count", b->device_count != NULL},
        {"device_open", b->device_open != NULL},
        {"device_close", b->device_close != NULL},
        {"alloc", b->alloc != NULL},
        {"free", b->free != NULL},
        {"select", b->select != NULL},
        {"copy_in", b->copy_in != NULL},
        {"copy_out", b->copy_out != NULL},
        {"copy", b->copy != NULL},
    };
    for (size_t i = 0; i < EO_COUNT_OF(slots); i++) {
        if (!slots[i].there)
            return slots[i].name;
    }
    return NULL;
}

int registry_add(const struct eo_backend *b, struct eo_error *err)
{
    if (!b || !b->name || !b->summary)
        return EO_BUG(err, "a backend without a name or summary");
    if (b->abi != EO_BACKEND_ABI)
        return EO_RAISE(err, EO_E_BACKEND_FAILED, "backend \"%s\" was built for interface %u, this is interface %d",
                        b->name, b->abi, EO_BACKEND_ABI);
    const char *missing = missing_slot(b);
    if (missing)
        return EO_RAISE(err, EO_E_BACKEND_FAILED, "backend \"%s\" has no %s", b->name, missing);
    if (registry_find(b->name))
        return EO_RAISE(err, EO_E_BACKEND_FAILED, "there is a backend \"%s\" already", b->name);
    if (n_added == MAX_ADDED)
        return EO_RAISE(err, EO_E_BACKEND_FAILED, "no more than %d backends can be added", MAX_ADDED);
    added[n_added++] = b;
    return EO_OK;
}

void registry_reset(void)
{
    n_added = 0;
}

const char *registry_fact_name(enum eo_fact fact)
{
    return (int)fact >= 0 && fact < EO_FACT_COUNT ? fact_names[fact] : "?";
}

void registry_first_refusal(const struct eo_backend_facts *facts, char *out, size_t size)
{
    if (size > 0)
        out[0] = '\0';
    for (int f = 0; f < N_HARD_FACTS; f++) {
        if (facts->state[f] == EO_FACT_YES)
            continue;
        const char *why = facts->why[f][0] ? facts->why[f] : "no reason was given";
        (void)snprintf(out, size, "%s: %s", refusals[f], why);
        return;
    }
}

/* Why the backend cannot be used, "" when it can. */
static void refusal_of(const struct eo_backend *b, char *out, size_t size)
{
    struct eo_backend_facts facts;
    memset(&facts, 0, sizeof facts);
    b->probe(&facts);
    registry_first_refusal(&facts, out, size);
}

static int open_device(const struct eo_backend *b, int index, const struct eo_device_config *config,
                       struct eo_device **out, struct eo_error *err)
{
    static const struct eo_device_config defaults = {0};
    int rc = b->device_open(index, config ? config : &defaults, out, err);
    if (rc != EO_OK)
        eo_error_at_device(err, b->name, "");
    return rc;
}

/* "backend: reason" for each backend, in table order, into the detail of a NO_DEVICE error. */
struct candidates {
    char text[512];
    size_t length;
};

static void add_candidate(struct candidates *c, const char *name, const char *why)
{
    if (c->length >= sizeof c->text)
        return;
    int n = snprintf(c->text + c->length, sizeof c->text - c->length, "%s%s: %s.", c->length ? " " : "", name, why);
    c->length += n > 0 ? (size_t)n : 0;
}

static int open_auto(const struct eo_device_config *config, struct eo_device **out, char *out_reason,
                     size_t reason_size, struct eo_error *err)
{
    struct candidates passed = {{0}, 0};
    for (int i = 0; i < registry_count(); i++) {
        const struct eo_backend *b = registry_at(i);
        char refusal[224];
        refusal_of(b, refusal, sizeof refusal);
        struct eo_error why;
        if (!refusal[0] && open_device(b, 0, config, out, &why) == EO_OK) {
            if (out_reason)
                (void)snprintf(out_reason, reason_size, "%s is the first backend that can be used%s%s", b->name,
                               passed.length ? "; passed over " : "", passed.text);
            return EO_OK;
        }
        add_candidate(&passed, b->name, refusal[0] ? refusal : why.message);
    }
    int rc = EO_RAISE(err, EO_E_NO_DEVICE, "no backend of this build can be used");
    eo_error_detail(err, "%s", passed.text);
    eo_error_hint(err, "`everyo doctor` shows what each backend lacks.");
    return rc;
}

/* "name" or "name:index"; false when it is neither. */
static bool split_device(const char *device, size_t *out_length, int *out_index)
{
    size_t length = strcspn(device, ":");
    int64_t index = 0;
    if (device[length] == ':' && (!eo_parse_i64(device + length + 1, &index) || index < 0 || index > 255))
        return false;
    *out_length = length;
    *out_index = (int)index;
    return length > 0;
}

static int unknown_device(const char *device, struct eo_error *err)
{
    char quoted[96];
    struct candidates known = {{0}, 0};
    int rc =
        EO_RAISE(err, EO_E_NO_DEVICE, "there is no device %s", eo_quote(device, strlen(device), quoted, sizeof quoted));
    for (int i = 0; i < registry_count(); i++) {
        char refusal[224];
        refusal_of(registry_at(i), refusal, sizeof refusal);
        add_candidate(&known, registry_at(i)->name, refusal[0] ? refusal : "can be used");
    }
    eo_error_detail(err, "%s", known.text);
    eo_error_hint(err, "Name one of these backends, with :N for its device N, or auto.");
    return rc;
}

static int open_named(const char *device, const struct eo_device_config *config, struct eo_device **out,
                      struct eo_error *err)
{
    size_t length = 0;
    int index = 0;
    const struct eo_backend *b = split_device(device, &length, &index) ? find(device, length) : NULL;
    if (!b)
        return unknown_device(device, err);
    char refusal[224];
    refusal_of(b, refusal, sizeof refusal);
    if (refusal[0]) {
        int rc = EO_RAISE(err, EO_E_NO_DEVICE, "device %s cannot be used: %s", b->name, refusal);
        eo_error_at_device(err, b->name, "");
        eo_error_hint(err, "`everyo doctor` shows what it lacks; `device: auto` takes the best one that works.");
        return rc;
    }
    if (index >= b->device_count())
        return EO_RAISE(err, EO_E_NO_DEVICE, "there is no device %s:%d, %s has %d", b->name, index, b->name,
                        b->device_count());
    return open_device(b, index, config, out, err);
}

int registry_open(const char *device, const struct eo_device_config *config, struct eo_device **out, char *out_reason,
                  size_t reason_size, struct eo_error *err)
{
    if (out_reason && reason_size > 0)
        out_reason[0] = '\0';
    if (strcmp(device, "auto") == 0)
        return open_auto(config, out, out_reason, reason_size, err);
    int rc = open_named(device, config, out, err);
    if (rc == EO_OK && out_reason)
        (void)snprintf(out_reason, reason_size, "%s was asked for by name", (*out)->info.name);
    return rc;
}

void registry_close(struct eo_device *dev)
{
    if (dev)
        dev->backend->device_close(dev);
}
