/* The user's own files: $XDG_CONFIG_HOME/ferry, else ~/.config/ferry. A relative directory there
 * would mean another one wherever the program runs: it counts as not set. */
#ifndef FY_BASE_CONFIG_DIR_H
#define FY_BASE_CONFIG_DIR_H

#include <stdbool.h>

#include "base/str.h"

/* Appends the path of ferry/NAME below that directory. False: neither variable says where. */
bool fy_config_path(const char *name, fy_str *out);

#endif
