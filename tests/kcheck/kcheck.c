#include "tests/kcheck/kcheck.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/job_part.h"
#include "base/opts.h"

static void *work;

static bool holds_up_to(kc_side last, const fy_kernel_row *row, const fy_kc_property *p,
                        uint64_t seed, fy_kc_case *t)
{
    for (int side = KC_AT_END; side <= (int)last; side++) {
        *t = fy_kc_case_of(row, p, seed + (uint64_t)side);
        t->work = work;
        t->place = kc_place_guarded;
        kc_slots_side((kc_side)side);
        if (!kc_run_guarded(p->check, t))
            return false;
    }
    return true;
}

/* No later row of the list is for the same operation and this CPU. */
static bool is_picked(const fy_kernel_row *row, uint32_t features)
{
    if ((features & row->needs) != row->needs)
        return false;
    for (const fy_kernel_row *r = row + 1; r < fy_kernel_rows + fy_n_kernel_rows; r++) {
        if (strcmp(r->op, row->op) == 0 && (features & r->needs) == r->needs)
            return false;
    }
    return true;
}

typedef struct {
    bool bench, picked;
    int64_t seed;
    const char *kernel, *part;
} options;

typedef struct {
    uint32_t features;
    const options *o;
    fy_job_part part;
    bool only_count;
    uint64_t seen;
    int n, n_failed;
} progress;

static void check_property(progress *p, const fy_kernel_row *row, const fy_kc_property *property)
{
    const kc_side last = p->o->picked ? KC_AT_END : KC_AT_START;
    const uint64_t seed = (uint64_t)p->o->seed;
    fy_kc_case t;
    if (p->seen++ % p->part.n != p->part.i - 1)
        return;
    p->n++;
    if (p->only_count)
        return;
    if ((p->features & row->needs) != row->needs) {
        printf("ok %d - %s %s: %s # SKIP this CPU lacks it\n", p->n, row->op, row->isa,
               property->property);
    } else if (holds_up_to(last, row, property, seed, &t)) {
        printf("ok %d - %s %s: %s\n", p->n, row->op, row->isa, property->property);
    } else {
        printf("not ok %d - %s %s: %s (%s; --seed %llu)\n", p->n, row->op, row->isa,
               property->property, t.why, (unsigned long long)seed);
        p->n_failed++;
    }
    fflush(stdout);
}

static bool is_asked(const progress *p, const fy_kernel_row *row, const fy_kc_property *property)
{
    return fy_kc_is_asked(row, property) &&
           (!p->o->picked || property->against_spec || !fy_kc_has_spec_property(row->op));
}

static void check_rows(progress *p, const fy_kernel_row *rows, int n_rows)
{
    for (int i = 0; i < n_rows; i++) {
        if (p->o->kernel != NULL && strstr(rows[i].op, p->o->kernel) == NULL)
            continue;
        if (p->o->picked && !is_picked(&rows[i], p->features))
            continue;
        for (int j = 0; j < fy_kc_n_properties; j++) {
            if (is_asked(p, &rows[i], &fy_kc_properties[j]))
                check_property(p, &rows[i], &fy_kc_properties[j]);
        }
    }
}

/* Checks and prints, or only counts, every kernel and property. No CPU picks an emulated one. */
static void check_all(progress *p, bool only_count)
{
    p->seen = p->n = 0;
    p->only_count = only_count;
    check_rows(p, fy_kernel_rows, fy_n_kernel_rows);
    if (!p->o->picked)
        check_rows(p, kc_emulated_rows, kc_n_emulated_rows);
}

static const fy_opt option_table[] = {
    {.group = "Options",
     .name = "bench",
     .kind = FY_OPT_FLAG,
     .offset = offsetof(options, bench),
     .help = "measure the kernels instead of checking them"},
    {.group = "Options",
     .name = "picked",
     .kind = FY_OPT_FLAG,
     .offset = offsetof(options, picked),
     .help = "only the kernels this CPU picks, their results only, one guard"},
    {.group = "Options",
     .name = "seed",
     .kind = FY_OPT_INT,
     .arg = "N",
     .offset = offsetof(options, seed),
     .def = "1",
     .help = "where the random data begins"},
    {.group = "Options",
     .name = "kernel",
     .kind = FY_OPT_STR,
     .arg = "TEXT",
     .offset = offsetof(options, kernel),
     .help = "only operations whose name contains TEXT"},
    {.group = "Options",
     .name = "part",
     .kind = FY_OPT_STR,
     .arg = "K/N",
     .offset = offsetof(options, part),
     .def = "1/1",
     .help = "only the Kth of N parts of the checks, which take about as long as each other"},
};

int main(int argc, char **argv)
{
    options o;
    fy_job_part part;
    fy_err e = {0};
    int n_args;
    bool help = false;
    const size_t n_options = sizeof option_table / sizeof option_table[0];
    if (fy_opts_parse(option_table, n_options, &o, argc - 1, argv + 1, &n_args, &help, &e) ||
        n_args > 0 || fy_job_part_parse(o.part, &part, &e)) {
        fprintf(stderr, "kcheck: %s\n", e.code ? e.msg : "takes no arguments");
        return 2;
    }
    if (help) {
        fy_str text = {0};
        fy_opts_help(option_table, n_options, &text);
        printf("Usage: kcheck [options]\n%s", fy_str_z(&text));
        fy_str_release(&text);
        return 0;
    }
    const uint32_t features = fy_cpu_features();
    if (o.bench) {
        kc_bench(features, o.kernel);
        return 0;
    }
    kc_slots_open();
    work = calloc(1, FY_KC_WORK_BYTES);
    if (work == NULL) {
        fprintf(stderr, "kcheck: out of memory\n");
        return 2;
    }
    progress p = {.features = features, .o = &o, .part = part};
    check_all(&p, true);
    printf("1..%d\n", p.n);
    printf("# %s, seed %lld\n", fy_cpu_describe(features), (long long)o.seed);
    check_all(&p, false);
    free(work);
    return p.n_failed != 0;
}
