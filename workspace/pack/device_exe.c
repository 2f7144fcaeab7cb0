#include "workspace/pack/device_exe.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "workspace/pack/elf.h"
#include "workspace/pack/workspace.h"

#define INSTALLED "libexec/ferry/aarch64/ferry"
#define BUILT     "build/aarch64/release/ferry"

/* dir/rel when it is there; *oom is set when memory ran out. */
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
                    "no aarch64 build of ferry found (neither ../" INSTALLED " nor " BUILT
                    "); build it with 'make TARGET=aarch64', or name one with --exe-path");
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
