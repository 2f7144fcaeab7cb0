/* How fast memory is read: what bounds the decoding of one token. */
#ifndef FY_CLI_READ_SPEED_H
#define FY_CLI_READ_SPEED_H

#include "base/err.h"

/* Bytes per second with so many threads, over a buffer of `megabytes` (more than the caches hold):
 * the best round of those that fit into the time, at least one. */
int fy_read_speed(int n_threads, unsigned megabytes, double seconds, double *rate, fy_err *e);

#endif
