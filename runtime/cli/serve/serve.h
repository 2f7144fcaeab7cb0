/* What a call of `ferry serve --device` needs of the verb's options: most of them are passed on to
 * the server on the phone, these are about the way there. */
#ifndef FY_CLI_SERVE_H
#define FY_CLI_SERVE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

typedef struct {
    uint16_t port;  /* of this machine */
    bool detach;    /* the server there outlives this call */
    bool shutdown;  /* end it */
    bool stay_on;   /* the phone does not sleep meanwhile */
    bool has_model; /* -m or -d */
} fy_serve_place;

/* opts: the filled options of the verb. */
void fy_serve_place_of(const void *opts, fy_serve_place *out);

/* Appends every API key of --api-key and --api-key-file, a line each, after a check that a header
 * can carry it. The words of the command line, which others can list, are blanked. */
int fy_serve_keys(void *opts, fy_str *out, fy_err *e);
/* Releases a string of secrets after its bytes are overwritten. */
void fy_serve_wipe(fy_str *s);

#endif
