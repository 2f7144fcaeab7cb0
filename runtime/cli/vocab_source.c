#include "cli/vocab_source.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/path.h"
#include "bundle/bundle.h"
#include "cli/terminal.h"
#include "cli/verb.h"

static fy_gguf *open_checkpoint(const char *dir, fy_err *e)
{
    const fy_verb *convert = fy_verb_find("convert");
    if (convert == NULL) {
        fy_fail(e, FY_EUNSUPPORTED,
                "%s: is %s, and this build of ferry cannot convert; run 'ferry convert "
                "--vocab-only -o vocab.gguf %s' on the host and give that file",
                dir,
                fy_file_is_dir(dir) ? "a directory without " FY_BUNDLE_WORKSPACE_JSON
                                    : "a tokenizer file",
                dir);
        return NULL;
    }
    fy_log_level before = fy_log_show(FY_LOG_WARN);
    if (before == FY_LOG_DEBUG) /* the conversion is a means here, but the user wants to see all */
        fy_log_show(before);
    fy_gguf *g = convert->vocabulary(dir, e);
    fy_log_show(before);
    return g;
}

static fy_gguf *open_workspace(const char *dir, fy_err *e)
{
    fy_bundle b;
    if (fy_bundle_open(dir, &b, e) != 0)
        return NULL;
    fy_gguf *g = fy_gguf_open(b.weights, e);
    fy_bundle_release(&b);
    return g;
}

static bool is_workspace(const char *dir)
{
    char *file = fy_path_join(dir, FY_BUNDLE_WORKSPACE_JSON);
    bool yes = file != NULL && fy_file_exists(file);
    free(file);
    return yes;
}

static bool has_weights(const char *dir)
{
    char *file = fy_path_join(dir, FY_BUNDLE_WEIGHTS);
    bool yes = file != NULL && fy_file_exists(file);
    free(file);
    return yes;
}

/* Of a model that was cut, or as PowerServe keeps it: all keys are in the embedding. */
static fy_gguf *open_model_dir(const char *dir, fy_err *e)
{
    char *file = fy_path_join(dir, FY_BUNDLE_WEIGHTS);
    fy_gguf *g = file != NULL ? fy_gguf_open(file, e) : NULL;
    if (file == NULL)
        fy_nomem(e);
    free(file);
    return g;
}

/* By its name: of anything else the reader of GGUF says best what it is. */
static bool is_tokenizer_file(const char *path)
{
    static const char *const ends[] = {".json", ".model", ".txt", ".tiktoken"};
    size_t n = strlen(path);
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        size_t k = strlen(ends[i]);
        if (n > k && strcmp(path + n - k, ends[i]) == 0)
            return fy_file_exists(path);
    }
    return false;
}

fy_gguf *fy_vocab_source_open(const char *path, fy_err *e)
{
    if (fy_verb_find("convert") != NULL && fy_hub_id_is_meant(path))
        return open_checkpoint(path, e); /* convert looks into the cache */
    if (!fy_file_is_dir(path))
        return is_tokenizer_file(path) ? open_checkpoint(path, e) : fy_gguf_open(path, e);
    return is_workspace(path)  ? open_workspace(path, e)
           : has_weights(path) ? open_model_dir(path, e)
                               : open_checkpoint(path, e);
}
