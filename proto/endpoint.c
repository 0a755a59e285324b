#include "proto/endpoint.h"

#include "proto/base/text.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/un.h>

enum { HOST_NAME_MAX_BYTES = 253, UNIX_PATH_MAX_BYTES = sizeof(((struct sockaddr_un *)0)->sun_path) - 1 };

static int bad(const char *text, const char *why, struct eo_error *err)
{
    char quoted[128];

    EO_RAISE(err, EO_E_BAD_ENDPOINT, "endpoint %s %s", eo_quote(text, strlen(text), quoted, sizeof(quoted)), why);
    eo_error_hint(err, "Write host, host:port, [IPv6]:port or unix:PATH; without a port %d is meant.", EO_PORT);
    return EO_E_BAD_ENDPOINT;
}

static int parse_unix(const char *path, struct eo_endpoint *ep, struct eo_error *err)
{
    if (path[0] == '\0') {
        return bad(ep->text, "has no path", err);
    }
    if (strlen(path) > UNIX_PATH_MAX_BYTES) {
        char why[64];

        snprintf(why, sizeof(why), "has a path over %d bytes", UNIX_PATH_MAX_BYTES);
        return bad(ep->text, why, err);
    }
    ep->is_unix = true;
    ep->port = 0;
    eo_copy_text(ep->host, sizeof(ep->host), path);
    return EO_OK;
}

static int parse_port(const char *text, struct eo_endpoint *ep, struct eo_error *err)
{
    int64_t port;

    if (text[0] < '0' || text[0] > '9' || !eo_parse_i64(text, &port) || port > UINT16_MAX) {
        return bad(ep->text, "has a port that is not a number from 0 to 65535", err);
    }
    ep->port = (uint16_t)port;
    return EO_OK;
}

/* [v6] or [v6%scope], then nothing or :port. */
static int parse_bracketed(const char *text, struct eo_endpoint *ep, struct eo_error *err)
{
    const char *end = strchr(text, ']');
    char address[INET6_ADDRSTRLEN];
    struct in6_addr parsed;
    size_t address_length;
    size_t length;

    if (end == NULL) {
        return bad(ep->text, "has no closing bracket", err);
    }
    length = (size_t)(end - text - 1);
    address_length = strcspn(text + 1, "%]");
    if (length >= sizeof(ep->host) || address_length >= sizeof(address)) {
        return bad(ep->text, "has no IPv6 address in its brackets", err);
    }
    memcpy(address, text + 1, address_length);
    address[address_length] = '\0';
    if (inet_pton(AF_INET6, address, &parsed) != 1 || length == address_length + 1) {
        return bad(ep->text, "has no IPv6 address in its brackets", err);
    }
    memcpy(ep->host, text + 1, length);
    ep->host[length] = '\0';
    if (end[1] == '\0') {
        return EO_OK;
    }
    return end[1] == ':' ? parse_port(end + 2, ep, err) : bad(ep->text, "has text behind its bracket", err);
}

