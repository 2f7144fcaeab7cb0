/* What the NPU needs in a workspace: the vendor's libraries, and the context binaries of a model.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "workspace/npu/chunk.h"
#include "workspace/pack/create_impl.h"
#include "workspace/pack/elf.h"
#include "workspace/npu/htp.h"
#include "workspace/npu/qnn_check.h"

/* --- libraries -------------------------------------------------------------------------------- */

/* name and dir hold at most one %d, the architecture's. */
static void put_arch(fy_str *out, const char *text, int arch)
{
    const char *hole = strstr(text, "%d");
    if (hole == NULL)
        fy_str_puts(out, text);
    else
        fy_str_printf(out, "%.*s%d%s", (int)(hole - text), text, arch, hole + 2);
}

/* As the SDK keeps them, or all in one directory. NULL: in neither place, and out of memory when
 * *oom. */
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
        fy_elf_words(&info, &what);
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

static int add_lib(const char *root, const fy_htp_lib *lib, int arch, fy_pieces *out, fy_err *e)
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
        rc = fy_pieces_add(out, from, rel.ptr, 0644, e);
    fy_str_release(&rel);
    free(from);
    return rc;
}

int fy_create_qnn_libs(const fy_create_params *p, const char *beside, fy_pieces *out, fy_err *e)
{
    const char *sdk = getenv("QNN_SDK_ROOT");
    const char *root = p->qnn_libs != NULL             ? p->qnn_libs
                       : sdk != NULL && sdk[0] != '\0' ? sdk
                                                       : beside;
    if (root == NULL)
        return fy_fail(e, FY_EARG,
                       "where are the libraries for V%d? Set QNN_SDK_ROOT to the vendor's SDK, or "
                       "name a directory with --qnn-libs",
                       p->htp);
    for (const fy_htp_lib *lib = fy_htp_libs; lib->name != NULL; lib++) {
        if ((lib->only == 0 || lib->only == p->htp) && add_lib(root, lib, p->htp, out, e) != 0)
            return -1;
    }
    return 0;
}

/* --- context binaries ------------------------------------------------------------------------- */

char *fy_create_qnn_dir(const char *dir, fy_err *e)
{
    static const char *const below[] = {"", FY_QNN_DIR};
    for (size_t i = 0; i < sizeof below / sizeof below[0]; i++) {
        char *at = below[i][0] != '\0' ? fy_path_join(dir, below[i]) : strdup(dir);
        char *config = at != NULL ? fy_path_join(at, FY_QNN_CONFIG_NAME) : NULL;
        bool there = config != NULL && fy_file_exists(config);
        bool oom = config == NULL;
        free(config);
        if (there)
            return at;
        free(at);
        if (oom) {
            fy_nomem(e);
            return NULL;
        }
    }
    fy_fail(e, FY_EARG,
            "%s: has neither " FY_QNN_CONFIG_NAME " nor " FY_QNN_DIR "/" FY_QNN_CONFIG_NAME
            "; expected what PowerServe's converter writes, or a downloaded package",
            dir);
    return NULL;
}

typedef struct {
    const char *dir, *model;
    fy_pieces *out;
} lister;

static int add_file(void *user, const char *rel, uint64_t bytes, fy_err *e)
{
    const lister *l = user;
    (void)bytes;
    fy_str to = {0};
    char *from = fy_path_join(l->dir, rel);
    fy_str_printf(&to, "%s/" FY_QNN_DIR "/%s", l->model, rel);
    int rc = from == NULL || to.oom ? fy_nomem(e) : fy_pieces_add(l->out, from, to.ptr, 0644, e);
    free(from);
    fy_str_release(&to);
    return rc;
}

static int refused(const fy_err *why, const char *dir, fy_err *e)
{
    return fy_fail(e, why->code == FY_EVERIFY ? FY_EARG : why->code, "%s%s%s",
                   dir != NULL ? dir : "", dir != NULL ? "/" : "", why->msg);
}

int fy_create_qnn(fy_create_source *s, fy_err *e)
{
    fy_qnn_config c;
    lister l = {s->qnn, s->name, &s->npu};
    fy_err why = {0};
    if (fy_qnn_check_dir(s->qnn, &s->json, &c, &why) != 0)
        return refused(&why, s->qnn, e);
    int rc = 0;
    s->chunks = fy_qnn_has_gguf(&c);
    s->npu_preset = c.kv_size;
    if ((s->chunks || s->cut) &&
        fy_chunk_check_files(fy_gguf_path(fy_model_gguf(s->model)), s->qnn, &why) != 0)
        rc = refused(&why, NULL, e);
    if (rc == 0)
        rc = add_file(&l, FY_QNN_CONFIG_NAME, 0, e);
    if (rc == 0)
        rc = fy_qnn_config_files(&c, &s->json, add_file, &l, e);
    fy_qnn_config_release(&c);
    return rc;
}
