/* Collects the general.* keys from the model card, config.json and the directory's name, and writes
 * them. */
#include "convert/write/model_meta.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "convert/write/model_id.h"

/* Texts, in the order in which they are written. `card`: keys of the model card, the first that is
 * there counts. */
static const struct {
    const char *key;
    const char *card[4];
} texts[] = {
    {"name", {"name", "model_name"}},
    {"author", {"author", "model_author", "model_creator"}},
    {"version", {"version", "model_version"}},
    {"organization", {"organization", "model_organization"}},
    {"finetune", {"finetune", "model_finetune"}},
    {"basename", {"basename", "model_basename", "model_type"}},
    {"description", {"description", "model_description"}},
    {"size_label", {"size_label", "model_size_label"}},
    {"license", {"license"}},
    {"license.name", {"license_name"}},
    {"license.link", {"license_link"}},
    {"source.url", {"url", "model_url"}},
    {"source.doi", {"doi", "model_doi"}},
    {"source.uuid", {"uuid", "model_uuid"}},
    {"source.repo_url", {"repo_url", "model_repo_url"}},
};
enum { N_TEXTS = sizeof texts / sizeof texts[0] };

/* Of an origin: general.base_model.0.name, ... */
static const char *const origin_keys[] = {"name",        "author", "version", "organization",
                                          "description", "url",    "doi",     "uuid",
                                          "repo_url",    NULL};

const char *fy_model_meta_text(const fy_model_meta *m, const char *key)
{
    return json_string_value(json_object_get(m->values, key));
}

/* --- collecting ----------------------------------------------------------------------------- */

/* Unless the key is there already, or the text is empty. */
static int offer(json_t *values, const char *key, fy_span text, fy_err *e)
{
    if (text.len == 0 || json_object_get(values, key) != NULL)
        return 0;
    if (!fy_utf8_valid(text.ptr, text.len)) /* a name of the file system */
        return 0;
    json_t *v = json_stringn(text.ptr, text.len);
    return json_object_set_new(values, key, v) == 0 ? 0 : fy_nomem(e); /* v NULL: too */
}

static int offer_str(json_t *values, const char *key, const fy_str *text, fy_err *e)
{
    return text->oom ? fy_nomem(e) : offer(values, key, (fy_span){fy_str_z(text), text->len}, e);
}

/* A text, or a list of texts with commas in between. */
static int offer_value(json_t *values, const char *key, const json_t *v, fy_err *e)
{
    fy_str joined = {0};
    if (json_is_string(v))
        return offer(values, key, (fy_span){json_string_value(v), json_string_length(v)}, e);
    for (size_t i = 0; i < json_array_size(v); i++) {
        const char *item = json_string_value(json_array_get(v, i));
        if (item != NULL)
            fy_str_printf(&joined, "%s%s", joined.len > 0 ? "," : "", item);
    }
    int rc = offer_str(values, key, &joined, e);
    fy_str_release(&joined);
    return rc;
}

static int offer_title(json_t *values, const char *key, const fy_str *id, fy_err *e)
{
    fy_str title = {0};
    fy_model_id_title((fy_span){fy_str_z(id), id->len}, &title);
    int rc = offer_str(values, key, &title, e);
    fy_str_release(&title);
    return rc;
}

static int offer_id(json_t *values, const char *id, uint64_t n_params, fy_err *e)
{
    fy_model_id parts;
    fy_model_id_parse(fy_span_of(id), n_params, &parts);
    int rc = fy_model_id_oom(&parts) ? fy_nomem(e) : offer_title(values, "name", &parts.name, e);
    if (rc == 0)
        rc = offer_title(values, "organization", &parts.org, e);
    if (rc == 0)
        rc = offer_str(values, "basename", &parts.basename, e);
    if (rc == 0)
        rc = offer_str(values, "finetune", &parts.finetune, e);
    if (rc == 0)
        rc = offer_str(values, "version", &parts.version, e);
    if (rc == 0)
        rc = offer_str(values, "size_label", &parts.size_label, e);
    fy_model_id_release(&parts);
    return rc;
}

/* Adds a text, or the texts of a list, to a list of the metadata. */
static int extend(json_t *values, const char *key, const json_t *from, fy_err *e)
{
    json_t *list = json_object_get(values, key);
    size_t n = json_is_string(from) ? 1 : json_array_size(from);
    for (size_t i = 0; i < n; i++) {
        const json_t *item = json_is_string(from) ? from : json_array_get(from, i);
        if (json_string_length(item) == 0)
            continue;
        if (list == NULL) {
            list = json_array();
            if (json_object_set_new(values, key, list) != 0)
                return fy_nomem(e);
        }
        if (json_array_append_new(list, json_string(json_string_value(item))) != 0)
            return fy_nomem(e);
    }
    return 0;
}

/* --- where it comes from -------------------------------------------------------------------- */

