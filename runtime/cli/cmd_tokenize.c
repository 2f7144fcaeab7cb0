/* ferry tokenize: text -> ids, ids -> text. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/str.h"
#include "cli/terminal.h"
#include "cli/text_io.h"
#include "cli/tokenize_jobs.h"
#include "cli/verb.h"
#include "cli/verb_rows.h"
#include "cli/vocab_source.h"

typedef struct {
    const char *model, *file, *verify, *device, *serial;
    bool ids, show_pieces, count, json, jsonl, no_bos, no_parse_special, quiet, verbose;
} options;

/* --- what comes in --- */

/* The text: of the arguments, a file or standard input. */
static int read_input(const options *o, int n_args, char **args, fy_str *out, fy_err *e)
{
    if (o->file != NULL)
        return fy_text_in_read(o->file, out, e);
    if (n_args == 0 || (n_args == 1 && strcmp(args[0], "-") == 0))
        return fy_text_in_read("-", out, e);
    for (int i = 0; i < n_args; i++) {
        if (i > 0)
            fy_str_putc(out, ' ');
        fy_str_puts(out, args[i]);
    }
    return out->oom ? fy_nomem(e) : 0;
}

/* The number at s, of at most n bytes; its length, 0 when there is none. Too large a number is
 * INT64_MAX. */
static size_t read_number(const char *s, size_t n, int64_t *out)
{
    int64_t v = 0;
    size_t i = 0;
    for (; i < n && s[i] >= '0' && s[i] <= '9'; i++)
        v = v > INT32_MAX ? INT64_MAX : v * 10 + (s[i] - '0');
    *out = v;
    return i;
}

static size_t skip_blanks(fy_span s, size_t i)
{
    while (i < s.len && strchr(" \t\r\n", s.ptr[i]) != NULL && s.ptr[i] != '\0')
        i++;
    return i;
}

static int no_id(const fy_vocab *v, const fy_ids *before, fy_span rest, fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    fy_span word = {rest.ptr, rest.len < 24 ? rest.len : 24};
    return fy_fail(e, FY_EARG,
                   "id %zu: found %s%s%s, expected a number from 0 to %u; ids are separated by "
                   "blanks or commas",
                   before->n + 1, word.len > 0 ? "'" : "the end",
                   fy_quote(shown, sizeof shown, word), word.len > 0 ? "'" : "", fy_vocab_n(v) - 1);
}

static int parse_ids(const fy_vocab *v, fy_span s, fy_ids *out, fy_err *e)
{
    bool comma = false; /* one stands before, so that an id must follow */
    for (size_t i = skip_blanks(s, 0); (i < s.len || comma) && !fy_interrupted;) {
        int64_t id;
        size_t n = read_number(s.ptr + i, s.len - i, &id);
        bool ends = i + n == s.len || s.ptr[i + n] == ',' || skip_blanks(s, i + n) > i + n;
        if (n == 0 || !ends)
            return no_id(v, out, (fy_span){s.ptr + i, s.len - i}, e);
        if (id >= fy_vocab_n(v))
            return fy_fail(e, FY_EARG,
                           "id %zu is %.*s, but the vocabulary has %u tokens (0 to %u); is it of "
                           "another model?",
                           out->n + 1, (int)(n < 24 ? n : 24), s.ptr + i, fy_vocab_n(v),
                           fy_vocab_n(v) - 1);
        if (fy_ids_push(out, (int32_t)id, e) != 0)
            return -1;
        i = skip_blanks(s, i + n);
        comma = i < s.len && s.ptr[i] == ',';
        i = skip_blanks(s, i + comma);
    }
    return fy_check_interrupt(e);
}

/* --- what goes out --- */

