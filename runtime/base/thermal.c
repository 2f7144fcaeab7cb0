/* Temperatures as the kernel's thermal zones report them. */
#include "base/thermal.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 512 };

static int read_line(const char *dir, const char *name, char *line, int size)
{
    char path[PATH_BYTES];
    if (snprintf(path, sizeof path, "%s/%s", dir, name) >= (int)sizeof path)
        return 0;
    FILE *f = fopen(path, "re");
    const int ok = f != NULL && fgets(line, size, f) != NULL;
    if (f != NULL)
        fclose(f);
    if (ok)
        line[strcspn(line, "\n")] = '\0';
    return ok;
}

void fy_thermal_zones(const char *root, fy_thermal_zone *each, void *user)
{
    char pattern[PATH_BYTES], type[64], temp[64];
    glob_t zones;
    if (snprintf(pattern, sizeof pattern, "%s/sys/class/thermal/thermal_zone*", root) >=
            (int)sizeof pattern ||
        glob(pattern, 0, NULL, &zones) != 0)
        return;
    for (size_t i = 0; i < zones.gl_pathc; i++) {
        if (!read_line(zones.gl_pathv[i], "type", type, sizeof type) ||
            !read_line(zones.gl_pathv[i], "temp", temp, sizeof temp))
            continue;
        /* thousandths by the kernel's rule, degrees from some vendors' drivers */
        const double v = strtod(temp, NULL), c = v >= 1000 ? v / 1000 : v;
        if (c > 0 && c < 150)
            each(user, type, c);
    }
    globfree(&zones);
}
