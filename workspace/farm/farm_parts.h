/* The parts of a job that is followed, and what the user sees of them: a bar on a terminal, a line
 * for each change otherwise, and with -v both. */
#ifndef FY_FARM_FARM_PARTS_H
#define FY_FARM_FARM_PARTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/log.h"
#include "base/str.h"

typedef enum {
    FY_PART_WAITING,
    FY_PART_RUNNING,
    FY_PART_DONE,
    FY_PART_FAILED,
    FY_PART_CANCELLED, /* by somebody */
} fy_part_state;

typedef struct {
    fy_part_state state;
    int status;       /* of one that failed; -1: unknown */
    uint32_t retries; /* how often it was sent again */
    char where[64];   /* the start of its node's name */
} fy_farm_part;

typedef struct {
    fy_farm_part *part; /* owned, [n + 1]; 0 is the end of the work, --finish */
    uint32_t n;
    bool bar;
    bool drawn; /* the bar is on the line of the cursor */
} fy_farm_parts;

int fy_farm_parts_init(fy_farm_parts *p, uint32_t n, fy_err *e);
void fy_farm_parts_release(fy_farm_parts *p); /* takes the bar away */

/* Shows it if it is a change: of the state, or from one node to another, which is a new start.
 * where: a node, "" when unknown; of any origin. */
void fy_farm_parts_set(fy_farm_parts *p, uint32_t i, fy_part_state state, int status,
                       fy_span where);

/* A message that is not about a part: the bar makes room for it. */
void fy_farm_parts_note(fy_farm_parts *p, fy_log_level level, const char *text);

void fy_farm_parts_draw(fy_farm_parts *p);

/* Of the parts, without the end. */
uint32_t fy_farm_parts_count(const fy_farm_parts *p, fy_part_state state);

/* The error of part i (0: the end), which failed for good. log: what it wrote last; logs: where
 * all of it is, NULL: nowhere. Returns -1. */
int fy_farm_parts_fail(fy_farm_parts *p, uint32_t i, fy_span log, const char *logs, fy_err *e);

/* "part 3 of 64", "the end" */
#define FY_PART_NAME_BYTES 40
const char *fy_farm_part_name(const fy_farm_parts *p, uint32_t i, char out[FY_PART_NAME_BYTES]);

#endif