static int put_pieces(const fy_vocab *v, const fy_ids *ids, fy_str *out, fy_err *e)
{
    static const char *const types[] = {"undefined",    "normal", "unknown", "control",
                                        "user-defined", "unused", "byte"};
    fy_str piece = {0};
    int rc = 0;
    for (size_t i = 0; i < ids->n && rc == 0 && !fy_interrupted; i++) {
        fy_str_clear(&piece);
        rc = fy_vocab_decode_one(v, ids->id[i], true, &piece, e);
        fy_str_printf(out, "%d\t'", ids->id[i]);
        fy_str_put_quoted(out, (fy_span){piece.ptr, piece.len}, SIZE_MAX);
        fy_str_printf(out, "'\t%s\n", types[fy_vocab_type(v, ids->id[i])]);
    }
    fy_str_release(&piece);
    return rc;
}

static void put_json_bytes(fy_str *out, fy_span s)
{
    fy_str_putc(out, '[');
    for (size_t i = 0; i < s.len; i++)
        fy_str_printf(out, "%s%u", i > 0 ? "," : "", (unsigned)(unsigned char)s.ptr[i]);
    fy_str_putc(out, ']');
}

static int put_json(const options *o, const fy_vocab *v, const fy_ids *ids, fy_str *out, fy_err *e)
{
    fy_str piece = {0};
    int rc = 0;
    fy_str_putc(out, '{');
    if (o->ids) {
        rc = fy_decode_lossy(v, ids, &piece, e);
        fy_str_puts(out, "\"text\":");
        fy_json_put_string(out, (fy_span){piece.ptr, piece.len});
        fy_str_putc(out, ',');
    }
    fy_str_puts(out, "\"ids\":[");
    fy_put_ids(ids, ',', out);
    fy_str_puts(out, "],\"pieces\":[");
    for (size_t i = 0; i < ids->n && rc == 0 && !fy_interrupted; i++) {
        fy_str_clear(&piece);
        rc = fy_vocab_decode_one(v, ids->id[i], true, &piece, e);
        if (i > 0)
            fy_str_putc(out, ',');
        fy_span s = {piece.ptr, piece.len};
        if (fy_utf8_valid(s.ptr, s.len))
            fy_json_put_string(out, s);
        else
            put_json_bytes(out, s);
    }
    fy_str_printf(out, "],\"count\":%zu}\n", ids->n);
    fy_str_release(&piece);
    return rc;
}

/* The loops over millions of ids end early when the user asks for it; what they made is dropped. */
static int show(const options *o, const fy_vocab *v, const fy_ids *ids, fy_err *e)
{
    fy_str out = {0};
    int rc = 0;
    if (o->json)
        rc = put_json(o, v, ids, &out, e);
    else if (o->show_pieces)
        rc = put_pieces(v, ids, &out, e);
    else if (o->count)
        fy_str_printf(&out, "%zu\n", ids->n);
    else if (o->ids)
        rc = fy_decode_lossy(v, ids, &out, e);
    else
        fy_put_ids(ids, ' ', &out);
    if (!o->json && !o->show_pieces && !o->count)
        fy_str_putc(&out, '\n');
    if (rc == 0)
        rc = fy_check_interrupt(e);
    if (rc == 0)
        rc = out.oom ? fy_nomem(e) : fy_stdout(out.ptr, out.len, e);
    fy_str_release(&out);
    return rc;
}

static int run_text(const options *o, const fy_vocab *v, int n_args, char **args, fy_err *e)
{
    fy_str text = {0};
    fy_ids ids = {0};
    int rc = read_input(o, n_args, args, &text, e);
    fy_span s = {text.ptr, text.len};
    if (rc == 0)
        rc = o->ids ? parse_ids(v, s, &ids, e)
                    : fy_vocab_encode(v, s, !o->no_bos, !o->no_parse_special, &ids, e);
    fy_str_release(&text);
    if (rc == 0)
        rc = show(o, v, &ids, e);
    fy_ids_release(&ids);
    return rc;
}

/* --- the verb --- */

