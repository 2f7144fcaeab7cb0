/* The programs and libraries of a workspace: bin/, with the device build of ferry or another
 * runtime, and qnn_libs/, the vendor's libraries for the NPU. Each is looked at before it is taken.
 */
#include "workspace/pack/create_impl.h"

#include <errno.h>
#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "bundle/bundle.h"
#include "cli/cut_model.h"
#include "workspace/npu/compiled.h"
#include "workspace/npu/soc_table.h"
#include "workspace/pack/elf.h"
#include "workspace/pack/workspace.h"

/* --- the device build of ferry ---------------------------------------------------------------- */

#define INSTALLED "libexec/ferry/aarch64/ferry"
#define BUILT     "build/aarch64/release/ferry"

/* dir/rel if it exists; *oom is set when memory ran out. */
static char *candidate(const char *dir, const char *rel, bool *oom)
{
    char *p = fy_path_join(dir, rel);
    if (p == NULL)
        *oom = true;
    if (p != NULL && (!fy_file_exists(p) || fy_file_is_dir(p))) {
        free(p);
        p = NULL;
    }
    return p;
}

/* Cuts the last segment; false at the root. */
static bool cut(char *path)
{
    char *slash = strrchr(path, '/');
    if (slash == NULL || path[1] == '\0')
        return false;
    slash[slash == path] = '\0';
    return true;
}

static char *search(const char *self, bool *oom)
{
    char *dir = realpath(self, NULL), *found = NULL;
    if (dir == NULL || !cut(dir)) {
        free(dir);
        return NULL;
    }
    found = candidate(dir, "../" INSTALLED, oom);
    do {
        if (found == NULL)
            found = candidate(dir, BUILT, oom);
    } while (found == NULL && !*oom && cut(dir));
    free(dir);
    return found;
}

char *fy_device_exe(const char *exe_path, const char *self, fy_err *e)
{
    bool oom = false;
    char *p;
    if (exe_path != NULL)
        p = fy_file_is_dir(exe_path) ? candidate(exe_path, "ferry", &oom) : strdup(exe_path);
    else
        p = self != NULL ? search(self, &oom) : NULL;
    if (p == NULL) {
        if (oom)
            fy_nomem(e);
        else if (exe_path != NULL)
            fy_fail(e, FY_EARG,
                    "%s: holds no file 'ferry'; expected the aarch64 build ('make TARGET=aarch64' "
                    "makes it)",
                    exe_path);
        else
            fy_fail(e, FY_EARG,
                    "the phone's program is not built (neither ../" INSTALLED " nor " BUILT
                    " is there): 'scripts/bootstrap && make TARGET=aarch64' in ferry's source "
                    "makes it, or name one with --exe-path");
        return NULL;
    }
    char *real = realpath(p, NULL);
    if (real == NULL)
        fy_fail_errno(e, "%s: cannot open the device program", p);
    free(p);
    if (real != NULL && fy_elf_check_file(real, FY_TARGET_ARM64, e) != 0) {
        free(real);
        real = NULL;
        if (e != NULL && e->code == FY_EVERIFY)
            e->code = FY_EARG; /* the user named a wrong file: nothing of ours failed a check */
    }
    return real;
}

enum { MAX_FILES = 4096, MAX_EXEC = 4096 };

/* --- another runtime -------------------------------------------------------------------------- */

static bool is_program(fy_elf_kind kind)
{
    return kind == FY_ELF_STATIC || kind == FY_ELF_ANDROID || kind == FY_ELF_GLIBC;
}

/* What a file is, and with it the mode that it gets: programs and scripts can be started, whatever
 * their mode on the disk is. */
