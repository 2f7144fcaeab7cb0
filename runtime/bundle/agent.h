/* The phone's side of `ferry push`: takes a new version of a workspace over a byte stream, reusing
 * what the phone has. bundle/agent_proto.h is what is said, bundle/agent_store.h where it lies.
 *
 * One thread receives, the others hash: units that are looked for on the phone's storage, and units
 * that have arrived. Every unit is hashed here before it counts, so a version that gets its name is
 * whole, byte for byte. Whatever ends the job earlier leaves NAME-<id>.part, which the next one
 * goes on with. */
#ifndef FY_BUNDLE_AGENT_H
#define FY_BUNDLE_AGENT_H

#include "base/err.h"

typedef struct {
    int in_fd, out_fd;
    const char *version; /* "0.1.0", for the host */
    const char *self;    /* path of the running program; NULL: unknown */
    const char *below;   /* the only directory that may be written to; NULL: any */
    int n_threads;       /* that hash; 0: by the CPUs */
} fy_agent_params;

/* Serves one push, or nothing when the stream ends at once. A failure was told to the host, too. */
int fy_agent_serve(const fy_agent_params *p, fy_err *e);

#endif
