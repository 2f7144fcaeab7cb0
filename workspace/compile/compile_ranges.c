/* The ranges that graphs of fixed numbers need: given, of an earlier run, or from a calibration.
 * Each part of the work calibrates by itself, and they all find the same. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/process.h"
#include "bundle/bundle.h"
#include "workspace/compile/calibrate.h"
#include "workspace/compile/calibration_ids.h"
#include "workspace/compile/compile_impl.h"
#include "workspace/compile/preset.h"
#include "workspace/compile/qinputs.h"

enum { CALIBRATION_TOKENS = 2048 };

typedef fy_compile_run compiling;

/* Ranges that were made without the first tokens are wrong for texts that begin otherwise. */
static int check_preset(compiling *c, const char *path, fy_err *e)
{
    const uint64_t n = *fy_q_ranges_preset(c->ranges);
    return n == 0 || n == c->preset.n
               ? 0
               : fy_fail(e, FY_EARG,
                         "%s: was made after a preset of %llu tokens, not of %zu; give the same "
                         "--preset-bos or --system-file, or calibrate again",
                         path, (unsigned long long)n, c->preset.n);
}

static int read_ranges(compiling *c, const char *path, fy_err *e)
{
    c->ranges = fy_q_ranges_read(path, e);
    if (c->ranges == NULL || check_preset(c, path, e) != 0)
        return -1;
    return fy_q_ranges_model(c->ranges)[0] == 0 ||
                   strcmp(fy_q_ranges_model(c->ranges), c->cut.config.own.model) == 0
               ? 0
               : fy_fail(e, FY_EARG,
                         "%s: has the ranges of another model (%.12s...), not of %.12s...", path,
                         fy_q_ranges_model(c->ranges), c->cut.config.own.model);
}

static int run_calibration(const compiling *c, const char *inputs, fy_q_ranges **out, fy_err *e)
{
    const fy_calibration_source from = {.weights = c->weights,
                                        .qnn = c->qnn,
                                        .from = c->o->calibration,
                                        .preset = &c->preset,
                                        .max_tokens = CALIBRATION_TOKENS,
                                        .n_threads = fy_compile_threads(c)};
    fy_calibration how = {.weights = c->weights,
                          .qnn = c->qnn,
                          .recipe = c->recipe,
                          .preset = &c->preset,
                          .inputs = fy_compile_tries_scales(c) ? inputs : NULL,
                          .n_threads = fy_compile_threads(c)};
    fy_ids ids = {0};
    int rc = fy_calibration_ids(&from, &ids, e);
    how.ids = ids.id;
    how.n_ids = ids.n;
    if (rc == 0 && (rc = fy_q_calibrate(&how, out, e)) != 0)
        fy_ctx(e, "%s", from.from);
    fy_ids_release(&ids);
    return rc;
}

static int calibrate(compiling *c, const char *path, const char *inputs, fy_err *e)
{
    const double start = fy_now_s();
    const char *widest = "";
    fy_q_ranges *made = NULL;
    int rc = run_calibration(c, inputs, &made, e);
    if (rc == 0)
        rc = fy_q_ranges_write(made, path, e);
    fy_q_ranges_free(made);
    /* those of the file, which has fewer digits: a run that takes it keeps what this one makes */
    if (rc != 0 || read_ranges(c, path, e) != 0)
        return -1;
    const size_t massive = fy_q_massive(c->ranges, &widest);
    fy_log(FY_LOG_INFO, "%s: %zu ranges of %llu tokens, %.1f s", path, fy_q_ranges_n(c->ranges),
           (unsigned long long)*fy_q_ranges_tokens(c->ranges), fy_now_s() - start);
    if (massive > 0)
        fy_log(
            FY_LOG_WARN,
            "the first token alone widens %zu ranges 16 times or more (most: %s), which takes "
            "precision from all other tokens; --preset-bos leaves it out, and a recipe with 16-bit "
            "floats does not suffer",
            massive, widest);
    return 0;
}

int fy_compile_find_preset(compiling *c, fy_err *e)
{
    if (c->o->preset_bos && c->o->system_file != NULL)
        return fy_fail(e, FY_EARG, "--preset-bos and --system-file exclude each other");
    if (!c->o->preset_bos && c->o->system_file == NULL)
        return 0;
    if (fy_graph_has_states(&c->cut.hp))
        return fy_fail(e, FY_EUNSUPPORTED,
                       "%s: the model has states, which no keys and values of a preset replace",
                       c->o->preset_bos ? "--preset-bos" : "--system-file");
    return fy_preset_ids(c->weights, c->o->system_file, &c->preset, e);
}

static int open_inputs(compiling *c, const char *path, fy_err *e)
{
    if (!fy_file_exists(path))
        return fy_fail(e, FY_EARG,
                       "%s: is not there; --seq-mse tries scales on inputs that are kept when "
                       "--calibration and --seq-mse are given together",
                       path);
    c->inputs = fy_q_inputs_open(path, c->cut.config.own.model, e);
    return c->inputs != NULL ? fy_file_sha256(path, c->inputs_sha256, e) : -1;
}

