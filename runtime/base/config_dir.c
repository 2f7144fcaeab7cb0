#include "base/config_dir.h"

#include <stdlib.h>

static const char *absolute(const char *variable)
{
    const char *dir = getenv(variable);
    return dir != NULL && dir[0] == '/' ? dir : NULL;
}

bool fy_config_path(const char *name, fy_str *out)
{
    const char *config = absolute("XDG_CONFIG_HOME");
    const char *dir = config != NULL ? config : absolute("HOME");
    if (dir == NULL)
        return false;
    fy_str_printf(out, "%s%s/ferry/%s", dir, config != NULL ? "" : "/.config", name);
    return true;
}
