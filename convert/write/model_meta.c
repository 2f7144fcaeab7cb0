/* Collects the general.* keys from the model card, config.json and the directory's name, and writes
 * them. */
#include "convert/write/model_meta.h"

#include <stdio.h>
#include <string.h>

#include "base/json_tree.h"
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

/* --- collecting ----------------------------------------------------------------------------- */

/* Unless the key is there already, or the text is empty. */
static void offer(fy_json_maker *m, json_t *values, const char *key, fy_span text)
{
    if (text.len == 0 || json_object_get(values, key) != NULL)
        return;
    if (fy_utf8_valid(text.ptr, text.len)) /* else a name of the file system */
        fy_make_set(m, values, key, json_stringn(text.ptr, text.len));
}

static void offer_str(fy_json_maker *m, json_t *values, const char *key, const fy_str *text)
{
    m->oom = m->oom || text->oom;
    offer(m, values, key, (fy_span){fy_str_z(text), text->len});
}

/* A text, or a list of texts with commas in between. */
static void offer_value(fy_json_maker *m, json_t *values, const char *key, const json_t *v)
{
    fy_str joined = {0};
    if (json_is_string(v))
        fy_str_add(&joined, json_string_value(v), json_string_length(v));
    for (size_t i = 0; i < json_array_size(v); i++) {
        const char *item = json_string_value(json_array_get(v, i));
        if (item != NULL)
            fy_str_printf(&joined, "%s%s", joined.len > 0 ? "," : "", item);
    }
    offer_str(m, values, key, &joined);
    fy_str_release(&joined);
}

/* What the name of a model says, under these keys; NULL: not that part. url: gets its address on
 * the hub where it has one; may be NULL. */
static void offer_id(fy_json_maker *m, json_t *values, const char *const keys[FY_ID_PARTS],
                     const char *id, uint64_t n_params, fy_str *url)
{
    fy_str parts[FY_ID_PARTS];
    fy_model_id_parse(fy_span_of(id), n_params, parts);
    if (url != NULL && parts[FY_ID_ORG].len > 0 && parts[FY_ID_NAME].len > 0)
        fy_str_printf(url, "https://huggingface.co/%s/%s", fy_str_z(&parts[FY_ID_ORG]),
                      fy_str_z(&parts[FY_ID_NAME]));
    for (int i = 0; i < FY_ID_PARTS; i++) {
        const bool titled = i == FY_ID_NAME || i == FY_ID_ORG;
        fy_str title = {0};
        m->oom = m->oom || parts[i].oom;
        if (titled)
            fy_model_id_title((fy_span){fy_str_z(&parts[i]), parts[i].len}, &title);
        if (keys[i] != NULL)
            offer_str(m, values, keys[i], titled ? &title : &parts[i]);
        fy_str_release(&title);
        fy_str_release(&parts[i]);
    }
}

