/* The page for people, compiled in (scripts/embed_page.sh makes it from page.html). */
#ifndef FY_SERVER_PAGE_H
#define FY_SERVER_PAGE_H

#include <stddef.h>

typedef struct {
    const unsigned char *html; /* [n_bytes] */
    size_t n_bytes;
    const char *policy; /* its Content-Security-Policy: the one script and style of the page */
} fy_page;

extern const fy_page fy_server_page;

#endif
