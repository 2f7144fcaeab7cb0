/* ferry tokenize: text -> ids, line by line as JSON, and comparison with a reference's answers. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/utf8.h"
#include "cli/verb.h"
#include "model/vocab/vocab.h"

typedef struct {
    const char *model, *verify;
    bool jsonl, no_bos, no_parse_special;
} options;

/* --- the vocabulary: of a GGUF file, or of a directory through the convert verb --- */

static fy_vocab *load_file(const char *path, fy_err *e)
{
    fy_gguf *g = fy_gguf_open(path, e);
    fy_vocab *v = g != NULL ? fy_vocab_load(g, e) : NULL;
    fy_gguf_close(g);
    return v;
}

static int convert_vocab(const char *dir, const char *out, fy_err *e)
{
    const fy_verb *convert = fy_verb_find("convert");
    if (convert == NULL)
        return fy_fail(
            e, FY_EUNSUPPORTED,
            "%s: is a directory, and this build of ferry cannot convert; run 'ferry convert "
            "--vocab-only -o vocab.gguf %s' on the host and give that file",
            dir, dir);
    char vocab_only[] = "--vocab-only", o[] = "-o", end[] = "--";
    char *from = strdup(dir), *to = strdup(out);
    char *args[] = {vocab_only, o, to, end, from};
    void *opts = calloc(1, convert->opts_bytes + 1);
    int n_args = 0, rc = -1;
    bool help;
    if (opts == NULL || from == NULL || to == NULL)
        fy_nomem(e);
    else if (fy_opts_parse(convert->opts, convert->n_opts, opts, 5, args, &n_args, &help, e) == 0)
        rc = convert->run(opts, n_args, args, e);
    if (opts != NULL)
        fy_opts_release(convert->opts, convert->n_opts, opts);
    free(opts);
    free(from);
    free(to);
    return rc;
}

static fy_vocab *load_dir(const char *dir, fy_err *e)
{
    const char *base = getenv("TMPDIR");
    char *tmp = fy_path_join(base != NULL && *base != '\0' ? base : "/tmp", "ferry-vocab-XXXXXX");
    char *file = NULL;
    fy_vocab *v = NULL;
    if (tmp == NULL) {
        fy_nomem(e);
        return NULL;
    }
    if (mkdtemp(tmp) == NULL) {
        fy_fail_errno(e, "%s: cannot make a temporary directory (TMPDIR names the place)", tmp);
        goto done;
    }
    file = fy_path_join(tmp, "vocab.gguf");
    fy_log_show(FY_LOG_WARN); /* the conversion is a means here: only its warnings are news */
    if (file == NULL)
        fy_nomem(e);
    else if (convert_vocab(dir, file, e) == 0)
        v = load_file(file, e);
    if (file != NULL)
        unlink(file);
    rmdir(tmp);
done:
    free(file);
    free(tmp);
    return v;
}

/* --- plain text --- */

static int read_all(FILE *f, fy_str *out, fy_err *e)
{
    char buf[1 << 14];
    size_t n;
    while ((n = fread(buf, 1, sizeof buf, f)) > 0)
        fy_str_add(out, buf, n);
    if (ferror(f))
        return fy_fail_errno(e, "cannot read standard input");
    return out->oom ? fy_nomem(e) : 0;
}

static void put_ids(const fy_ids *ids, char separator, fy_str *out)
{
    for (size_t i = 0; i < ids->n; i++) {
        if (i > 0)
            fy_str_putc(out, separator);
        fy_str_printf(out, "%d", (int)ids->id[i]);
    }
}

static int print_ids(const fy_vocab *v, const options *o, fy_span text, fy_err *e)
{
    fy_ids ids = {0};
    fy_str out = {0};
    int rc = fy_vocab_encode(v, text, !o->no_bos, !o->no_parse_special, &ids, e);
    if (rc == 0) {
        put_ids(&ids, ' ', &out);
        fy_str_putc(&out, '\n');
        rc = out.oom ? fy_nomem(e) : fy_stdout(out.ptr, out.len, e);
    }
    fy_ids_release(&ids);
    fy_str_release(&out);
    return rc;
}