static bool reads_input(const void *opaque, int n_args, char **args)
{
    const options *o = opaque;
    bool text_given = o->file != NULL || n_args > 1 || (n_args == 1 && strcmp(args[0], "-") != 0);
    return o->jsonl || (o->verify == NULL && !text_given);
}

static int check_options(const options *o, int n_args, char **args, fy_err *e)
{
    const struct {
        const char *name;
        bool given;
    } forms[] = {{"show-pieces", o->show_pieces},
                 {"count", o->count},
                 {"json", o->json},
                 {"jsonl", o->jsonl},
                 {"verify", o->verify != NULL}};
    const char *form = NULL;
    if (o->model == NULL)
        return fy_fail(e, FY_EARG, "which tokenizer? give -m FILE.gguf or -m DIR");
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        if (forms[i].given && form != NULL)
            return fy_fail(e, FY_EARG, "--%s and --%s exclude each other", form, forms[i].name);
        form = forms[i].given ? forms[i].name : form;
    }
    if (o->jsonl || o->verify != NULL) {
        if (n_args > 0 || o->file != NULL)
            return fy_fail(e, FY_EARG, "--%s takes no text argument and no --file", form);
        if (o->ids || o->no_bos || o->no_parse_special)
            return fy_fail(e, FY_EARG,
                           "--%s and --%s exclude each other: each line or case says "
                           "what it asks for",
                           form,
                           o->ids      ? "ids"
                           : o->no_bos ? "no-bos"
                                       : "no-parse-special");
    }
    if (o->file != NULL && n_args > 0)
        return fy_fail(e, FY_EARG, "two texts, '%.40s' and --file %s: give one", args[0], o->file);
    if (o->ids && (o->no_bos || o->no_parse_special))
        return fy_fail(e, FY_EARG, "--%s is about text, and --ids reads ids: leave one out",
                       o->no_bos ? "no-bos" : "no-parse-special");
    if (n_args > 1 && !o->ids)
        return fy_fail(e, FY_EARG, "%d texts: put quotes around a text with blanks", n_args);
    return 0;
}

static int run(void *opts, int n_args, char **args, fy_err *e)
{
    const options *o = opts;
    if (check_options(o, n_args, args, e) != 0)
        return -1;
    fy_gguf *g = fy_vocab_source_open(o->model, e);
    fy_vocab *v = g != NULL ? fy_vocab_load(g, e) : NULL;
    fy_gguf_close(g);
    if (v == NULL)
        return -1;
    int rc = o->verify != NULL ? fy_tokenize_verify(v, o->verify, e)
             : o->jsonl        ? fy_tokenize_jsonl(v, e)
                               : run_text(o, v, n_args, args, e);
    fy_vocab_free(v);
    return rc;
}

