/* Reads the metadata of a context binary through libQnnSystem. Its answer is held to what can be
 * true: a release with another layout must be refused, not misread. */
#include "backend/qnn/qnn_system.h"

#include <string.h>

/* An entry of the list of graphs begins alike in all releases and grew at its end: SDK 2.23 and
 * older, 2.27 and older, newer ones. */
static const size_t strides[] = {48, 64, 88};
enum { N_STRIDES = sizeof strides / sizeof strides[0] };

static bool is_name(const char *s)
{
    size_t n = 0;
    if (s == NULL)
        return false;
    for (; n < 256 && s[n] != '\0'; n++) {
        if ((unsigned char)s[n] < 0x20 || (unsigned char)s[n] > 0x7e)
            return false;
    }
    return n > 0 && n < 256;
}

static bool are_tensors(const fy_qnn_tensor *t, uint32_t n)
{
    if (n > FY_QNN_TENSORS_MAX || (t == NULL && n > 0))
        return false;
    for (uint32_t i = 0; i < n; i++) {
        const fy_qnn_tensor_v1 *v = &t[i].u.v1; /* a version 2 begins with it */
        if (t[i].version < 1 || t[i].version > 2 || !is_name(v->name) || v->rank == 0 ||
            v->rank > 8 || v->dims == NULL)
            return false;
        for (uint32_t k = 0; k < v->rank; k++) {
            if (v->dims[k] == 0)
                return false;
        }
    }
    return true;
}

static bool take_graph(const char *entry, fy_qnn_graph_io *out)
{
    fy_qnn_graph_info info;
    memcpy(&info, entry, sizeof info);
    if (info.version < 1 || info.version > 3 || !is_name(info.name) ||
        !are_tensors(info.inputs, info.n_inputs) || !are_tensors(info.outputs, info.n_outputs))
        return false;
    *out = (fy_qnn_graph_io){info.name, info.n_inputs, info.n_outputs, info.inputs, info.outputs};
    return true;
}

/* The first stride at which every entry holds together: a smaller one than the library's ends at
 * the second entry, whose version and name are then other members, and never leaves the list. */
static int take_graphs(fy_qnn_binary *b, const void *graphs, uint32_t n, fy_err *e)
{
    if (n == 0 || n > FY_QNN_GRAPHS_MAX || graphs == NULL)
        return fy_fail(e, FY_EFORMAT, "the QNN system library lists %u graphs, expected 1 to %d", n,
                       FY_QNN_GRAPHS_MAX);
    for (size_t i = 0; i < N_STRIDES; i++) {
        uint32_t k = 0;
        while (k < n && take_graph((const char *)graphs + k * strides[i], &b->graph[k]))
            k++;
        b->n_graphs = n;
        if (k == n)
            return 0;
        if (k == 0) /* all begin alike */
            break;
    }
    return fy_fail(e, FY_EFORMAT,
                   "the QNN system library (interface %u.%u) describes graphs in a layout that "
                   "ferry does not know",
                   b->lib.version.major, b->lib.version.minor);
}

static int take_info(fy_qnn_binary *b, const fy_qnn_binary_info *info, fy_err *e)
{
    b->info_version = info->version;
    if (info->version == 1 || info->version == 2) {
        b->build_id = info->u.v1.build_id;
        b->core = info->u.v1.core;
        return take_graphs(b, info->u.v1.graphs, info->u.v1.n_graphs, e);
    }
    if (info->version == 3) {
        b->build_id = info->u.v3.build_id;
        b->core = info->u.v3.core;
        b->soc = info->u.v3.soc_model;
        return take_graphs(b, info->u.v3.graphs, info->u.v3.n_graphs, e);
    }
    return fy_fail(e, FY_EUNSUPPORTED,
                   "the QNN system library answers in version %u, expected 1 to 3", info->version);
}

int fy_qnn_binary_open(const char *path, const void *binary, uint64_t bytes, fy_qnn_binary *out,
                       fy_err *e)
{
    const fy_qnn_binary_info *info = NULL;
    uint64_t info_bytes = 0;
    void *view;
    memset(out, 0, sizeof *out);
    memcpy(&view, &binary, sizeof view); /* the older function is declared without const */
    if (fy_qnn_system_open(path, &out->lib, e) != 0)
        return -1;
    fy_qnn_error err = out->lib.table.create(&out->handle);
    if (err == 0)
        err = out->lib.table.metadata != NULL
                  ? out->lib.table.metadata(out->handle, binary, bytes, &info)
                  : out->lib.table.binary_info(out->handle, view, bytes, &info, &info_bytes);
    if (err != 0 || info == NULL)
        fy_fail(e, FY_EFORMAT, "systemContextGetMetaData: QNN error %u; see 'ferry explain %u'",
                fy_qnn_code(err), fy_qnn_code(err));
    else if (take_info(out, info, e) == 0)
        return 0;
    fy_qnn_binary_close(out);
    return -1;
}

void fy_qnn_binary_close(fy_qnn_binary *b)
{
    if (b->handle != NULL)
        b->lib.table.free(b->handle);
    b->handle = NULL;
}