static int run_text(const fy_vocab *v, const options *o, int n_args, char **args, fy_err *e)
{
    if (n_args > 0 && strcmp(args[0], "-") != 0)
        return print_ids(v, o, fy_span_of(args[0]), e);
    fy_str text = {0};
    int rc = read_all(stdin, &text, e);
    if (rc == 0)
        rc = print_ids(v, o, (fy_span){text.ptr, text.len}, e);
    fy_str_release(&text);
    return rc;
}

/* --- JSON lines --- */

/* Valid UTF-8 whatever the bytes: what begins no character becomes U+FFFD, what begins one as far
 * as it goes (Unicode 3.9, "substitution of maximal subparts", as the reference's decoder does). */
static void put_lossy(fy_span s, fy_str *out)
{
    for (size_t i = 0; i < s.len;) {
        uint32_t cp;
        int n = fy_utf8_next(s.ptr + i, s.len - i, &cp);
        if (n > 0) {
            fy_str_add(out, s.ptr + i, (size_t)n);
            i += (size_t)n;
            continue;
        }
        /* The part grows while some continuation would still make it a character. */
        char probe[4];
        size_t part = 1;
        for (; part < 3 && i + part < s.len; part++) {
            memcpy(probe, s.ptr + i, part + 1);
            bool viable = false;
            for (size_t total = part + 2; total <= 4 && !viable; total++) {
                memset(probe + part + 1, 0x80, 4 - part - 1);
                viable = fy_utf8_next(probe, total, &cp) == (int)total;
            }
            if (!viable)
                break;
        }
        fy_str_put_utf8(out, 0xFFFD);
        i += part;
    }
}

static int put_json_string(fy_span s, fy_str *out, fy_err *e)
{
    json_t *j = json_stringn(s.ptr != NULL ? s.ptr : "", s.len);
    char *z = j != NULL ? json_dumps(j, JSON_ENCODE_ANY) : NULL;
    json_decref(j);
    if (z == NULL)
        return fy_nomem(e);
    fy_str_puts(out, z);
    free(z);
    return 0;
}

/* decode(ids) with special tokens as their text, as valid UTF-8. */
static int decode_lossy(const fy_vocab *v, const fy_ids *ids, fy_str *out, fy_err *e)
{
    fy_str raw = {0};
    int rc = fy_vocab_decode(v, ids->id, ids->n, true, &raw, e);
    if (rc == 0) {
        put_lossy((fy_span){raw.ptr, raw.len}, out);
        rc = out->oom ? fy_nomem(e) : 0;
    }
    fy_str_release(&raw);
    return rc;
}

static int get_flag(const json_t *request, const char *key, bool *out, fy_err *e)
{
    const json_t *j = json_object_get(request, key);
    if (j != NULL && !json_is_boolean(j))
        return fy_fail(e, FY_EFORMAT, "\"%s\" is not true or false", key);
    if (j != NULL)
        *out = json_is_true(j);
    return 0;
}

static int answer(const fy_vocab *v, const json_t *request, fy_err *e)
{
    const json_t *text = json_object_get(request, "text");
    bool add_special = true, parse_special = true;
    if (!json_is_string(text))
        return fy_fail(e, FY_EFORMAT, "expected an object with a string \"text\"");
    if (get_flag(request, "add_special", &add_special, e) != 0 ||
        get_flag(request, "parse_special", &parse_special, e) != 0)
        return -1;
    fy_ids ids = {0};
    fy_str decoded = {0}, out = {0};
    fy_span s = {json_string_value(text), json_string_length(text)};
    int rc = fy_vocab_encode(v, s, add_special, parse_special, &ids, e);
    if (rc == 0)
        rc = decode_lossy(v, &ids, &decoded, e);
    if (rc == 0) {
        fy_str_puts(&out, "{\"ids\":[");
        put_ids(&ids, ',', &out);
        fy_str_puts(&out, "],\"decoded\":");
        rc = put_json_string((fy_span){decoded.ptr, decoded.len}, &out, e);
        fy_str_puts(&out, "}\n");
    }
    if (rc == 0)
        rc = out.oom ? fy_nomem(e) : fy_stdout(out.ptr, out.len, e);
    fy_ids_release(&ids);
    fy_str_release(&decoded);
    fy_str_release(&out);
    return rc;
}