/* "https://huggingface.co/ORG/NAME": where ORG/NAME begins; NULL: something else. */
static const char *hub_id(const char *url)
{
    static const char *const hosts[] = {"https://huggingface.co/", "http://huggingface.co/"};
    for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++) {
        const char *id = url + strlen(hosts[i]), *slash;
        if (strncmp(url, hosts[i], strlen(hosts[i])) != 0)
            continue;
        slash = strchr(id, '/');
        if (slash != NULL && slash > id && slash[1] != '\0' && strchr(slash + 1, '/') == NULL)
            return id;
    }
    return NULL;
}

/* name, organization, version out of "ORG/NAME". */
static int origin_of_id(json_t *origin, const char *id, uint64_t n_params, bool link, fy_err *e)
{
    fy_model_id parts;
    fy_str url = {0};
    fy_model_id_parse(fy_span_of(id), n_params, &parts);
    int rc = fy_model_id_oom(&parts) ? fy_nomem(e) : offer_title(origin, "name", &parts.name, e);
    if (rc == 0)
        rc = offer_title(origin, "organization", &parts.org, e);
    if (rc == 0)
        rc = offer_str(origin, "version", &parts.version, e);
    if (rc == 0 && link && parts.org.len > 0 && parts.name.len > 0) {
        fy_str_printf(&url, "https://huggingface.co/%s/%s", fy_str_z(&parts.org),
                      fy_str_z(&parts.name));
        rc = offer_str(origin, "repo_url", &url, e);
    }
    fy_str_release(&url);
    fy_model_id_release(&parts);
    return rc;
}

static int origin_of_text(json_t *origin, const char *text, uint64_t n_params, fy_err *e)
{
    bool is_url = strncmp(text, "http://", 7) == 0 || strncmp(text, "https://", 8) == 0 ||
                  strncmp(text, "ssh://", 6) == 0;
    if (!is_url)
        return origin_of_id(origin, text, n_params, true, e);
    const char *id = hub_id(text);
    if (offer(origin, "repo_url", fy_span_of(text), e))
        return -1;
    return id != NULL ? origin_of_id(origin, id, n_params, false, e) : 0;
}

static int add_origin(json_t *list, const json_t *from, uint64_t n_params, fy_err *e)
{
    json_t *origin = json_object();
    int rc = origin != NULL ? 0 : fy_nomem(e);
    if (rc == 0 && json_is_string(from))
        rc = origin_of_text(origin, json_string_value(from), n_params, e);
    for (const char *const *key = origin_keys; rc == 0 && *key != NULL; key++)
        rc = offer_value(origin, *key, json_object_get(from, *key), e);
    if (rc == 0 && json_object_size(origin) > 0 && json_array_append(list, origin) != 0)
        rc = fy_nomem(e);
    json_decref(origin);
    return rc;
}

/* The first of three keys of the card that is there: one origin or a list of them. */
static int add_origins(json_t *values, const char *key, const json_t *card,
                       const char *const names[3], uint64_t n_params, fy_err *e)
{
    const json_t *from = NULL;
    for (int i = 0; i < 3 && from == NULL; i++)
        from = json_object_get(card, names[i]);
    json_t *list = json_array();
    int rc = list != NULL ? 0 : fy_nomem(e);
    if (rc == 0 && json_is_string(from))
        rc = add_origin(list, from, n_params, e);
    for (size_t i = 0; rc == 0 && json_is_array(from) && i < json_array_size(from); i++)
        rc = add_origin(list, json_array_get(from, i), n_params, e);
    if (rc == 0 && json_array_size(list) > 0 && json_object_set(values, key, list) != 0)
        rc = fy_nomem(e);
    json_decref(list);
    return rc;
}

static int read_card(json_t *values, const fy_model_source *s, fy_err *e)
{
    static const char *const bases[] = {"base_model", "base_models", "base_model_sources"};
    static const char *const datasets[] = {"datasets", "dataset", "dataset_sources"};
    for (size_t i = 0; i < N_TEXTS; i++) {
        for (int k = 0; k < 4 && texts[i].card[k] != NULL; k++) {
            if (offer_value(values, texts[i].key, json_object_get(s->card, texts[i].card[k]), e))
                return -1;
        }
    }
    return add_origins(values, "base_model", s->card, bases, s->n_params, e) ||
                   add_origins(values, "dataset", s->card, datasets, s->n_params, e) ||
                   extend(values, "tags", json_object_get(s->card, "tags"), e) ||
                   extend(values, "tags", json_object_get(s->card, "pipeline_tag"), e) ||
                   extend(values, "languages", json_object_get(s->card, "languages"), e) ||
                   extend(values, "languages", json_object_get(s->card, "language"), e)
               ? -1
               : 0;
}

/* A name on the hub has one slash at most; anything else is a place on somebody's disk. */
static const char *id_in_config(const json_t *config)
{
    const char *id = json_string_value(json_object_get(config, "_name_or_path"));
    const char *slash = id != NULL ? strchr(id, '/') : NULL;
    return slash != NULL && (slash == id || strchr(slash + 1, '/') != NULL) ? NULL : id;
}

