#include "hub/hub_env.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "base/opts.h"
#include "base/str.h"
#include "hub/hub_cache.h"

#define TOKEN_BYTES_MAX 4096
#define SILENCE_S       30

/* Not empty, or NULL. */
static const char *variable(const char *name)
{
    const char *v = getenv(name);
    return v != NULL && *v != '\0' ? v : NULL;
}

static bool is_true(const char *name)
{
    static const char *const words[] = {"1", "on", "yes", "true"};
    const char *v = variable(name);
    for (size_t i = 0; v != NULL && i < sizeof words / sizeof words[0]; i++) {
        if (strcasecmp(v, words[i]) == 0)
            return true;
    }
    return false;
}

bool fy_hub_is_offline(void)
{
    return is_true("HF_HUB_OFFLINE") || is_true("TRANSFORMERS_OFFLINE");
}

/* Without the blanks around it; NULL in *out when nothing is left. `source` is for the message. */
static int clean_token(const char *text, size_t n, const char *source, char **out, fy_err *e)
{
    while (n > 0 && strchr(" \t\r\n", text[n - 1]) != NULL)
        n--;
    while (n > 0 && strchr(" \t\r\n", *text) != NULL) {
        text++;
        n--;
    }
    for (size_t i = 0; i < n; i++) {
        if (text[i] <= ' ' || text[i] > '~')
            return fy_fail(e, FY_EARG,
                           "%s: byte %zu of it is in no token; expected letters, digits and '_'",
                           source, i + 1);
    }
    *out = n > 0 ? strndup(text, n) : NULL;
    return n > 0 && *out == NULL ? fy_nomem(e) : 0;
}

static int read_token_file(char **out, fy_err *e)
{
    const char *given = variable("HF_TOKEN_PATH");
    char *path = given != NULL ? strdup(given) : fy_hub_home("token", e);
    fy_map m;
    int rc = path != NULL ? 0 : fy_nomem(e);
    if (rc == 0 && fy_file_exists(path)) {
        rc = fy_map_open(&m, path, e);
        if (rc == 0) {
            rc = m.size > TOKEN_BYTES_MAX
                     ? fy_fail(e, FY_EFORMAT, "%s: %zu bytes, which is no token", path, m.size)
                     : clean_token((const char *)m.data, m.size, path, out, e);
            fy_map_close(&m);
        }
    }
    free(path);
    return rc;
}

static int read_token(char **out, fy_err *e)
{
    static const char *const names[] = {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *v = variable(names[i]);
        if (v != NULL)
            return clean_token(v, strlen(v), names[i], out, e);
    }
    return is_true("HF_HUB_DISABLE_IMPLICIT_TOKEN") ? 0 : read_token_file(out, e);
}

static int read_endpoint(char **out, fy_err *e)
{
    char q[FY_QUOTE_BYTES];
    const char *v = variable("HF_ENDPOINT");
    if (v == NULL)
        v = "https://huggingface.co";
    size_t n = strlen(v);
    while (n > 0 && v[n - 1] == '/')
        n--;
    if (strncasecmp(v, "https://", 8) != 0 && strncasecmp(v, "http://", 7) != 0)
        return fy_fail(e, FY_EARG, "HF_ENDPOINT: '%s', expected https://HOST",
                       fy_quote(q, sizeof q, fy_span_of(v)));
    if (memchr(v, '@', n) != NULL)
        return fy_fail(e, FY_EARG, "HF_ENDPOINT: expected https://HOST, without a user's name");
    *out = strndup(v, n);
    return *out != NULL ? 0 : fy_nomem(e);
}

int fy_hub_env_read(fy_hub_env *out, fy_err *e)
{
    fy_hub_env v = {.silence_s = SILENCE_S};
    const char *timeout = variable("HF_HUB_DOWNLOAD_TIMEOUT");
    int64_t s;
    int rc = 0;
    if (timeout != NULL) {
        if (!fy_parse_size(timeout, &s) || s < 1 || s > 3600)
            rc = fy_fail(e, FY_EARG, "HF_HUB_DOWNLOAD_TIMEOUT: expected 1 to 3600 seconds");
        else
            v.silence_s = (int)s;
    }
    if (rc != 0 || read_endpoint(&v.endpoint, e) != 0 || read_token(&v.token, e) != 0) {
        fy_hub_env_release(&v);
        return -1;
    }
    *out = v;
    return 0;
}

void fy_hub_env_release(fy_hub_env *v)
{
    free(v->endpoint);
    if (v->token != NULL)
        explicit_bzero(v->token, strlen(v->token));
    free(v->token);
    *v = (fy_hub_env){0};
}
