#include "cli/machine.h"

static void say_where(const fy_cpus *asked, const fy_cpus *got)
{
    const bool less = fy_cpus_count(got) < fy_cpus_count(asked);
    fy_str a = {0}, g = {0};
    fy_cpus_text(asked, &a);
    fy_cpus_text(got, &g);
    if (less)
        fy_log(FY_LOG_DEBUG, "runs on CPUs %s; of %s this process may use no others", fy_str_z(&g),
               fy_str_z(&a));
    else
        fy_log(FY_LOG_DEBUG, "runs on CPUs %s", fy_str_z(&g));
    fy_str_release(&a);
    fy_str_release(&g);
}

int fy_machine_pin(const fy_machine_options *o, fy_err *e)
{
    fy_cpus asked = {0}, got;
    if (o->cpu_mask == NULL && o->cpu_range == NULL)
        return 0;
    if (o->cpu_mask != NULL && fy_cpus_add_mask(&asked, o->cpu_mask, e) != 0)
        return fy_ctx(e, "--cpu-mask");
    if (o->cpu_range != NULL && fy_cpus_add_range(&asked, o->cpu_range, e) != 0)
        return fy_ctx(e, "--cpu-range");
    if (fy_cpus_pin(&asked, &got, e) != 0)
        return fy_ctx(e, "%s", o->cpu_mask != NULL ? "--cpu-mask" : "--cpu-range");
    say_where(&asked, &got);
    return 0;
}

fy_model *fy_machine_open(const fy_machine_options *o, const char *path, fy_err *e)
{
    fy_progress progress;
    fy_map_how how = {.huge = true, .read = o->no_mmap, .lock = o->mlock};
    if (!how.read && !how.lock)
        return fy_model_open(path, e);
    how.progress = &progress;
    fy_show_begin(&progress, how.read ? "reading" : "locking", 0);
    fy_model *m = fy_model_open_as(path, &how, e);
    fy_show_end(&progress);
    return m;
}