int fy_model_meta_init(fy_model_meta *m, const fy_model_source *s, fy_err *e)
{
    const char *id = id_in_config(s->config);
    m->values = json_object();
    int rc = m->values != NULL ? 0 : fy_nomem(e);
    if (rc == 0 && s->name != NULL)
        rc = offer(m->values, "name", fy_span_of(s->name), e);
    if (rc == 0)
        rc = read_card(m->values, s, e);
    if (rc == 0 && id != NULL)
        rc = offer_id(m->values, id, s->n_params, e);
    if (rc == 0)
        rc = offer_id(m->values, s->id, s->n_params, e);
    if (rc == 0)
        rc = offer(m->values, "name", FY_SPAN("model"), e);
    if (rc == 0 && s->size_label != NULL)
        rc = offer(m->values, "size_label", fy_span_of(s->size_label), e);
    if (rc != 0)
        fy_model_meta_release(m);
    return rc;
}

void fy_model_meta_release(fy_model_meta *m)
{
    json_decref(m->values);
    m->values = NULL;
}

/* --- writing -------------------------------------------------------------------------------- */

static int write_text(fy_gguf_writer *w, const char *key, const json_t *v, fy_err *e)
{
    if (v == NULL)
        return 0;
    return fy_gguf_add_str(w, key, (fy_span){json_string_value(v), json_string_length(v)}, e);
}

static int write_origins(fy_gguf_writer *w, const char *name, const json_t *list, fy_err *e)
{
    char key[96];
    if (list == NULL)
        return 0;
    snprintf(key, sizeof key, "general.%s.count", name);
    if (fy_gguf_add_u32(w, key, (uint32_t)json_array_size(list), e))
        return -1;
    for (size_t i = 0; i < json_array_size(list); i++) {
        for (const char *const *k = origin_keys; *k != NULL; k++) {
            snprintf(key, sizeof key, "general.%s.%zu.%s", name, i, *k);
            if (write_text(w, key, json_object_get(json_array_get(list, i), *k), e))
                return -1;
        }
    }
    return 0;
}

static int write_list(fy_gguf_writer *w, const char *key, const json_t *list, fy_err *e)
{
    if (list == NULL)
        return 0;
    if (fy_gguf_begin_strings(w, key, e))
        return -1;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *v = json_array_get(list, i);
        if (fy_gguf_add_string(w, (fy_span){json_string_value(v), json_string_length(v)}, e))
            return -1;
    }
    return fy_gguf_end_strings(w, e);
}

int fy_model_meta_write(const fy_model_meta *m, fy_gguf_writer *w, fy_err *e)
{
    for (size_t i = 0; i < N_TEXTS; i++) {
        char key[64];
        snprintf(key, sizeof key, "general.%s", texts[i].key);
        if (write_text(w, key, json_object_get(m->values, texts[i].key), e))
            return -1;
    }
    return write_origins(w, "base_model", json_object_get(m->values, "base_model"), e) ||
                   write_origins(w, "dataset", json_object_get(m->values, "dataset"), e) ||
                   write_list(w, "general.tags", json_object_get(m->values, "tags"), e) ||
                   write_list(w, "general.languages", json_object_get(m->values, "languages"), e)
               ? -1
               : 0;
}

/* --- the name of a file --------------------------------------------------------------------- */

static char file_name_char(char c)
{
    const unsigned char u = (unsigned char)c;
    return u <= ' ' || u == '/' || u == '\\' || u == 0x7f ? '-' : c;
}

/* Without spaces around it; what no file should have in its name becomes a dash. The name begins
 * with neither '-' (an option of other programs) nor '.' (hidden). Cut between letters, so that a
 * long name leaves room for the others. */
static void put_part(fy_str *out, const char *text)
{
    enum { MAX_PART = 40 };
    size_t n = strlen(text), begin = out->len;
    while (n > 0 && text[n - 1] == ' ')
        n--;
    for (;
         n > 0 && (*text == ' ' || (begin == 0 && (*text == '.' || file_name_char(*text) == '-')));
         n--)
        text++;
    if (n > MAX_PART)
        n = MAX_PART;
    while (n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80)
        n--;
    if (n > 0 && begin > 0)
        fy_str_putc(out, '-');
    for (size_t i = 0; i < n; i++)
        fy_str_putc(out, file_name_char(text[i]));
}

void fy_model_meta_file_name(const fy_model_meta *m, const char *encoding, const char *kind,
                             fy_str *out)
{
    static const char *const order[] = {"size_label", "finetune", "version"};
    const char *base = fy_model_meta_text(m, "basename");
    fy_str_clear(out);
    put_part(out, base != NULL ? base : fy_model_meta_text(m, "name"));
    if (out->len == 0)
        put_part(out, "model");
    for (size_t i = encoding == NULL; i < sizeof order / sizeof order[0]; i++) {
        const char *text = fy_model_meta_text(m, order[i]);
        if (text != NULL)
            put_part(out, text);
    }
    size_t at = out->len;
    if (encoding != NULL)
        put_part(out, encoding);
    for (; !out->oom && at < out->len; at++) {
        if (out->ptr[at] >= 'a' && out->ptr[at] <= 'z')
            out->ptr[at] = (char)(out->ptr[at] - ('a' - 'A'));
    }
    if (kind != NULL)
        put_part(out, kind);
}
