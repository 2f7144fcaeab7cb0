/* What is below a workspace and not in its manifest: files, and directories without any ("DIR/"). */
#ifndef FY_WORKSPACE_TREE_H
#define FY_WORKSPACE_TREE_H

#include <stddef.h>

#include "base/err.h"
#include "bundle/manifest_read.h"

typedef struct {
    char **path; /* owned; relative, sorted; anything but directories counts as a file */
    size_t n;
} fy_tree;

int fy_tree_unlisted(const char *dir, const fy_manifest *m, fy_tree *out, fy_err *e);
void fy_tree_release(fy_tree *t);

#endif