static bool is_host_name(const char *text, size_t length)
{
    if (length == 0 || length > HOST_NAME_MAX_BYTES || text[0] == '-' || text[0] == '.') {
        return false;
    }
    for (size_t i = 0; i < length; i++) {
        char c = text[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');

        if (!letter && !(c >= '0' && c <= '9') && c != '-' && c != '.' && c != '_') {
            return false;
        }
    }
    return true;
}

static int parse_plain(const char *text, struct eo_endpoint *ep, struct eo_error *err)
{
    const char *colon = strchr(text, ':');
    size_t length = colon == NULL ? strlen(text) : (size_t)(colon - text);

    if (strstr(text, "://") != NULL) {
        return bad(ep->text, "looks like a URL", err);
    }
    if (colon != NULL && strchr(colon + 1, ':') != NULL) {
        return bad(ep->text, "looks like an IPv6 address without brackets", err);
    }
    if (!is_host_name(text, length)) {
        return bad(ep->text, length == 0 ? "has no host" : "has a host that is no name or address", err);
    }
    memcpy(ep->host, text, length);
    ep->host[length] = '\0';
    return colon == NULL ? EO_OK : parse_port(colon + 1, ep, err);
}

int eo_endpoint_parse(const char *text, struct eo_endpoint *out, struct eo_error *err)
{
    struct eo_endpoint ep = {.port = EO_PORT};
    int code;

    if (!eo_copy_text(ep.text, sizeof(ep.text), text)) {
        return bad(text, "is too long", err);
    }
    if (strncmp(text, "unix:", 5) == 0) {
        code = parse_unix(text + 5, &ep, err);
    } else if (text[0] == '[') {
        code = parse_bracketed(text, &ep, err);
    } else {
        code = parse_plain(text, &ep, err);
    }
    if (code == EO_OK) {
        *out = ep;
    }
    return code;
}

static bool is_same(const struct eo_endpoint *a, const struct eo_endpoint *b)
{
    if (a->is_unix != b->is_unix || a->port != b->port) {
        return false;
    }
    return a->is_unix ? strcmp(a->host, b->host) == 0 : strcasecmp(a->host, b->host) == 0;
}

int eo_endpoint_parse_list(const char *text, struct eo_endpoint *out, size_t max, size_t *out_n, struct eo_error *err)
{
    size_t n = 0;

    for (;;) {
        size_t length = strcspn(text, ",");
        char one[sizeof(out->text)];
        int code;

        if (n == max) {
            return EO_RAISE(err, EO_E_BAD_ENDPOINT, "more than %zu endpoints", max);
        }
        if (length >= sizeof(one)) {
            return bad(text, "is too long", err);
        }
        memcpy(one, text, length);
        one[length] = '\0';
        code = eo_endpoint_parse(one, &out[n], err);
        if (code != EO_OK) {
            return code;
        }
        for (size_t i = 0; i < n; i++) {
            if (is_same(&out[i], &out[n])) {
                return bad(one, "is listed twice", err);
            }
        }
        n++;
        if (text[length] == '\0') {
            *out_n = n;
            return EO_OK;
        }
        text += length + 1;
    }
}

bool eo_endpoint_is_loopback(const struct eo_endpoint *ep)
{
    struct in_addr v4;
    struct in6_addr v6;
    size_t length = strlen(ep->host);

    if (ep->is_unix || strcasecmp(ep->host, "localhost") == 0) {
        return true;
    }
    /* RFC 6761: every name below localhost is loopback. */
    if (length > 10 && strcasecmp(ep->host + length - 10, ".localhost") == 0) {
        return true;
    }
    if (inet_pton(AF_INET, ep->host, &v4) == 1) {
        return ntohl(v4.s_addr) >> 24 == 127;
    }
    if (inet_pton(AF_INET6, ep->host, &v6) == 1) {
        return IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == 127);
    }
    return false;
}

/* sun_path is not always terminated: its end is the end of the address. An abstract name starts with NUL. */
static void unix_text(const struct sockaddr *sa, socklen_t length, char *out, size_t size)
{
    struct sockaddr_un un = {0};
    size_t path_length;

    memcpy(&un, sa, EO_MIN((size_t)length, sizeof(un)));
    path_length = (size_t)length > offsetof(struct sockaddr_un, sun_path)
                      ? EO_MIN((size_t)length, sizeof(un)) - offsetof(struct sockaddr_un, sun_path)
                      : 0;
    if (path_length > 0 && un.sun_path[0] == '\0') {
        un.sun_path[0] = '@';
    }
    snprintf(out, size, "unix:%.*s", (int)strnlen(un.sun_path, path_length), un.sun_path);
}

void eo_sockaddr_text(const struct sockaddr *sa, socklen_t length, char *out, size_t size)
{
    char address[INET6_ADDRSTRLEN] = "?";
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;

    if (sa != NULL && (size_t)length >= sizeof(v4) && sa->sa_family == AF_INET) {
        memcpy(&v4, sa, sizeof(v4));
        inet_ntop(AF_INET, &v4.sin_addr, address, sizeof(address));
        snprintf(out, size, "%s:%u", address, (unsigned)ntohs(v4.sin_port));
    } else if (sa != NULL && (size_t)length >= sizeof(v6) && sa->sa_family == AF_INET6) {
        memcpy(&v6, sa, sizeof(v6));
        inet_ntop(AF_INET6, &v6.sin6_addr, address, sizeof(address));
        snprintf(out, size, "[%s]:%u", address, (unsigned)ntohs(v6.sin6_port));
    } else if (sa != NULL && (size_t)length >= sizeof(sa->sa_family) && sa->sa_family == AF_UNIX) {
        unix_text(sa, length, out, size);
    } else {
        snprintf(out, size, "?");
    }
}
