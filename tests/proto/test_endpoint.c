#include "proto/endpoint.h"

#include "tests/support/suite.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stddef.h>
#include <string.h>
#include <sys/un.h>

static struct eo_error err;

START_TEST(good_endpoints)
{
    static const struct {
        const char *text;
        const char *host;
        uint16_t port;
        bool is_unix, is_loopback;
    } rows[] = {
        {"localhost", "localhost", EO_PORT, false, true},
        {"LocalHost:1", "LocalHost", 1, false, true},
        {"x.localhost:1", "x.localhost", 1, false, true},
        {"localhost.evil.example", "localhost.evil.example", EO_PORT, false, false},
        {"node-1.example_net.org:65535", "node-1.example_net.org", 65535, false, false},
        {"127.0.0.1:0", "127.0.0.1", 0, false, true},
        {"127.255.0.9", "127.255.0.9", EO_PORT, false, true},
        {"128.0.0.1", "128.0.0.1", EO_PORT, false, false},
        {"0.0.0.0:5", "0.0.0.0", 5, false, false},
        {"[::1]", "::1", EO_PORT, false, true},
        {"[::1]:8", "::1", 8, false, true},
        {"[::]:8", "::", 8, false, false},
        {"[::ffff:127.0.0.1]:8", "::ffff:127.0.0.1", 8, false, true},
        {"[fe80::1%eth0]:8", "fe80::1%eth0", 8, false, false},
        {"unix:/run/everyo.sock", "/run/everyo.sock", 0, true, true},
        {"unix:rel,a:b", "rel,a:b", 0, true, true},
        {"a", "a", EO_PORT, false, false},
    };

    for (size_t i = 0; i < EO_COUNT_OF(rows); i++) {
        struct eo_endpoint ep;

        ASSERT_OK(eo_endpoint_parse(rows[i].text, &ep, &err));
        ck_assert_str_eq(ep.text, rows[i].text);
        ck_assert_str_eq(ep.host, rows[i].host);
        ck_assert_uint_eq(ep.port, rows[i].port);
        ck_assert_int_eq(ep.is_unix, rows[i].is_unix);
        ck_assert_msg(eo_endpoint_is_loopback(&ep) == rows[i].is_loopback, "%s", rows[i].text);
    }
}
END_TEST