static int look_at(const char *path, const struct stat *st, uint32_t *mode, fy_err *e)
{
    fy_map map;
    fy_elf_info info;
    if (fy_map_open(&map, path, e) != 0)
        return -1;
    bool script = map.size >= 2 && memcmp(map.data, "#!", 2) == 0;
    int rc = fy_elf_inspect(map.data, map.size, &info, e);
    fy_map_close(&map);
    if (rc == 0 && info.kind == FY_ELF_DSP)
        rc = fy_fail(e, FY_EARG,
                     "is built for the Hexagon DSP; such libraries belong to qnn_libs/, expected "
                     "aarch64");
    if (rc != 0) {
        if (e != NULL && e->code == FY_EVERIFY)
            e->code = FY_EARG; /* the user named a wrong file: nothing of ours failed a check */
        return fy_ctx(e, "%s", path);
    }
    if (info.kind == FY_ELF_GLIBC)
        fy_log(FY_LOG_WARN,
               "%s: is linked for glibc's loader, which phones lack; it cannot start there unless "
               "the loader is brought along",
               path);
    bool starts = is_program(info.kind) ||
                  ((st->st_mode & 0111) != 0 && (script || info.kind == FY_ELF_LIBRARY));
    *mode = starts ? 0755 : 0644;
    return 0;
}

static int add_file(const char *path, const char *rel, const struct stat *st, fy_inputs *out,
                    fy_err *e)
{
    uint32_t mode = 0644;
    char *to = fy_path_format(e, "bin/%s", rel);
    int rc = to != NULL ? look_at(path, st, &mode, e) : -1;
    if (rc == 0 && out->n == MAX_FILES)
        rc = fy_fail(e, FY_EARG, "more than %d files; expected the directory of a runtime",
                     MAX_FILES);
    if (rc == 0)
        rc = fy_inputs_add(out, path, to, mode, e);
    free(to);
    return rc;
}

static int walk(FTS *fts, const char *dir, fy_inputs *out, fy_err *e)
{
    FTSENT *en;
    while (errno = 0, (en = fts_read(fts)) != NULL) {
        const char *rel = en->fts_path + strlen(dir);
        while (*rel == '/')
            rel++;
        switch (en->fts_info) {
        case FTS_D:
        case FTS_DP:
            break;
        case FTS_F:
            if (add_file(en->fts_path, rel, en->fts_statp, out, e) != 0)
                return -1;
            break;
        case FTS_DC:
            return fy_fail(e, FY_EARG, "%s: is a link to a directory above it", en->fts_path);
        case FTS_DNR:
        case FTS_ERR:
        case FTS_NS:
            errno = en->fts_errno;
            return fy_fail_errno(e, "%s: cannot read", en->fts_path);
        default:
            return fy_fail(e, FY_EARG, "%s: is neither a file nor a directory, nor a link to one",
                           en->fts_path);
        }
    }
    return errno == 0 ? 0 : fy_fail_errno(e, "%s: cannot list", dir);
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

static int add_tree(const char *dir, fy_inputs *out, fy_err *e)
{
    char *root = strdup(dir);
    if (root == NULL)
        return fy_nomem(e);
    char *const roots[] = {root, NULL};
    int rc = -1;
    FTS *fts = fts_open(roots, FTS_LOGICAL | FTS_NOCHDIR, by_name);
    if (fts == NULL) {
        fy_fail_errno(e, "%s: cannot list", dir);
    } else {
        rc = walk(fts, root, out, e);
        fts_close(fts);
    }
    free(root);
    return rc;
}

static int add_runtime(const char *path, fy_inputs *out, fy_err *e)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return fy_fail_errno(e, "%s: cannot open the runtime", path);
    return S_ISDIR(st.st_mode) ? add_tree(path, out, e)
                               : add_file(path, fy_path_base(path).ptr, &st, out, e);
}

/* --- the command line ------------------------------------------------------------------------- */

/* The first word that is not NAME=VALUE. */
static fy_span program_of(const char *exec)
{
    for (const char *p = exec;;) {
        p += strspn(p, " ");
        size_t n = strcspn(p, " ");
        const char *equals = memchr(p, '=', n);
        if (n == 0 || equals == NULL || equals == p)
            return (fy_span){p, n};
        p += n;
    }
}

