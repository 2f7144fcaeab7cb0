/* The program as a table. main registers it; a test that calls verbs by name does, too. */
#ifndef FY_PROGRAM_PROGRAM_H
#define FY_PROGRAM_PROGRAM_H

#include "cli/verb.h"

extern const fy_program fy_ferry; /* fy_program_set(&fy_ferry) */

#endif