START_TEST(bad_endpoints)
{
    static const struct {
        const char *text;
        const char *says;
    } rows[] = {
        {"", "no host"},
        {":1", "no host"},
        {"host:", "port"},
        {"host:65536", "port"},
        {"host:-1", "port"},
        {"host:+1", "port"},
        {"host:1x", "port"},
        {"host: 1", "port"},
        {"host:99999999999999999999", "port"},
        {"::1", "without brackets"},
        {"fe80::1:2", "without brackets"},
        {"[::1", "closing bracket"},
        {"[]:1", "IPv6"},
        {"[1.2.3.4]:1", "IPv6"},
        {"[fe80::1%]:1", "IPv6"},
        {"[::1]x", "behind its bracket"},
        {"[::1]:", "port"},
        {"ho st", "no name or address"},
        {"-host", "no name or address"},
        {".host", "no name or address"},
        {"host\n:1", "no name or address"},
        {"h\xC3\xB6st", "no name or address"},
        {"http://host:1", "URL"},
        {"unix:", "no path"},
    };
    char longer[400];
    struct eo_endpoint ep = {.port = 77};

    for (size_t i = 0; i < EO_COUNT_OF(rows); i++) {
        ASSERT_CODE(eo_endpoint_parse(rows[i].text, &ep, &err), EO_E_BAD_ENDPOINT);
        ck_assert_msg(strstr(err.message, rows[i].says) != NULL, "%s: %s", rows[i].text, err.message);
        ASSERT_CONTAINS(err.hint, "17743");
        ck_assert_uint_eq(ep.port, 77);
    }
    memset(longer, 'a', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    ASSERT_CODE(eo_endpoint_parse(longer, &ep, &err), EO_E_BAD_ENDPOINT);
    longer[260] = '\0';
    ASSERT_CODE(eo_endpoint_parse(longer, &ep, &err), EO_E_BAD_ENDPOINT);
    memcpy(longer, "unix:", 5);
    longer[5 + 107] = '\0'; /* sun_path holds 108 with its NUL */
    ASSERT_OK(eo_endpoint_parse(longer, &ep, &err));
    longer[5 + 107] = 'a';
    longer[5 + 108] = '\0';
    ASSERT_CODE(eo_endpoint_parse(longer, &ep, &err), EO_E_BAD_ENDPOINT);
    ck_assert_int_eq(eo_endpoint_parse("", &ep, NULL), EO_E_BAD_ENDPOINT);
}
END_TEST

START_TEST(lists)
{
    struct eo_endpoint list[4];
    size_t n = 0;

    ASSERT_OK(eo_endpoint_parse_list("a:1,b:2,[::1]:3,a", list, 4, &n, &err));
    ck_assert_uint_eq(n, 4);
    ck_assert_str_eq(list[2].text, "[::1]:3");
    ck_assert_uint_eq(list[3].port, EO_PORT);
    ASSERT_OK(eo_endpoint_parse_list("solo", list, 1, &n, &err));
    ck_assert_uint_eq(n, 1);

    n = 7;
    ASSERT_CODE(eo_endpoint_parse_list("a:1,b:2,A:1", list, 4, &n, &err), EO_E_BAD_ENDPOINT);
    ASSERT_CONTAINS(err.message, "listed twice");
    ASSERT_CODE(eo_endpoint_parse_list("a,a:17743", list, 4, &n, &err), EO_E_BAD_ENDPOINT);
    ASSERT_CODE(eo_endpoint_parse_list("a,b,c,d,e", list, 4, &n, &err), EO_E_BAD_ENDPOINT);
    ASSERT_CONTAINS(err.message, "more than 4");
    ASSERT_CODE(eo_endpoint_parse_list("a,,b", list, 4, &n, &err), EO_E_BAD_ENDPOINT);
    ASSERT_CODE(eo_endpoint_parse_list("a,", list, 4, &n, &err), EO_E_BAD_ENDPOINT);
    ASSERT_CODE(eo_endpoint_parse_list("", list, 4, &n, &err), EO_E_BAD_ENDPOINT);
    ck_assert_uint_eq(n, 7);
}
END_TEST

START_TEST(addresses_as_text)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(4711)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(65535)};
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    char out[128];
    char tiny[4];

    ck_assert_int_eq(inet_pton(AF_INET, "127.0.0.1", &v4.sin_addr), 1);
    ck_assert_int_eq(inet_pton(AF_INET6, "fe80::1", &v6.sin6_addr), 1);
    eo_sockaddr_text((struct sockaddr *)&v4, sizeof(v4), out, sizeof(out));
    ck_assert_str_eq(out, "127.0.0.1:4711");
    eo_sockaddr_text((struct sockaddr *)&v6, sizeof(v6), out, sizeof(out));
    ck_assert_str_eq(out, "[fe80::1]:65535");
    eo_sockaddr_text((struct sockaddr *)&v4, sizeof(v4), tiny, sizeof(tiny));
    ck_assert_str_eq(tiny, "127");
    memset(un.sun_path, 'p', sizeof(un.sun_path)); /* full, without a NUL */
    eo_sockaddr_text((struct sockaddr *)&un, sizeof(un), out, sizeof(out));
    ck_assert_uint_eq(strlen(out), 5 + sizeof(un.sun_path));
    memcpy(un.sun_path, "\0abstract", 9);
    eo_sockaddr_text((struct sockaddr *)&un, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 9), out, sizeof(out));
    ck_assert_str_eq(out, "unix:@abstract");
    eo_sockaddr_text((struct sockaddr *)&un, sizeof(un.sun_family), out, sizeof(out));
    ck_assert_str_eq(out, "unix:");
    eo_sockaddr_text((struct sockaddr *)&v6, 8, out, sizeof(out)); /* shorter than its family needs */
    ck_assert_str_eq(out, "?");
    eo_sockaddr_text(NULL, 0, out, sizeof(out));
    ck_assert_str_eq(out, "?");
}
END_TEST

EO_SUITE("endpoint", good_endpoints, bad_endpoints, lists, addresses_as_text)