static int check_exec(const char *exec, const fy_inputs *l, fy_err *e)
{
    char shown[FY_QUOTE_BYTES], rel[FY_MANIFEST_MAX_PATH + 1];
    fy_span program = program_of(exec);
    for (const char *p = exec; *p != '\0'; p++) {
        if ((unsigned char)*p < ' ' || *p == 0x7f)
            return fy_fail(e, FY_EARG, "--exec: holds a control character, expected one line");
    }
    if (strlen(exec) > MAX_EXEC)
        return fy_fail(e, FY_EARG, "--exec: %zu bytes, expected at most %d", strlen(exec),
                       MAX_EXEC);
    if (program.len > 2 && memcmp(program.ptr, "./", 2) == 0)
        program = (fy_span){program.ptr + 2, program.len - 2};
    snprintf(rel, sizeof rel, "%.*s", (int)program.len, program.ptr);
    const fy_input *found = fy_inputs_find(l, rel);
    if (found != NULL && found->mode == 0755)
        return 0;
    return fy_fail(e, FY_EARG,
                   "--exec: begins with '%s', which %s; expected a program of the workspace, such "
                   "as 'bin/powerserve-run -d .'",
                   fy_quote(shown, sizeof shown, program),
                   found == NULL ? "it does not have" : "cannot be started");
}

/* --- bin/ ------------------------------------------------------------------------------------- */

int fy_create_runtime(const fy_create_params *p, fy_inputs *out, fy_err *e)
{
    if (p->exec != NULL && p->exe_path != NULL && add_runtime(p->exe_path, out, e) != 0)
        return -1;
    if (fy_inputs_find(out, FY_BUNDLE_EXE) == NULL) {
        /* with another runtime ferry itself is a convenience: push and selftest use it */
        bool needed = p->exec == NULL || p->exe_path == NULL;
        fy_err why = {0};
        char *exe = fy_device_exe(needed ? p->exe_path : NULL, p->self, &why);
        int rc = 0;
        if (exe != NULL)
            rc = fy_inputs_add(out, exe, FY_BUNDLE_EXE, 0755, e);
        else if (needed)
            rc = fy_fail(e, why.code, "%s", why.msg);
        else
            fy_log(FY_LOG_WARN,
                   "without " FY_BUNDLE_EXE ": %s; push and --device do less without it", why.msg);
        free(exe);
        if (rc != 0)
            return rc;
    }
    return p->exec != NULL ? check_exec(p->exec, out, e) : 0;
}

/* --- qnn_libs/ -------------------------------------------------------------------------------- */

/* name and dir hold at most one %d, the architecture's. */
static void put_arch(fy_str *out, const char *text, int arch)
{
    const char *hole = strstr(text, "%d");
    if (hole == NULL)
        fy_str_puts(out, text);
    else
        fy_str_printf(out, "%.*s%d%s", (int)(hole - text), text, arch, hole + 2);
}

/* As the SDK keeps them, or all in one directory. NULL: not found, or out of memory (*oom). */
static char *find_lib(const char *root, const fy_htp_lib *lib, int arch, bool *oom)
{
    for (int flat = 0; flat < 2; flat++) {
        fy_str path = {0};
        fy_str_printf(&path, "%s/", root);
        if (!flat) {
            put_arch(&path, lib->dir, arch);
            fy_str_putc(&path, '/');
        }
        put_arch(&path, lib->name, arch);
        if (path.oom) {
            *oom = true;
            fy_str_release(&path);
            return NULL;
        }
        if (fy_file_exists(path.ptr) && !fy_file_is_dir(path.ptr))
            return path.ptr;
        fy_str_release(&path);
    }
    return NULL;
}

static int check_lib(const char *path, bool dsp, fy_err *e)
{
    fy_map map;
    fy_elf_info info;
    if (fy_map_open(&map, path, e) != 0)
        return -1;
    int rc = fy_elf_inspect(map.data, map.size, &info, e);
    fy_map_close(&map);
    if (rc == 0 && info.kind != (dsp ? FY_ELF_DSP : FY_ELF_LIBRARY)) {
        fy_str what = {0};
        fy_elf_text(&info, &what);
        rc = fy_fail(e, FY_EARG, "is %s, expected a library for %s", fy_str_z(&what),
                     dsp ? "the Hexagon DSP" : "aarch64");
        fy_str_release(&what);
    }
    if (rc == 0)
        return 0;
    if (e != NULL && e->code == FY_EVERIFY)
        e->code = FY_EARG; /* the user named a wrong file: nothing of ours failed a check */
    return fy_ctx(e, "%s", path);
}

