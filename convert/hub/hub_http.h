/* GET requests, several at once, with retries: the one file that knows libcurl.
 *
 * Redirects are followed here and not by libcurl: the token goes to the endpoint's own scheme, host
 * and port and nowhere else, and https never leads to http. A request is tried again
 * when the connection fails, is cut, falls silent or brings less than 1 kB/s, for 408, 429 and 5xx,
 * after a pause that doubles or that the server asks for; an attempt that got further than the last
 * one, at 1 kB/s or more, gives new attempts. fy_interrupted ends everything with FY_EINTR. */
#ifndef FY_HUB_HUB_HTTP_H
#define FY_HUB_HUB_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

#define FY_HTTP_WAIT_MAX_S \
    300 /* longest pause that a server may ask for: the window of the hub's limits */

typedef struct {
    const char *endpoint; /* view: "https://huggingface.co" */
    const char *token;    /* view; NULL: none */
    int parallel;         /* requests at once, >= 1 */
    int retries;          /* attempts after the first, without progress */
    int silence_s; /* a connection without a byte, or slower than 1 kB/s, for so long is cut */
} fy_http_params;

/* What the endpoint reports about a file before it sends it or redirects. */
typedef struct {
    char hash[80]; /* X-Linked-Etag, else ETag, without quotes; "": none */
    uint64_t size; /* X-Linked-Size; UINT64_MAX: unknown */
} fy_http_told;

/* One request. Callbacks get `user`; each returns 0, or -1 with *e set, which ends everything.
 * `name` goes before their messages. */
typedef struct {
    char *url;        /* percent-encoded, of the endpoint; not freed here */
    const char *name; /* view; for messages */
    void *user;
    /* Each may be NULL, except `body` of a GET. Before each attempt: the byte to begin at, else 0.
     * 1: nothing is left to ask for. */
    int (*begin)(void *user, uint64_t *from, fy_err *e);
    int (*told)(void *user, const fy_http_told *t, fy_err *e);
    int (*from)(void *user, uint64_t from, fy_err *e); /* where the body that comes now begins */
    int (*body)(void *user, const void *p, size_t n, fy_err *e);
    int (*end)(void *user, fy_err *e); /* it has ended: 0; 1: it was not all, try again; -1 */
    bool is_head;                      /* a HEAD request: of the last four told alone is called */
} fy_http_job;

/* A refusal by the server, as received; the caller explains what it means. */
typedef struct {
    long status;       /* 0: none */
    char code[40];     /* X-Error-Code: "GatedRepo", "RepoNotFound", ... */
    bool was_endpoint; /* the endpoint refused, and not a host that it redirected to */
} fy_http_refusal;

/* Until all are done, or one fails. *r is set with FY_EIO when a server refused. */
int fy_http_run(const fy_http_params *p, fy_http_job *jobs, size_t n_jobs, fy_http_refusal *r,
                fy_err *e);

void fy_http_library(fy_str *out); /* appends "libcurl 7.88.1\n" */

#endif
