/* A call of a runtime verb, made on the phone: fy_remote_run of cli/call.h. What it needs of this
 * machine (input files) goes along, what it writes (output files) comes back. */
#ifndef FY_WORKSPACE_REMOTE_H
#define FY_WORKSPACE_REMOTE_H

#define FY_REMOTE_MAX_FILE (64 << 20) /* bytes of one file that goes along */

#endif