/* Adds a text, or the texts of a list, to a list of the metadata. */
static void extend(fy_json_maker *m, json_t *values, const char *key, const json_t *from)
{
    size_t n = json_is_string(from) ? 1 : json_array_size(from);
    for (size_t i = 0; i < n; i++) {
        const json_t *item = json_is_string(from) ? from : json_array_get(from, i);
        if (json_string_length(item) == 0)
            continue;
        if (json_object_get(values, key) == NULL)
            fy_make_set(m, values, key, json_array());
        fy_make_append(m, json_object_get(values, key), json_string(json_string_value(item)));
    }
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

static json_t *origin_of(fy_json_maker *m, const json_t *from, uint64_t n_params)
{
    static const char *const keys[FY_ID_PARTS] = {
        [FY_ID_NAME] = "name", [FY_ID_ORG] = "organization", [FY_ID_VERSION] = "version"};
    json_t *origin = json_object();
    const char *text = json_string_value(from);
    if (text != NULL) {
        fy_str url = {0};
        bool is_url = strncmp(text, "http://", 7) == 0 || strncmp(text, "https://", 8) == 0 ||
                      strncmp(text, "ssh://", 6) == 0;
        const char *id = is_url ? hub_id(text) : text;
        if (is_url)
            offer(m, origin, "repo_url", fy_span_of(text));
        if (id != NULL)
            offer_id(m, origin, keys, id, n_params, &url);
        offer_str(m, origin, "repo_url", &url);
        fy_str_release(&url);
    }
    for (const char *const *key = origin_keys; *key != NULL; key++)
        offer_value(m, origin, *key, json_object_get(from, *key));
    return origin;
}

/* The first of three keys of the card that is there: one origin or a list of them. */
static void add_origins(fy_json_maker *m, json_t *values, const char *key, const fy_model_source *s,
                        const char *const names[3])
{
    const json_t *from = NULL;
    for (int i = 0; i < 3 && from == NULL; i++)
        from = json_object_get(s->card, names[i]);
    json_t *list = json_array();
    for (size_t i = 0; i < (json_is_string(from) ? 1 : json_array_size(from)); i++) {
        json_t *origin =
            origin_of(m, json_is_string(from) ? from : json_array_get(from, i), s->n_params);
        if (origin == NULL || json_object_size(origin) > 0)
            fy_make_append(m, list, origin);
        else
            json_decref(origin);
    }
    if (list == NULL || json_array_size(list) > 0)
        fy_make_set(m, values, key, list);
    else
        json_decref(list);
}

static void read_card(fy_json_maker *m, json_t *values, const fy_model_source *s)
{
    static const char *const bases[] = {"base_model", "base_models", "base_model_sources"};
    static const char *const datasets[] = {"datasets", "dataset", "dataset_sources"};
    static const char *const lists[][2] = {{"tags", "tags"},
                                           {"tags", "pipeline_tag"},
                                           {"languages", "languages"},
                                           {"languages", "language"}};
    for (size_t i = 0; i < N_TEXTS; i++) {
        for (int k = 0; k < 4 && texts[i].card[k] != NULL; k++)
            offer_value(m, values, texts[i].key, json_object_get(s->card, texts[i].card[k]));
    }
    add_origins(m, values, "base_model", s, bases);
    add_origins(m, values, "dataset", s, datasets);
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        extend(m, values, lists[i][0], json_object_get(s->card, lists[i][1]));
}

/* A name on the hub has one slash at most; anything else is a place on somebody's disk. */
static const char *id_in_config(const json_t *config)
{
    const char *id = json_string_value(json_object_get(config, "_name_or_path"));
    const char *slash = id != NULL ? strchr(id, '/') : NULL;
    return slash != NULL && (slash == id || strchr(slash + 1, '/') != NULL) ? NULL : id;
}

json_t *fy_model_meta_new(const fy_model_source *s, fy_err *e)
{
    static const char *const keys[FY_ID_PARTS] = {
        [FY_ID_NAME] = "name",         [FY_ID_ORG] = "organization",
        [FY_ID_BASENAME] = "basename", [FY_ID_FINETUNE] = "finetune",
        [FY_ID_VERSION] = "version",   [FY_ID_SIZE_LABEL] = "size_label"};
    const char *const ids[] = {id_in_config(s->config), s->id};
    fy_json_maker m = {0};
    json_t *values = json_object();
    if (s->name != NULL)
        offer(&m, values, "name", fy_span_of(s->name));
    read_card(&m, values, s);
    for (int i = 0; i < 2; i++) {
        if (ids[i] != NULL)
            offer_id(&m, values, keys, ids[i], s->n_params, NULL);
    }
    offer(&m, values, "name", FY_SPAN("model"));
    if (s->size_label != NULL)
        offer(&m, values, "size_label", fy_span_of(s->size_label));
    if (!m.oom)
        return values;
    json_decref(values);
    fy_nomem(e);
    return NULL;
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

int fy_model_meta_write(const json_t *meta, fy_gguf_writer *w, fy_err *e)
{
    for (size_t i = 0; i < N_TEXTS; i++) {
        char key[64];
        snprintf(key, sizeof key, "general.%s", texts[i].key);
        if (write_text(w, key, json_object_get(meta, texts[i].key), e))
            return -1;
    }
    return write_origins(w, "base_model", json_object_get(meta, "base_model"), e) ||
                   write_origins(w, "dataset", json_object_get(meta, "dataset"), e) ||
                   write_list(w, "general.tags", json_object_get(meta, "tags"), e) ||
                   write_list(w, "general.languages", json_object_get(meta, "languages"), e)
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

void fy_model_meta_file_name(const json_t *meta, const char *encoding, const char *kind,
                             fy_str *out)
{
    static const char *const order[] = {"size_label", "finetune", "version"};
    const char *base = json_string_value(json_object_get(meta, "basename"));
    fy_str_clear(out);
    put_part(out, base != NULL ? base : json_string_value(json_object_get(meta, "name")));
    if (out->len == 0)
        put_part(out, "model");
    for (size_t i = encoding == NULL; i < sizeof order / sizeof order[0]; i++) {
        const char *text = json_string_value(json_object_get(meta, order[i]));
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