/* In the file at `path`, unless they are calibrated now. */
static int get_ranges_at(compiling *c, const char *path, fy_err *e)
{
    fy_str inputs = {0};
    const char *slash = strrchr(path, '/');
    fy_str_printf(&inputs, "%.*s" FY_Q_INPUTS_NAME, slash != NULL ? (int)(slash + 1 - path) : 0,
                  path);
    int rc = inputs.oom ? fy_nomem(e) : 0;
    if (rc == 0 && c->o->calibration != NULL && c->o->ranges == NULL && !c->parts.finishes)
        rc = calibrate(c, path, inputs.ptr, e);
    else if (rc == 0)
        rc = read_ranges(c, path, e);
    if (rc == 0 && fy_compile_tries_scales(c))
        rc = open_inputs(c, inputs.ptr, e);
    fy_str_release(&inputs);
    return rc;
}

int fy_compile_fail_missing(const compiling *c, uint32_t i, const char *why, size_t n, fy_err *e)
{
    return fy_fail(
        e, FY_EVERIFY,
        "%s: %zu of its %zu chunks are missing; part %u of %u %s: make it with '%s --part "
        "%u/%u'",
        c->o->out, n, c->cut.n_chunks, i, c->parts.part.n, why, fy_str_z(&c->parts.command), i,
        c->parts.part.n);
}

void fy_compile_put_part_dir(const compiling *c, uint32_t i, fy_str *out)
{
    fy_str_clear(out);
    fy_str_printf(out, "%s/" FY_QNN_DIR "/part-%u-of-%u", c->o->out, i, c->parts.part.n);
}

static int move_up(fy_str *dir, const char *name, const char *qnn, fy_err *e)
{
    char *from = fy_path_join(fy_str_z(dir), name), *to = fy_path_join(qnn, name);
    int rc = from == NULL || to == NULL ? fy_nomem(e) : 0;
    if (rc == 0 && rename(from, to) != 0 && errno != ENOENT)
        rc = fy_fail_errno(e, "%s: cannot give it the name %s", from, to);
    free(from);
    free(to);
    return rc;
}

/* All parts have the same calibration: that of the first is the model's. Its inputs are moved
 * first, as whoever finds the ranges looks for them there. */
static int adopt_ranges(const compiling *c, fy_err *e)
{
    fy_str dir = {0};
    char *qnn = fy_path_join(c->o->out, FY_QNN_DIR);
    fy_compile_put_part_dir(c, 1, &dir);
    int rc = qnn == NULL || dir.oom ? fy_nomem(e) : 0;
    if (rc == 0 && fy_dir_has(dir.ptr, FY_RANGES_NAME))
        rc = move_up(&dir, FY_Q_INPUTS_NAME, qnn, e) != 0 ||
                     move_up(&dir, FY_RANGES_NAME, qnn, e) != 0
                 ? -1
                 : 0;
    fy_str_release(&dir);
    free(qnn);
    return rc;
}

static int part_ranges(compiling *c, fy_err *e)
{
    fy_str path = {0};
    fy_compile_put_part_dir(c, c->parts.part.i, &path);
    int rc = path.oom ? fy_nomem(e) : fy_mkdirs(path.ptr, e);
    fy_str_puts(&path, "/" FY_RANGES_NAME);
    if (rc == 0)
        rc = path.oom ? fy_nomem(e) : get_ranges_at(c, path.ptr, e);
    fy_str_release(&path);
    return rc;
}

/* Of the command line, else those that an earlier run left in OUT. */
int fy_compile_get_ranges(compiling *c, fy_err *e)
{
    fy_str path = {0};
    int rc;
    if (c->o->ranges != NULL)
        return get_ranges_at(c, c->o->ranges, e);
    if (fy_compile_is_part(c) && c->o->calibration != NULL)
        return part_ranges(c, e);
    if (c->parts.finishes && adopt_ranges(c, e) != 0)
        return -1;
    fy_str_printf(&path, "%s/" FY_QNN_DIR "/" FY_RANGES_NAME, c->o->out);
    if (path.oom)
        rc = fy_nomem(e);
    else if (fy_file_exists(path.ptr) || (c->o->calibration != NULL && !c->parts.finishes))
        rc = get_ranges_at(c, path.ptr, e);
    else if (c->o->calibration != NULL)
        rc = fy_compile_fail_missing(c, 1, "has not calibrated", 1, e);
    else
        rc = fy_fail(e, FY_EARG,
                     "recipe %s%s need ranges: --calibration TEXT, or --ranges FILE.json of an "
                     "earlier run",
                     c->recipe->name,
                     c->needs_ranges ? " computes in fixed numbers, which"
                                     : " and --seq-mse together");
    fy_str_release(&path);
    return rc;
}
