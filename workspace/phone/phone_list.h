/* The phone's half of the verbs `list` and `rm`. */
#ifndef FY_WORKSPACE_PHONE_LIST_H
#define FY_WORKSPACE_PHONE_LIST_H

#include <stdbool.h>

#include "base/err.h"

/* serial: as fy_adb_open. */
int fy_phone_list_show(const char *serial, bool json, fy_err *e);
/* Names of the list, or of one version: "tales-0123456789ab". Asks unless `yes`: somebody is there. */
int fy_phone_list_remove(const char *serial, int n_names, char **names, bool yes, fy_err *e);

#endif
