/* The machine in words: kernel, processor cores, memory, and which phone. Names of hosts, users and
 * serial numbers stay out: reports are posted in public. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/process.h"
#include "cli/measure/selftest.h"
#include "cli/verb.h"

enum { MAX_CPUS = 64, VALUE_BYTES = 96 };

/* --- files of the system ---------------------------------------------------------------------- */

static void trim(char *s)
{
    size_t n = strlen(s);
    while (n > 0 && isspace((unsigned char)s[n - 1]))
        s[--n] = '\0';
}

static unsigned max_mhz(unsigned cpu)
{
    char path[96], line[32] = "";
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%u/cpufreq/cpuinfo_max_freq", cpu);
    FILE *f = fopen(path, "re");
    if (f != NULL && fgets(line, sizeof line, f) == NULL)
        line[0] = '\0';
    if (f != NULL)
        fclose(f);
    return (unsigned)(strtoul(line, NULL, 10) / 1000);
}

/* --- processor -------------------------------------------------------------------------------- */

typedef struct {
    char name[VALUE_BYTES]; /* "Intel(R) ...", or "0x41 0xd05": implementer and part */
    unsigned mhz, count;
} core_kind;

typedef struct {
    core_kind kind[MAX_CPUS];
    size_t n;
    char name[VALUE_BYTES], implementer[VALUE_BYTES];
    unsigned cpu;
    bool open;
} core_list;

/* Cores alike are counted. */
static void end_core(core_list *l)
{
    if (l->open && l->name[0] != '\0' && l->n < MAX_CPUS) {
        unsigned mhz = max_mhz(l->cpu);
        size_t i = 0;
        while (i < l->n && (strcmp(l->kind[i].name, l->name) != 0 || l->kind[i].mhz != mhz))
            i++;
        if (i == l->n) {
            memcpy(l->kind[i].name, l->name, sizeof l->name);
            l->kind[i].mhz = mhz;
            l->kind[l->n++].count = 0;
        }
        l->kind[i].count++;
    }
    l->open = false;
    l->name[0] = l->implementer[0] = '\0';
}

static void take_line(core_list *l, const char *line)
{
    const char *colon = strchr(line, ':');
    if (colon == NULL)
        return;
    const char *value = colon + 1 + strspn(colon + 1, " \t");
    if (strncmp(line, "processor", 9) == 0) {
        end_core(l);
        l->open = true;
        l->cpu = (unsigned)strtoul(value, NULL, 10);
    } else if (strncmp(line, "model name", 10) == 0) {
        snprintf(l->name, sizeof l->name, "%s", value);
    } else if (strncmp(line, "CPU implementer", 15) == 0) {
        snprintf(l->implementer, sizeof l->implementer, "%s", value);
    } else if (strncmp(line, "CPU part", 8) == 0) {
        snprintf(l->name, sizeof l->name, "%.16s %.16s", l->implementer, value);
    }
}

static void list_cores(core_list *l)
{
    FILE *f = fopen("/proc/cpuinfo", "re");
    char line[512];
    *l = (core_list){0};
    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        trim(line);
        take_line(l, line);
    }
    end_core(l);
    if (f != NULL)
        fclose(f);
}

/* --- the phone -------------------------------------------------------------------------------- */

#define GETPROP "/system/bin/getprop"

static const struct {
    const char *key, *property;
} properties[] = {{"model", "ro.product.model"},
                  {"soc", "ro.soc.model"},
                  {"android", "ro.build.version.release"}};

/* popen would want /bin/sh, which phones lack. */
static void get_property(const char *property, char value[VALUE_BYTES])
{
    char program[] = GETPROP, name[64];
    char *words[] = {program, name, NULL}, *none[] = {NULL};
    int ends[2];
    pid_t child;
    size_t n = 0;
    value[0] = '\0';
    snprintf(name, sizeof name, "%s", property);
    if (pipe2(ends, O_CLOEXEC) != 0)
        return;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    bool runs = posix_spawn(&child, GETPROP, &actions, NULL, words, none) == 0;
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    for (ssize_t now = 1; runs && now > 0 && n + 1 < VALUE_BYTES; n += now > 0 ? (size_t)now : 0)
        now = read(ends[0], value + n, VALUE_BYTES - 1 - n);
    value[n] = '\0';
    close(ends[0]);
    while (runs && waitpid(child, NULL, 0) < 0 && errno == EINTR)
        continue;
    trim(value);
}

/* --- words ------------------------------------------------------------------------------------ */

static void put_member(fy_str *out, const char *key, const char *value)
{
    fy_str_printf(out, ", \"%s\": ", key);
    fy_json_put_string(out, fy_span_of(value));
}

void fy_self_cpu_text(fy_str *out)
{
    core_list l;
    list_cores(&l);
    for (size_t i = 0; i < l.n; i++)
        fy_str_printf(out, "%s%s", i > 0 ? ", " : "", l.kind[i].name);
}

void fy_self_system_json(fy_str *out)
{
    struct utsname u;
    core_list l;
    bool known = uname(&u) == 0;
    list_cores(&l);
    fy_str_puts(out, "{\"system\": ");
    fy_json_put_string(out, fy_span_of(known ? u.sysname : "unknown"));
    put_member(out, "release", known ? u.release : "");
    put_member(out, "build", known ? u.version : "");
    put_member(out, "machine", known ? u.machine : "");
    for (size_t i = 0; fy_file_exists(GETPROP) && i < sizeof properties / sizeof properties[0];
         i++) {
        char value[VALUE_BYTES];
        get_property(properties[i].property, value);
        if (value[0] != '\0')
            put_member(out, properties[i].key, value);
    }
    fy_str_printf(out,
                  ", \"page_bytes\": %ld, \"memory_bytes\": %llu, \"memory_free_bytes\": %llu, "
                  "\"cpus\": %ld, \"cores\": [",
                  sysconf(_SC_PAGESIZE), (unsigned long long)fy_meminfo_bytes("MemTotal"),
                  (unsigned long long)fy_meminfo_bytes("MemAvailable"),
                  sysconf(_SC_NPROCESSORS_ONLN));
    for (size_t i = 0; i < l.n; i++) {
        fy_str_puts(out, i > 0 ? ", {\"name\": " : "{\"name\": ");
        fy_json_put_string(out, fy_span_of(l.kind[i].name));
        fy_str_printf(out, ", \"count\": %u, \"max_mhz\": %u}", l.kind[i].count, l.kind[i].mhz);
    }
    fy_str_puts(out, "]}");
}

void fy_self_system_text(fy_str *out)
{
    struct utsname u;
    bool known = uname(&u) == 0;
    fy_version_text(out);
    fy_str_printf(out, ", %s %s, %s, %ld CPUs, %.1f GB memory of which %.1f GB free\n",
                  known ? u.sysname : "unknown system", known ? u.release : "",
                  known ? u.machine : "", sysconf(_SC_NPROCESSORS_ONLN),
                  (double)fy_meminfo_bytes("MemTotal") * 1e-9,
                  (double)fy_meminfo_bytes("MemAvailable") * 1e-9);
}
