#include "cli/measure/bench_sensors.h"

#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { PATH_BYTES = 512 };

static bool read_line(const char *path, char *line, int size)
{
    FILE *f = fopen(path, "re");
    bool ok = f != NULL && fgets(line, size, f) != NULL;
    if (f != NULL)
        fclose(f);
    return ok;
}

/* The largest of what `value` says about the files of that pattern. */
static double most_of(const char *root, const char *pattern, double (*value)(const char *path))
{
    char full[PATH_BYTES];
    glob_t files;
    double most = 0;
    if (snprintf(full, sizeof full, "%s%s", root, pattern) >= (int)sizeof full ||
        glob(full, 0, NULL, &files) != 0)
        return 0;
    for (size_t i = 0; i < files.gl_pathc; i++) {
        double v = value(files.gl_pathv[i]);
        most = v > most ? v : most;
    }
    globfree(&files);
    return most;
}

static double khz_in(const char *path)
{
    char line[64];
    return read_line(path, line, sizeof line) ? strtod(line, NULL) : 0;
}

static double cpuinfo_mhz(const char *path)
{
    static const char key[] = "cpu MHz";
    FILE *f = fopen(path, "re");
    char line[1024];
    double most = 0;
    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, key, sizeof key - 1) != 0 || colon == NULL)
            continue;
        double v = strtod(colon + 1, NULL);
        most = v > most ? v : most;
    }
    if (f != NULL)
        fclose(f);
    return most;
}

double fy_bench_clock_mhz(const char *root)
{
    double khz =
        most_of(root, "/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_cur_freq", khz_in);
    return khz > 0 ? khz / 1000 : most_of(root, "/proc/cpuinfo", cpuinfo_mhz);
}

/* Does a zone of this name (a line) measure a processor? Intel's and AMD's do, Raspberry Pi's,
 * Qualcomm's ("cpu-0-0-usr", "cpuss-0"; but "socd" is the battery's charge), MediaTek's
 * ("mtktscpu", "soc_max"), those of Exynos and Tensor ("BIG", "LITTLE", "MID") and Rockchip
 * ("bigcore0-thermal").
 */
static bool is_processor(const char *zone)
{
    static const char *const parts[] = {"cpu",     "pkg_temp", "k10temp", "soc_",   "soc-", "soc\n",
                                        "cluster", "core",     "big",     "little", "mid"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (strcasestr(zone, parts[i]) != NULL)
            return true;
    }
    return false;
}

/* path: of the zone's directory */
static double zone_c(const char *path)
{
    char file[PATH_BYTES], line[64];
    if (snprintf(file, sizeof file, "%s/type", path) >= (int)sizeof file ||
        !read_line(file, line, sizeof line) || !is_processor(line) ||
        snprintf(file, sizeof file, "%s/temp", path) >= (int)sizeof file ||
        !read_line(file, line, sizeof line))
        return 0;
    /* thousandths by the kernel's rule, degrees from some vendors' drivers */
    double v = strtod(line, NULL), c = v >= 1000 ? v / 1000 : v;
    return c > 0 && c < 150 ? c : 0; /* a sensor that is off says -273 or 255 */
}

double fy_bench_temperature_c(const char *root)
{
    return most_of(root, "/sys/class/thermal/thermal_zone*", zone_c);
}
