/* bin/: the device build of ferry, and another runtime with its libraries. */
#include <errno.h>
#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/log.h"
#include "base/quote.h"
#include "bundle/bundle.h"
#include "workspace/pack/create_impl.h"
#include "workspace/pack/device_exe.h"
#include "workspace/pack/elf.h"

enum { MAX_FILES = 4096, MAX_EXEC = 4096 };

/* --- another runtime -------------------------------------------------------------------------- */

static bool is_program(fy_elf_kind kind)
{
    return kind == FY_ELF_STATIC || kind == FY_ELF_ANDROID || kind == FY_ELF_GLIBC;
}

/* What a file is, and with it the mode that it gets: programs and scripts can be started, whatever
 * the disk they come from says. */
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

static int add_file(const char *path, const char *rel, const struct stat *st, fy_pieces *out,
                    fy_err *e)
{
    fy_str to = {0};
    uint32_t mode = 0644;
    fy_str_printf(&to, "bin/%s", rel);
    int rc = to.oom ? fy_nomem(e) : look_at(path, st, &mode, e);
    if (rc == 0 && out->n == MAX_FILES)
        rc = fy_fail(e, FY_EARG, "more than %d files; expected the directory of a runtime",
                     MAX_FILES);
    if (rc == 0)
        rc = fy_pieces_add(out, path, to.ptr, mode, e);
    fy_str_release(&to);
    return rc;
}

static int walk(FTS *fts, const char *dir, fy_pieces *out, fy_err *e)
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

static int add_tree(const char *dir, fy_pieces *out, fy_err *e)
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

static int add_runtime(const char *path, fy_pieces *out, fy_err *e)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return fy_fail_errno(e, "%s: cannot open the runtime", path);
    return S_ISDIR(st.st_mode) ? add_tree(path, out, e)
                               : add_file(path, fy_path_base(path).ptr, &st, out, e);
}

/* --- the command line ------------------------------------------------------------------------- */

/* The first word that is no NAME=VALUE. */
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

static int check_exec(const char *exec, const fy_pieces *l, fy_err *e)
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
    const fy_piece *found = fy_pieces_find(l, rel);
    if (found != NULL && found->mode == 0755)
        return 0;
    return fy_fail(e, FY_EARG,
                   "--exec: begins with '%s', which %s; expected a program of the workspace, such "
                   "as 'bin/powerserve-run -d .'",
                   fy_quote(shown, sizeof shown, program),
                   found == NULL ? "is no file of it" : "is no program");
}

/* --- all -------------------------------------------------------------------------------------- */

int fy_create_runtime(const fy_create_params *p, fy_pieces *out, fy_err *e)
{
    if (p->exec != NULL && p->exe_path != NULL && add_runtime(p->exe_path, out, e) != 0)
        return -1;
    if (fy_pieces_find(out, FY_BUNDLE_EXE) == NULL) {
        /* with another runtime ferry itself is a convenience: push and selftest use it */
        bool needed = p->exec == NULL || p->exe_path == NULL;
        fy_err why = {0};
        char *exe = fy_device_exe(needed ? p->exe_path : NULL, p->self, &why);
        int rc = 0;
        if (exe != NULL)
            rc = fy_pieces_add(out, exe, FY_BUNDLE_EXE, 0755, e);
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