static int missing(const char *root, const fy_htp_lib *lib, int arch, fy_err *e)
{
    fy_str name = {0}, dir = {0};
    put_arch(&name, lib->name, arch);
    put_arch(&dir, lib->dir, arch);
    int rc = 0;
    if (lib->optional)
        fy_log(FY_LOG_WARN, "%s has no %s (some releases of the SDK do not)", root,
               fy_str_z(&name));
    else
        rc = fy_fail(
            e, FY_EARG,
            "%s: not found, neither as %s/%s/%s nor as %s/%s; expected an SDK with V%d, or "
            "a directory with its libraries",
            fy_str_z(&name), root, fy_str_z(&dir), fy_str_z(&name), root, fy_str_z(&name), arch);
    fy_str_release(&name);
    fy_str_release(&dir);
    return rc;
}

static int add_lib(const char *root, const fy_htp_lib *lib, int arch, fy_inputs *out, fy_err *e)
{
    bool oom = false;
    char *from = find_lib(root, lib, arch, &oom);
    if (from == NULL)
        return oom ? fy_nomem(e) : missing(root, lib, arch, e);
    fy_str rel = {0};
    fy_str_puts(&rel, "qnn_libs/");
    put_arch(&rel, lib->name, arch);
    int rc = rel.oom ? fy_nomem(e) : check_lib(from, lib->dsp, e);
    if (rc == 0)
        rc = fy_inputs_add(out, from, rel.ptr, 0644, e);
    fy_str_release(&rel);
    free(from);
    return rc;
}

int fy_create_htp(const fy_create_params *p, const fy_create_sources *s, int *htp, fy_err *e)
{
    *htp = p->htp;
    for (size_t i = 0; i < s->n; i++) {
        const fy_qnn_compiled *c = &s->item[i].compiled;
        if (c->arch == 0)
            continue;
        if (*htp == 0 && p->qnn_libs != NULL)
            *htp = (int)c->arch;
        if (*htp != 0 && *htp != (int)c->arch)
            return fy_fail(e, FY_EARG,
                           "%s: is compiled for V%u (%s), expected V%d; compile it for that chip, "
                           "or choose another one with --soc or --htp",
                           s->item[i].qnn, c->arch, c->soc, *htp);
    }
    return 0;
}

/* Can the library read what each of the models was compiled to? */
static int check_releases(const fy_create_sources *s, const char *library, fy_err *e)
{
    for (size_t i = 0; i < s->n; i++) {
        const fy_create_source *m = &s->item[i];
        fy_qnn_config c;
        fy_err why = {0};
        if (m->compiled.arch == 0)
            continue;
        int rc = fy_cut_config_read(m->qnn, &c, e);
        if (rc == 0) {
            rc = fy_compiled_check_library(m->qnn, &c, library, &why);
            fy_qnn_config_release(&c);
            if (rc != 0)
                fy_fail(e, why.code == FY_EVERIFY ? FY_EARG : why.code, "%s: %s", library, why.msg);
        }
        if (rc != 0)
            return -1;
    }
    return 0;
}

int fy_create_qnn_libs(const fy_create_params *p, const fy_create_sources *s, int htp,
                       fy_inputs *out, fy_err *e)
{
    const char *sdk = getenv("QNN_SDK_ROOT");
    const char *root = p->qnn_libs != NULL             ? p->qnn_libs
                       : sdk != NULL && sdk[0] != '\0' ? sdk
                                                       : s->item[0].qnn;
    if (root == NULL)
        return fy_fail(e, FY_EARG,
                       "where are the libraries for V%d? Set QNN_SDK_ROOT to the vendor's SDK, or "
                       "name a directory with --qnn-libs",
                       htp);
    for (const fy_htp_lib *lib = fy_htp_libs; lib->name != NULL; lib++) {
        if ((lib->only == 0 || lib->only == htp) && add_lib(root, lib, htp, out, e) != 0)
            return -1;
    }
    return check_releases(s, fy_inputs_find(out, FY_QNN_LIBRARY)->from, e);
}
