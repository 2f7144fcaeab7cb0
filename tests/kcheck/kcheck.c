#include "tests/kcheck/kcheck.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/opts.h"

static fy_kc_memory *memory;

static bool holds_on_both_sides(const fy_kc_row *row, const fy_kc_property *p, uint64_t seed,
                                fy_kc_case *t)
{
    for (int side = KC_AT_END; side <= KC_AT_START; side++) {
        *t = fy_kc_case_of(row, p, seed + (uint64_t)side);
        t->work = fy_kc_memory_work(memory);
        t->place = kc_place_guarded;
        kc_slots_side((kc_side)side);
        if (!kc_run_guarded(p->check, t))
            return false;
    }
    return true;
}

/* Checks and prints, or only counts, every kernel and property; returns their number. */
static int check_all(uint32_t features, uint64_t seed, const char *filter, bool only_count,
                     int *n_failed)
{
    int n = 0;
    for (int i = 0; i < fy_kc_n_rows; i++) {
        const fy_kc_row *row = &fy_kc_rows[i];
        if (filter != NULL && strstr(row->op, filter) == NULL)
            continue;
        for (int j = 0; j < fy_kc_n_properties; j++) {
            const fy_kc_property *p = &fy_kc_properties[j];
            if (!fy_kc_is_asked(row, p))
                continue;
            n++;
            if (only_count)
                continue;
            fy_kc_case t;
            if ((features & row->needs) != row->needs) {
                printf("ok %d - %s %s: %s # SKIP this CPU lacks it\n", n, row->op, row->isa,
                       p->property);
            } else if (holds_on_both_sides(row, p, seed, &t)) {
                printf("ok %d - %s %s: %s\n", n, row->op, row->isa, p->property);
            } else {
                printf("not ok %d - %s %s: %s (%s; --seed %llu)\n", n, row->op, row->isa,
                       p->property, t.why, (unsigned long long)seed);
                ++*n_failed;
            }
            fflush(stdout);
        }
    }
    return n;
}

typedef struct {
    bool bench;
    int64_t seed;
    const char *kernel;
} options;

static const fy_opt option_table[] = {
    {.group = "Options",
     .name = "bench",
     .kind = FY_OPT_FLAG,
     .offset = offsetof(options, bench),
     .help = "measure the kernels instead of checking them"},
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
};

int main(int argc, char **argv)
{
    options o;
    fy_err e = {0};
    int n_args;
    bool help = false;
    const size_t n_options = sizeof option_table / sizeof option_table[0];
    if (fy_opts_parse(option_table, n_options, &o, argc - 1, argv + 1, &n_args, &help, &e) ||
        n_args > 0) {
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
    memory = fy_kc_memory_new(&e);
    if (memory == NULL) {
        fprintf(stderr, "kcheck: %s\n", e.msg);
        return 2;
    }
    int n_failed = 0;
    printf("1..%d\n", check_all(features, 0, o.kernel, true, NULL));
    printf("# %s, seed %lld\n", fy_cpu_describe(features), (long long)o.seed);
    check_all(features, (uint64_t)o.seed, o.kernel, false, &n_failed);
    fy_kc_memory_free(memory);
    return n_failed != 0;
}
