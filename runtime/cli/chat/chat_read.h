/* Lines of standard input, where no terminal edits them, and messages made of lines. */
#ifndef FY_CLI_CHAT_READ_H
#define FY_CLI_CHAT_READ_H

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"

#define FY_CHAT_LINE_MAX_BYTES (16u << 20)

/* Zero-initialise; fd 0 is standard input. */
typedef struct {
    int fd;
    fy_str bytes; /* read and not yet handed out, from `at` on */
    size_t at;
    bool ended;
} fy_chat_reader;

/* Puts the next line without its end ("\n" or "\r\n") into *line; the last one need not have one.
 * 1, or 0: the input has ended; -1: FY_EINTR as soon as fy_interrupted is set, FY_EIO, FY_EFIT for
 * a line beyond FY_CHAT_LINE_MAX_BYTES. */
int fy_chat_read_line(fy_chat_reader *r, fy_str *line, fy_err *e);
void fy_chat_reader_release(fy_chat_reader *r);

/* A message of several lines, put together: a line that ends in a single backslash goes on in the
 * next one, and what stands between """ and """ is one message. Zero-initialise. */
typedef struct {
    fy_str text;
    bool block; /* inside """ */
    bool begun;
} fy_chat_gather;

/* True when the message in g->text is complete with this line. */
bool fy_chat_gather_line(fy_chat_gather *g, fy_span line);
void fy_chat_gather_clear(fy_chat_gather *g);

#endif
