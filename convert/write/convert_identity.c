#include "convert/write/convert_identity.h"

#include <dirent.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/file.h"
#include "format/write_journal.h"

/* Whatever the container, it is among the files of its directory; outputs are not of it. */
static int is_source(const struct dirent *en)
{
    return en->d_name[0] != '.' && !fy_span_ends(fy_span_of(en->d_name), ".gguf") &&
           !fy_span_ends(fy_span_of(en->d_name), ".part");
}

/* In the order of their names. */
static int add_directory(fy_str *out, const char *dir, fy_err *e)
{
    struct dirent **list;
    const int n = scandir(dir, &list, is_source, alphasort);
    if (n < 0)
        return fy_fail_errno(e, "%s", dir);
    int rc = 0;
    for (int i = 0; i < n; i++) {
        char *path = fy_path_join(dir, list[i]->d_name);
        struct stat st;
        if (rc == 0 && path == NULL)
            rc = fy_nomem(e);
        if (rc == 0 && stat(path, &st) == 0 && S_ISREG(st.st_mode))
            rc = fy_identity_file(out, "source", path, e);
        free(path);
        free(list[i]);
    }
    free(list);
    return rc;
}

int fy_convert_identity(const char *checkpoint, fy_str *out, fy_err *e)
{
    if (fy_identity_program(out, e) != 0)
        return -1;
    return fy_file_is_dir(checkpoint) ? add_directory(out, checkpoint, e)
                                      : fy_identity_file(out, "source", checkpoint, e);
}
