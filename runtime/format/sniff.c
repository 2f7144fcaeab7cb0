/* A table of first bytes, and the tests for formats without a fixed mark. */
#include "format/sniff.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "base/math.h"
#include "format/safetensors.h"

typedef struct {
    uint16_t at; /* offset of the mark */
    uint8_t len;
    bool any_case;
    const char *mark;
    const char *what;
} mark;

#define MARK(at, text, what)                    \
    {                                           \
        at, sizeof(text) - 1, false, text, what \
    }
#define TEXT(text, what)                      \
    {                                         \
        0, sizeof(text) - 1, true, text, what \
    }

static const char html[] = "an HTML page saved in place of the file; download the file itself",
                  legacy[] =
                      "a GGML model of a format older than GGUF; convert its checkpoint again",
                  torch_zip[] = "a zip archive, as PyTorch writes its checkpoints",
                  pickle[] = "a Python pickle, as PyTorch wrote its checkpoints before zip";

static const mark marks[] = {
    TEXT("version https://git-lfs.github.com/spec/",
         "a Git LFS pointer: the weights were not downloaded; run git lfs pull"),
    TEXT("version https://hawser.github.com/spec/",
         "a Git LFS pointer: the weights were not downloaded; run git lfs pull"),
    TEXT("<!doctype html", html),
    TEXT("<html", html),
    TEXT("<head", html),
    TEXT("<?xml", "an XML page saved in place of the file; download the file itself"),
    TEXT("Entry not found", "a download error page (\"Entry not found\")"),
    TEXT("Repository not found", "a download error page (\"Repository not found\")"),
    TEXT("Access to model ", "a download error page (the model asks for a login)"),
    TEXT("Invalid username or password", "a download error page (the model asks for a login)"),
    MARK(0, "GGUF", FY_SNIFF_GGUF),
    MARK(0, "PWRI", FY_SNIFF_GGUF),
    MARK(0, "lmgg", legacy),
    MARK(0, "fmgg", legacy),
    MARK(0, "tjgg", legacy),
    MARK(0, "algg", "a GGML LoRA file of a format older than GGUF"),
    MARK(0, "PK\x03\x04", torch_zip),
    MARK(0, "\x80\x02", pickle),
    MARK(0, "\x80\x03", pickle),
    MARK(0, "\x80\x04", pickle),
    MARK(0, "\x93NUMPY", "a NumPy array"),
    MARK(0, "\x89HDF\r\n", "an HDF5 file, as Keras writes its weights"),
    MARK(4, "TFL3", "a TensorFlow Lite model"),
    MARK(257, "ustar", FY_SNIFF_TAR),
    MARK(0, "\x1F\x8B", FY_SNIFF_GZIP),
    MARK(0, "\x28\xB5\x2F\xFD", FY_SNIFF_ZSTD),
    MARK(0, "\xFD\x37zXZ", "an xz archive"),
    MARK(0,
         "\x7F"
         "ELF",
         "a program (ELF)"),
    MARK(0, "%PDF-", "a PDF document"),
};

static bool matches(const mark *m, const char *p, size_t n)
{
    if (m->any_case) { /* text may begin with white space or a byte order mark */
        size_t skip = n >= 3 && memcmp(p, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
        while (skip < n && skip < 64 && p[skip] != '\0' && strchr(" \t\r\n", p[skip]) != NULL)
            skip++;
        return n - skip >= m->len && strncasecmp(p + skip, m->mark, m->len) == 0;
    }
    return n >= (size_t)m->at + m->len && memcmp(p + m->at, m->mark, m->len) == 0;
}

static bool is_json(const char *p, size_t n)
{
    size_t i = 0;
    while (i < n && p[i] != '\0' && strchr(" \t\r\n", p[i]) != NULL)
        i++;
    return i + 1 < n && (p[i] == '{' || p[i] == '[') && strchr(" \t\r\n\"{}[]", p[i + 1]) != NULL &&
           p[i + 1] != '\0';
}

static bool is_safetensors(const char *p, size_t n)
{
    if (n < 10 || fy_le64(p) < 2 || fy_le64(p) > FY_ST_MAX_HEADER)
        return false;
    size_t i = 8;
    while (i < n && p[i] == ' ')
        i++;
    return i < n && p[i] == '{';
}

static bool is_zero(const char *p, size_t n)
{
    size_t head = n < 4096 ? n : 4096;
    return head >= 8 && p[0] == 0 && memcmp(p, p + 1, head - 1) == 0;
}

const char *fy_sniff(const void *bytes, size_t n)
{
    const char *p = bytes;
    if (n == 0)
        return "an empty file";
    if (is_safetensors(p, n))
        return FY_SNIFF_SAFETENSORS;
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
        if (matches(&marks[i], p, n))
            return marks[i].what;
    }
    if (is_json(p, n))
        return FY_SNIFF_JSON;
    return is_zero(p, n) ? "nothing but zero bytes, as an interrupted download leaves them" : NULL;
}