static int answer_line(const fy_vocab *v, const char *line, size_t n, fy_err *e)
{
    if (strspn(line, " \t\r\n") == n)
        return 0;
    json_error_t why;
    json_t *request = json_loadb(line, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &why);
    if (request == NULL)
        return fy_fail(e, FY_EFORMAT, "%s (column %d)", why.text, why.column);
    int rc = answer(v, request, e);
    json_decref(request);
    return rc;
}

static int run_jsonl(const fy_vocab *v, fy_err *e)
{
    char *line = NULL;
    size_t cap = 0;
    int rc = 0;
    for (unsigned long long number = 1; rc == 0; number++) {
        errno = 0;
        ssize_t n = getline(&line, &cap, stdin);
        if (n < 0) {
            rc = feof(stdin) ? 0 : fy_fail_errno(e, "cannot read standard input");
            break;
        }
        rc = answer_line(v, line, (size_t)n, e);
        if (rc != 0)
            fy_ctx(e, "line %llu", number);
    }
    free(line);
    return rc;
}

/* --- comparison with a reference --- */

enum { MAX_SHOWN = 20 };

typedef struct {
    const fy_vocab *v;
    fy_str report;
    unsigned n_compared, n_different;
} comparison;

/* The lists of parity.json and golden.json, and how their ids were made. */
static const struct {
    const char *list, *key;
    bool add_special, parse_special;
} id_checks[] = {
    {"cases", "ids", false, true},
    {"cases", "ids_special", true, true},
    {"specials_parsed", "ids", false, true},
    {"specials_parsed", "ids_special", true, true},
    {"specials_parsed", "ids_plain", false, false},
    {"tokenizer_cases", "ids", false, true},
    {"tokenizer_cases", "ids_with_special", true, true},
};

static void put_some_ids(const fy_ids *ids, size_t from, fy_str *out)
{
    enum { WINDOW = 8 };
    fy_ids part = {ids->id + from, ids->n - from < WINDOW ? ids->n - from : WINDOW, 0};
    put_ids(&part, ' ', out);
    fy_str_puts(out, part.n == 0 ? "the end" : from + part.n < ids->n ? " ..." : "");
}

static void report_ids(comparison *c, const fy_ids *expected, const fy_ids *found)
{
    size_t at = 0;
    while (at < expected->n && at < found->n && expected->id[at] == found->id[at])
        at++;
    fy_str_printf(&c->report, "position %zu: expected ", at);
    put_some_ids(expected, at, &c->report);
    fy_str_puts(&c->report, ", found ");
    put_some_ids(found, at, &c->report);
}