/* clang-format off */
static const fy_opt opts_table[] = {
    {.group = "Input", .name = "model", .alias = "m", .kind = FY_OPT_STR, .arg = "FILE.gguf|DIR",
     .offset = offsetof(options, model), .set = "model", .file = FY_FILE_WORKSPACE,
     .help = "A GGUF file, a workspace, or a directory with a checkpoint's tokenizer files, or one "
             "of them: .json, .model, .txt, .tiktoken (converted on the fly)."},
    {.group = "Input", .name = "file", .alias = "f", .kind = FY_OPT_STR, .arg = "FILE",
     .offset = offsetof(options, file), .line_only = true, .file = FY_FILE_IN,
     .help = "Read the text from FILE, all of it, its last newline included; '-' is standard input."},
    {.group = "Input", .name = "ids", .kind = FY_OPT_FLAG, .offset = offsetof(options, ids),
     .line_only = true,
     .help = "The arguments (or FILE, or standard input) are token ids separated by blanks or "
             "commas: print their text."},
    {.group = "Output", .name = "show-pieces", .kind = FY_OPT_FLAG, .set = "form",
     .offset = offsetof(options, show_pieces),
     .help = "One line per token: id, its text in quotes, type, separated by tabs."},
    {.group = "Output", .name = "count", .kind = FY_OPT_FLAG, .set = "form",
     .offset = offsetof(options, count), .help = "Only the number of tokens."},
    {.group = "Output", .name = "json", .kind = FY_OPT_FLAG, .set = "form",
     .offset = offsetof(options, json),
     .help = "One JSON object: \"ids\", \"pieces\", \"count\", and with --ids \"text\"."},
    {.group = "Special tokens", .name = "no-bos", .kind = FY_OPT_FLAG,
     .offset = offsetof(options, no_bos), .line_only = true,
     .help = "Add nothing at the beginning or end of the text."},
    {.group = "Special tokens", .name = "no-parse-special", .kind = FY_OPT_FLAG,
     .offset = offsetof(options, no_parse_special), .line_only = true,
     .help = "Take control tokens in the text as plain text."},
    {.group = "Many texts", .name = "jsonl", .kind = FY_OPT_FLAG, .set = "form", .line_only = true,
     .offset = offsetof(options, jsonl),
     .help = "Read lines {\"text\", \"add_special\", \"parse_special\"} from standard input, write "
             "lines {\"ids\", \"decoded\"}; both flags are true when absent."},
    {.group = "Many texts", .name = "verify", .kind = FY_OPT_STR, .arg = "FILE", .set = "form",
     .line_only = true, .offset = offsetof(options, verify), .file = FY_FILE_IN,
     .help = "Compare with the answers of a reference, a .json or llama.cpp's .inp with its .out; exit "
             "4 when any differs."},
    FY_ROWS_DEVICE
    FY_ROW_QUIET,
    FY_ROW_VERBOSE,
};

const fy_verb fy_verb_tokenize = {
    .name = "tokenize",
    .summary = "turn text into token ids, and back",
    .synopsis = "[TEXT|ID...]",
    .min_args = 0,
    .max_args = -1,
    .opts = opts_table,
    .n_opts = sizeof opts_table / sizeof opts_table[0],
    .opts_bytes = sizeof(options),
    .description =
        "Prints the ids of TEXT on one line; without TEXT, or with '-', the text is all of standard "
        "input, its last newline included. BOS and EOS are added as the model asks, control tokens "
        "in the text are recognised. Any bytes are a text: what is not UTF-8 is encoded byte by "
        "byte.\n\n"
        "--ids goes the other way: the text of the ids, special tokens as they are written, and a "
        "newline. Bytes that are no character become U+FFFD.\n\n"
        "--show-pieces shows control characters, backslashes and bytes that are no character as "
        "\\n, \\t, \\r, \\\\, \\xNN or \\u{NNNN}; types are normal, control, user-defined, byte, "
        "unknown, unused and undefined. In \"pieces\" of --json the bytes of a token that are no "
        "text by themselves (part of a character) are a list of numbers.\n\n"
        "--verify reads what a reference implementation answered: \"cases\" and \"specials_parsed\" "
        "of a parity.json, or \"tokenizer_cases\" of a golden.json. Each case has a text and its "
        "ids, with and without special tokens, and may have the text that the ids decode to. "
        "Of llama.cpp's pairs FILE.inp (texts) and FILE.out (lines of ids) the first is named. "
        "Differences are counted, and the first twenty are shown.",
    .examples = "ferry tokenize -m model.gguf 'Once upon a time'\n"
                "# which token is which\n"
                "ferry tokenize -m model.gguf --show-pieces 'Once upon a time'\n"
                "# how long a file is\n"
                "ferry tokenize -m model.gguf --count -f prompt.txt\n"
                "ferry tokenize -m model.gguf --ids 763 408 409 258 410\n"
                "# what the checkpoint's own tokenizer gives, without converting the weights\n"
                "ferry tokenize -m checkpoint 'Once upon a time'\n"
                "ferry tokenize -m model.gguf --verify parity.json\n",
    .run = run,
    .on_phone = true,
    .reads_input = reads_input,
};
/* clang-format on */