/* Begins a report line; false once enough lines are there. */
static bool begin_difference(comparison *c, const char *list, size_t i, const char *key,
                             const json_t *text)
{
    if (++c->n_different > MAX_SHOWN)
        return false;
    char *z = json_dumps(text, JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
    size_t n = z != NULL ? strlen(z) : 0;
    fy_str_printf(&c->report, "%s[%zu].%s of %.*s%s: ", list, i, key, (int)(n < 80 ? n : 80),
                  z != NULL ? z : "", n > 80 ? "..." : "");
    free(z);
    return true;
}

static int read_ids(const json_t *array, fy_ids *out, fy_err *e)
{
    for (size_t i = 0; i < json_array_size(array); i++) {
        const json_t *j = json_array_get(array, i);
        json_int_t id = json_integer_value(j);
        if (!json_is_integer(j) || id < 0 || id > INT32_MAX)
            return fy_fail(e, FY_EFORMAT, "ids[%zu] is not a token id", i);
        if (fy_ids_push(out, (int32_t)id, e) != 0)
            return -1;
    }
    return 0;
}

static int compare_ids(comparison *c, const char *list, size_t i, size_t check, const json_t *item,
                       fy_err *e)
{
    const json_t *text = json_object_get(item, "text"),
                 *ids = json_object_get(item, id_checks[check].key);
    if (ids == NULL || json_is_null(ids))
        return 0;
    if (!json_is_array(ids))
        return fy_fail(e, FY_EFORMAT, "\"%s\" is not a list of ids", id_checks[check].key);
    fy_ids expected = {0}, found = {0};
    fy_span s = {json_string_value(text), json_string_length(text)};
    int rc = read_ids(ids, &expected, e);
    if (rc == 0)
        rc = fy_vocab_encode(c->v, s, id_checks[check].add_special, id_checks[check].parse_special,
                             &found, e);
    c->n_compared += rc == 0;
    if (rc == 0 &&
        (expected.n != found.n ||
         (found.n > 0 && memcmp(expected.id, found.id, found.n * sizeof *found.id) != 0)) &&
        begin_difference(c, list, i, id_checks[check].key, text)) {
        report_ids(c, &expected, &found);
        fy_str_putc(&c->report, '\n');
    }
    fy_ids_release(&expected);
    fy_ids_release(&found);
    return rc;
}

static int compare_decoded(comparison *c, const char *list, size_t i, const json_t *item, fy_err *e)
{
    const json_t *ids = json_object_get(item, "ids"), *want = json_object_get(item, "decoded");
    if (!json_is_array(ids) || !json_is_string(want))
        return 0;
    fy_ids expected = {0};
    fy_str text = {0};
    int rc = read_ids(ids, &expected, e);
    if (rc == 0)
        rc = decode_lossy(c->v, &expected, &text, e);
    c->n_compared += rc == 0;
    if (rc == 0 &&
        !fy_span_eq((fy_span){text.ptr, text.len},
                    (fy_span){json_string_value(want), json_string_length(want)}) &&
        begin_difference(c, list, i, "decoded", want)) {
        fy_str_puts(&c->report, "found ");
        rc = put_json_string((fy_span){text.ptr, text.len}, &c->report, e);
        fy_str_putc(&c->report, '\n');
    }
    fy_ids_release(&expected);
    fy_str_release(&text);
    return rc;
}

static int compare_item(comparison *c, const char *list, size_t i, const json_t *item, fy_err *e)
{
    if (!json_is_string(json_object_get(item, "text")))
        return fy_fail(e, FY_EFORMAT, "%s[%zu] has no string \"text\"", list, i);
    for (size_t k = 0; k < sizeof id_checks / sizeof id_checks[0]; k++) {
        if (strcmp(list, id_checks[k].list) == 0 && compare_ids(c, list, i, k, item, e) != 0)
            return fy_ctx(e, "%s[%zu]", list, i);
    }
    return compare_decoded(c, list, i, item, e);
}

static int compare_all(comparison *c, const json_t *root, fy_err *e)
{
    static const char *const lists[] = {"cases", "specials_parsed", "tokenizer_cases"};
    bool any = false;
    for (size_t l = 0; l < sizeof lists / sizeof lists[0]; l++) {
        const json_t *list = json_object_get(root, lists[l]);
        any = any || json_is_array(list);
        for (size_t i = 0; i < json_array_size(list); i++) {
            if (compare_item(c, lists[l], i, json_array_get(list, i), e) != 0)
                return -1;
        }
    }
    if (!any)
        return fy_fail(e, FY_EFORMAT,
                       "has neither \"cases\" (parity.json) nor \"tokenizer_cases\" (golden.json)");
    return 0;
}

static int run_verify(const fy_vocab *v, const char *path, fy_err *e)
{
    fy_map file;
    if (fy_map_open(&file, path, e) != 0)
        return -1;
    json_error_t why;
    json_t *root = json_loadb((const char *)file.data, file.size,
                              JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &why);
    fy_map_close(&file);
    if (root == NULL)
        return fy_fail(e, FY_EFORMAT, "%s: line %d, column %d: %s", path, why.line, why.column,
                       why.text);
    comparison c = {.v = v};
    int rc = compare_all(&c, root, e);
    if (rc == 0 && c.n_compared == 0)
        rc = fy_fail(e, FY_EFORMAT, "has nothing to compare: no case with ids");
    if (rc != 0) {
        fy_ctx(e, "%s", path);
    } else {
        if (c.n_different > MAX_SHOWN)
            fy_str_printf(&c.report, "... and %u more\n", c.n_different - MAX_SHOWN);
        fy_str_printf(&c.report, "%u comparisons, %u differ\n", c.n_compared, c.n_different);
        rc = c.report.oom ? fy_nomem(e) : fy_stdout(c.report.ptr, c.report.len, e);
    }
    if (rc == 0 && c.n_different > 0)
        rc = fy_fail(e, FY_EVERIFY, "%s: %u of %u comparisons differ", path, c.n_different,
                     c.n_compared);
    fy_str_release(&c.report);
    json_decref(root);
    return rc;
}

/* --- the verb --- */

static int run(void *opts, int n_args, char **args, fy_err *e)
{
    const options *o = opts;
    if (o->model == NULL)
        return fy_fail(e, FY_EARG, "which tokenizer? give -m FILE.gguf or -m DIR");
    if ((o->jsonl || o->verify != NULL) && n_args > 0)
        return fy_fail(e, FY_EARG, "--%s takes no text argument", o->jsonl ? "jsonl" : "verify");
    if (o->jsonl && o->verify != NULL)
        return fy_fail(e, FY_EARG, "--jsonl and --verify exclude each other");
    fy_vocab *v = fy_file_is_dir(o->model) ? load_dir(o->model, e) : load_file(o->model, e);
    if (v == NULL)
        return -1;
    int rc = o->verify != NULL ? run_verify(v, o->verify, e)
             : o->jsonl        ? run_jsonl(v, e)
                               : run_text(v, o, n_args, args, e);
    fy_vocab_free(v);
    return rc;
}

/* clang-format off */
static const fy_opt opts_table[] = {
    {.group = "Input", .name = "model", .alias = "m", .kind = FY_OPT_STR, .arg = "FILE",
     .offset = offsetof(options, model),
     .help = "A GGUF file, or a directory with a checkpoint's tokenizer files (converted on the fly)."},
    {.group = "Input", .name = "jsonl", .kind = FY_OPT_FLAG, .offset = offsetof(options, jsonl),
     .help = "Read lines {\"text\", \"add_special\", \"parse_special\"} from standard input, write "
             "lines {\"ids\", \"decoded\"}; both flags are true when absent."},
    {.group = "Input", .name = "verify", .kind = FY_OPT_STR, .arg = "FILE",
     .offset = offsetof(options, verify),
     .help = "Compare with the answers of a reference in FILE; exit 4 when any differs."},
    {.group = "Special tokens", .name = "no-bos", .kind = FY_OPT_FLAG,
     .offset = offsetof(options, no_bos),
     .help = "Add nothing at the beginning or end of the text."},
    {.group = "Special tokens", .name = "no-parse-special", .kind = FY_OPT_FLAG,
     .offset = offsetof(options, no_parse_special),
     .help = "Take control tokens in the text as plain text."},
};

const fy_verb fy_verb_tokenize = {
    .name = "tokenize",
    .summary = "turn text into token ids",
    .synopsis = "[TEXT]",
    .min_args = 0,
    .max_args = 1,
    .opts = opts_table,
    .n_opts = sizeof opts_table / sizeof opts_table[0],
    .opts_bytes = sizeof(options),
    .description =
        "Prints the ids of TEXT on one line; without TEXT, or with '-', the text is all of standard "
        "input, its last newline included. BOS and EOS are added as the model asks, control tokens "
        "in the text are recognised.\n\n"
        "--verify reads what a reference implementation answered: \"cases\" and \"specials_parsed\" "
        "of a parity.json, or \"tokenizer_cases\" of a golden.json. Each case has a text and its "
        "ids, with and without special tokens, and may have the text that the ids decode to. "
        "Differences are counted, and the first twenty are shown.",
    .examples = "ferry tokenize -m model.gguf 'Once upon a time'\n"
                "# what the checkpoint's own tokenizer gives, without converting the weights\n"
                "ferry tokenize -m ~/models/Llama-3.2-1B 'Once upon a time'\n"
                "ferry tokenize -m model.gguf --verify parity.json\n",
    .run = run,
};
/* clang-format on */
