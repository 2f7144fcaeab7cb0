/* Readers of the vocabularies that come without a tokenizer.json: SentencePiece models, the rank
 * files of tiktoken (with the special tokens of Meta's code), and the vocabulary of RWKV World.
 * Each fills a token table. The bytes are untrusted: every length is checked. */
#include "convert/tokenizer/vocab_files.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/math.h"

/* === SentencePiece === */

/* Wire format: a varint key (field << 3 | wire type), then a varint (0), 8 bytes (1), a length and
 * that many bytes (2), or 4 bytes (5). Groups (3, 4) do not occur in this schema. */
enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

typedef struct {
    const uint8_t *p;
    size_t n, pos;
} cursor;

typedef struct {
    uint32_t field, wire;
    uint64_t value; /* WIRE_VARINT */
    fy_span bytes;  /* all others */
} field;

static bool read_varint(cursor *c, uint64_t *out)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64 && c->pos < c->n; shift += 7) {
        uint8_t b = c->p[c->pos++];
        v |= (uint64_t)(b & 0x7F) << shift;
        if (b < 0x80) {
            *out = v;
            return true;
        }
    }
    return false;
}

/* 1: *f is set; 0: the message has ended; -1. `what` names the message. */
static int next_field(cursor *c, field *f, const char *what, fy_err *e)
{
    if (c->pos == c->n)
        return 0;
    size_t at = c->pos;
    uint64_t key = 0, len = 0;
    if (!read_varint(c, &key) || key >> 3 == 0 || key >> 3 > UINT32_MAX)
        return fy_fail(e, FY_EFORMAT, "%s: no protobuf field at byte %zu of %zu", what, at, c->n);
    *f = (field){.field = (uint32_t)(key >> 3), .wire = (uint32_t)(key & 7)};
    switch (f->wire) {
    case WIRE_VARINT:
        if (!read_varint(c, &f->value))
            goto cut;
        return 1;
    case WIRE_64:
    case WIRE_32:
        len = f->wire == WIRE_64 ? 8 : 4;
        break;
    case WIRE_BYTES:
        if (!read_varint(c, &len))
            goto cut;
        break;
    default:
        return fy_fail(e, FY_EFORMAT,
                       "%s: field %u at byte %zu has wire type %u, expected 0, 1, 2 or 5", what,
                       (unsigned)f->field, at, (unsigned)f->wire);
    }
    if (len > c->n - c->pos)
        goto cut;
    f->bytes = (fy_span){(const char *)c->p + c->pos, (size_t)len};
    c->pos += (size_t)len;
    return 1;
cut:
    return fy_fail(e, FY_EFORMAT,
                   "%s: field %u at byte %zu runs past the end (%zu bytes): the file is cut off",
                   what, (unsigned)f->field, at, c->n);
}

static cursor sub(fy_span s)
{
    return (cursor){.p = (const uint8_t *)s.ptr, .n = s.len};
}

/* A piece: 1 text, 2 score, 3 type. The types of the schema are numbered like those of GGUF. */
static int read_piece(fy_span body, fy_token_table *t, fy_err *e)
{
    cursor c = sub(body);
    field f;
    fy_span text = {"", 0};
    float score = 0;
    uint64_t type = FY_TOKEN_NORMAL;
    uint32_t id = t->n;
    char what[32], q[FY_QUOTE_BYTES];
    snprintf(what, sizeof what, "piece %u", (unsigned)id);
    int rc;
    while ((rc = next_field(&c, &f, what, e)) == 1) {
        if (f.field == 1 && f.wire == WIRE_BYTES) {
            text = f.bytes;
        } else if (f.field == 2 && f.wire == WIRE_32) {
            score = fy_lef32(f.bytes.ptr);
        } else if (f.field == 3 && f.wire == WIRE_VARINT) {
            type = f.value;
        }
    }
    if (rc < 0)
        return -1;
    if (type < FY_TOKEN_NORMAL || type > FY_TOKEN_BYTE)
        return fy_fail(e, FY_EFORMAT, "%s: type %llu, expected 1 to 6", what,
                       (unsigned long long)type);
    if (!fy_utf8_valid(text.ptr, text.len))
        return fy_fail(e, FY_EFORMAT, "%s: text '%s' is not UTF-8", what,
                       fy_quote(q, sizeof q, text));
    if (!isfinite(score))
        return fy_fail(e, FY_EFORMAT, "%s: its score is not a finite number", what);
    if (fy_token_table_put(t, id, text, false, e) != 0)
        return -1;
    t->rows[id].score = score;
    t->rows[id].type = (uint8_t)type;
    return 0;
}

enum { PIECE = 1, TRAINER, NORMALIZER }; /* messages by their field of ModelProto */

/* What is kept of trainer_spec and normalizer_spec. */
static const struct {
    uint32_t message, field;
    enum { FLAG, INT32, TEXT } kind;
    size_t offset; /* in fy_spm_info: a bool, an int64_t, a fy_span */
} spec_rows[] = {
    {TRAINER, 3, INT32, offsetof(fy_spm_info, model_type)},
    {TRAINER, 24, FLAG, offsetof(fy_spm_info, suffix_whitespace)},
    {TRAINER, 35, FLAG, offsetof(fy_spm_info, byte_fallback)},
    {TRAINER, 40, INT32, offsetof(fy_spm_info, unk_id)},
    {TRAINER, 41, INT32, offsetof(fy_spm_info, bos_id)},
    {TRAINER, 42, INT32, offsetof(fy_spm_info, eos_id)},
    {TRAINER, 43, INT32, offsetof(fy_spm_info, pad_id)},
    {NORMALIZER, 1, TEXT, offsetof(fy_spm_info, normalizer)},
    {NORMALIZER, 2, TEXT, offsetof(fy_spm_info, charsmap)},
    {NORMALIZER, 3, FLAG, offsetof(fy_spm_info, add_dummy_prefix)},
    {NORMALIZER, 4, FLAG, offsetof(fy_spm_info, remove_extra_whitespaces)},
    {NORMALIZER, 5, FLAG, offsetof(fy_spm_info, escape_whitespaces)},
};

static void keep_field(uint32_t message, const field *f, fy_spm_info *info)
{
    for (size_t i = 0; i < sizeof spec_rows / sizeof spec_rows[0]; i++) {
        void *to = (char *)info + spec_rows[i].offset;
        const uint32_t wire = spec_rows[i].kind == TEXT ? WIRE_BYTES : WIRE_VARINT;
        if (spec_rows[i].message != message || spec_rows[i].field != f->field || wire != f->wire)
            continue;
        if (spec_rows[i].kind == TEXT)
            *(fy_span *)to = f->bytes;
        else if (spec_rows[i].kind == FLAG)
            *(bool *)to = f->value != 0;
        else /* negative numbers are sign-extended to 64 bits */
            *(int64_t *)to = (int32_t)(uint32_t)f->value;
    }
}

static int read_spec(fy_span body, uint32_t message, fy_spm_info *info, fy_err *e)
{
    cursor c = sub(body);
    field f;
    int rc;
    while ((rc = next_field(&c, &f, message == TRAINER ? "trainer_spec" : "normalizer_spec", e)) ==
           1)
        keep_field(message, &f, info);
    return rc;
}

/* ModelProto: 1 pieces, 2 trainer_spec, 3 normalizer_spec. The defaults are the schema's. */
int fy_spm_parse(const void *p, size_t n, fy_token_table *t, fy_spm_info *info, fy_err *e)
{
    *info = (fy_spm_info){.model_type = FY_SPM_UNIGRAM,
                          .unk_id = 0,
                          .bos_id = 1,
                          .eos_id = 2,
                          .pad_id = -1,
                          .normalizer = {"", 0},
                          .charsmap = {"", 0},
                          .add_dummy_prefix = true,
                          .remove_extra_whitespaces = true,
                          .escape_whitespaces = true};
    cursor c = {.p = p, .n = n};
    field f;
    int rc;
    while ((rc = next_field(&c, &f, "SentencePiece model", e)) == 1) {
        if (f.wire != WIRE_BYTES)
            continue;
        if ((f.field == PIECE && read_piece(f.bytes, t, e) != 0) ||
            ((f.field == TRAINER || f.field == NORMALIZER) &&
             read_spec(f.bytes, f.field, info, e) != 0))
            return -1;
    }
    if (rc < 0)
        return -1;
    if (t->n == 0)
        return fy_fail(e, FY_EFORMAT, "SentencePiece model: %zu bytes without a single piece", n);
    return 0;
}

const char *fy_spm_type_name(int64_t model_type)
{
    static const char *const names[] = {"unknown", "Unigram", "BPE", "Word", "Char"};
    return model_type >= FY_SPM_UNIGRAM && model_type <= FY_SPM_CHAR ? names[model_type] : names[0];
}

/* === base64 === */

static int digit(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c != '\0' ? strchr(digits, c) : NULL;
    return at != NULL ? (int)(at - digits) : -1;
}

bool fy_base64_decode(fy_span s, fy_str *out)
{
    uint32_t bits = 0;
    unsigned n_bits = 0;
    for (int i = 0; i < 2 && s.len > 0 && s.ptr[s.len - 1] == '='; i++)
        s.len--;
    for (size_t i = 0; i < s.len; i++) {
        int d = digit(s.ptr[i]);
        if (d < 0)
            return false;
        bits = bits << 6 | (uint32_t)d;
        n_bits += 6;
        if (n_bits >= 8) {
            n_bits -= 8;
            fy_str_putc(out, (char)(bits >> n_bits & 0xFF));
        }
    }
    return true;
}

/* === vocabularies of lines === */

/* While lines are read; the strings are cleared before each. */
typedef struct {
    fy_token_table *t;
    fy_str bytes, text;
} line_reader;

typedef int read_line(fy_span line, line_reader *r, fy_err *e);

/* All lines that are not empty. */
static int read_lines(fy_span rest, read_line *one, fy_token_table *t, fy_err *e)
{
    line_reader r = {.t = t};
    int rc = 0;
    for (uint64_t number = 1; rc == 0 && rest.len > 0; number++) {
        fy_span line = fy_span_cut_line(&rest);
        fy_str_clear(&r.bytes);
        fy_str_clear(&r.text);
        if (line.len > 0 && one(line, &r, e) != 0)
            rc = fy_ctx(e, "line %llu", (unsigned long long)number);
    }
    fy_str_release(&r.bytes);
    fy_str_release(&r.text);
    return rc;
}

/* Digits only, and at most so many of them. */
static bool read_number(fy_span s, size_t most, uint64_t *out)
{
    *out = 0;
    for (size_t i = 0; i < s.len; i++) {
        if (i == most || s.ptr[i] < '0' || s.ptr[i] > '9')
            return false;
        *out = *out * 10 + (uint64_t)(s.ptr[i] - '0');
    }
    return s.len > 0;
}

/* === rank files === */

/* Longer than any token in use (Llama 3 has one of 128 spaces): finding the cuts of a token takes
 * quadratic time. */
enum { TOKEN_BYTES_MAX = 512 };

/* Appends the bytes in the byte alphabet. False: not base64, no bytes, or too many. */
static bool spell_base64(fy_span s, fy_str *out)
{
    fy_str bytes = {0};
    /* Four digits are three bytes. */
    bool ok = s.len <= TOKEN_BYTES_MAX / 3 * 4 + 4 && fy_base64_decode(s, &bytes) &&
              (bytes.oom || (bytes.len > 0 && bytes.len <= TOKEN_BYTES_MAX));
    for (size_t i = 0; ok && i < bytes.len; i++) {
        char c[3];
        size_t len;
        fy_bpe_spell_byte((uint8_t)bytes.ptr[i], c, &len);
        fy_str_add(out, c, len);
    }
    out->oom = out->oom || bytes.oom;
    fy_str_release(&bytes);
    return ok;
}

/* "base64 rank": the text is appended. */
static bool read_rank_line(fy_span line, fy_str *text, uint64_t *rank)
{
    const char *space = line.len > 0 ? memchr(line.ptr, ' ', line.len) : NULL;
    if (space == NULL)
        return false;
    size_t head = (size_t)(space - line.ptr);
    return read_number((fy_span){space + 1, line.len - head - 1}, 11, rank) &&
           spell_base64((fy_span){line.ptr, head}, text);
}

bool fy_rank_file_is(const void *p, size_t n)
{
    fy_span rest = {p, n};
    fy_str text = {0};
    uint64_t rank;
    bool is = n > 0 && read_rank_line(fy_span_cut_line(&rest), &text, &rank);
    fy_str_release(&text);
    return is;
}

static int put_rank_line(fy_span line, line_reader *r, fy_err *e)
{
    uint64_t rank;
    char q[FY_QUOTE_BYTES];
    if (!read_rank_line(line, &r->text, &rank))
        return fy_fail(e, FY_EFORMAT,
                       "'%s', expected the base64 of 1 to %d bytes, a space and a rank",
                       fy_quote(q, sizeof q, line), TOKEN_BYTES_MAX);
    if (r->text.oom)
        return fy_nomem(e);
    return fy_token_table_put(r->t, rank, (fy_span){r->text.ptr, r->text.len}, true, e);
}

typedef struct {
    uint32_t left, right; /* ids */
} cut;

static int by_ranks(const void *pa, const void *pb)
{
    const cut *a = pa, *b = pb;
    if (a->left != b->left)
        return a->left < b->left ? -1 : 1;
    return (a->right > b->right) - (a->right < b->right);
}

/* Every way to cut `text` in two tokens, in order. */
static size_t find_cuts(const fy_token_table *t, fy_span text, cut cuts[TOKEN_BYTES_MAX])
{
    size_t n = 0;
    uint32_t cp;
    for (size_t i = (size_t)fy_utf8_next(text.ptr, text.len, &cp); i < text.len;
         i += (size_t)fy_utf8_next(text.ptr + i, text.len - i, &cp)) {
        cut c;
        if (fy_token_table_find(t, (fy_span){text.ptr, i}, &c.left) &&
            fy_token_table_find(t, (fy_span){text.ptr + i, text.len - i}, &c.right))
            cuts[n++] = c;
    }
    qsort(cuts, n, sizeof *cuts, by_ranks);
    return n;
}

static int put_merges(const fy_token_table *t, fy_str *merges, fy_err *e)
{
    cut cuts[TOKEN_BYTES_MAX];
    for (uint32_t id = 0; id < t->n; id++) {
        if (id % 4096 == 0 && fy_check_interrupt(e) != 0)
            return -1;
        size_t n =
            t->rows[id].type != FY_TOKEN_UNDEFINED ? find_cuts(t, t->rows[id].text, cuts) : 0;
        for (size_t i = 0; i < n; i++) {
            fy_span l = t->rows[cuts[i].left].text, r = t->rows[cuts[i].right].text;
            fy_str_add(merges, l.ptr, l.len);
            fy_str_putc(merges, ' ');
            fy_str_add(merges, r.ptr, r.len);
            fy_str_putc(merges, '\n');
        }
    }
    return merges->oom ? fy_nomem(e) : 0;
}

int fy_rank_file_parse(const void *p, size_t n, fy_token_table *t, fy_str *merges, fy_err *e)
{
    if (read_lines((fy_span){p, n}, put_rank_line, t, e) != 0)
        return -1;
    if (t->n == 0)
        return fy_fail(e, FY_EFORMAT, "the rank file is empty");
    return put_merges(t, merges, e);
}

/* === the special tokens of Llama 3 === */

static const struct {
    const char *text;
    bool talks; /* occurs in conversations */
} named[] = {
    {"<|begin_of_text|>", true},
    {"<|end_of_text|>", true},
    {"<|reserved_special_token_0|>", false},
    {"<|reserved_special_token_1|>", false},
    {"<|finetune_right_pad_id|>", false},
    {"<|step_id|>", false},
    {"<|start_header_id|>", true},
    {"<|end_header_id|>", true},
    {"<|eom_id|>", true},
    {"<|eot_id|>", true},
    {"<|python_tag|>", false},
    {"<|image|>", false},
};
enum { N_NAMED = sizeof named / sizeof named[0] };

static int add_control(fy_token_table *t, const char *text, bool copy, fy_err *e)
{
    const uint32_t id = t->n;
    if (fy_token_table_put(t, id, fy_span_of(text), copy, e) != 0)
        return -1;
    t->rows[id].type = FY_TOKEN_CONTROL;
    t->rows[id].added = true;
    return 0;
}

int fy_meta_tokens_add(fy_token_table *t, uint64_t n_rows, fy_err *e)
{
    const bool all = n_rows == 0 || n_rows >= (uint64_t)t->n + FY_META_TOKENS;
    for (uint32_t i = 0; i < N_NAMED; i++) {
        if ((all || named[i].talks) && add_control(t, named[i].text, false, e) != 0)
            return -1;
    }
    for (uint32_t i = N_NAMED; all && i < FY_META_TOKENS; i++) {
        char text[48];
        snprintf(text, sizeof text, "<|reserved_special_token_%u|>", (unsigned)(i - N_NAMED + 2));
        if (add_control(t, text, true, e) != 0)
            return -1;
    }
    return 0;
}

/* A name, or numbers first to first + count - 1 of reserved ones. Source: meta-llama/llama-models,
 * models/llama4/tokenizer.py. */
static const struct {
    const char *name;
    uint16_t first, count;
} llama4_tokens[] = {
    {"begin_of_text", 0, 0},
    {"end_of_text", 0, 0},
    {"fim_prefix", 0, 0},
    {"fim_middle", 0, 0},
    {"fim_suffix", 0, 0},
    {"header_start", 0, 0},
    {"header_end", 0, 0},
    {"eom", 0, 0},
    {"eot", 0, 0},
    {"step", 0, 0},
    {"text_post_train_", 0, 6},
    {"python_start", 0, 0},
    {"python_end", 0, 0},
    {"finetune_right_pad", 0, 0},
    {"text_post_train_", 8, 61},
    {"image_start", 0, 0},
    {"image_end", 0, 0},
    {"vision_", 0, 2},
    {"tile_x_separator", 0, 0},
    {"tile_y_separator", 0, 0},
    {"vision_", 2, 4},
    {"image", 0, 0},
    {"vision_", 6, 1},
    {"patch", 0, 0},
    {"vision_", 7, 1041},
    {"reasoning_", 0, 8},
    {"reasoning_thinking_start", 0, 0},
    {"reasoning_thinking_end", 0, 0},
    {"", 0, 904},
};

int fy_llama4_tokens_add(fy_token_table *t, fy_err *e)
{
    for (size_t i = 0; i < sizeof llama4_tokens / sizeof *llama4_tokens; i++) {
        char text[64];
        const unsigned count = llama4_tokens[i].count;
        for (unsigned k = 0; k < (count > 0 ? count : 1); k++) {
            if (count > 0)
                snprintf(text, sizeof text, "<|%sreserved_special_token_%u|>",
                         llama4_tokens[i].name, llama4_tokens[i].first + k);
            else
                snprintf(text, sizeof text, "<|%s|>", llama4_tokens[i].name);
            if (add_control(t, text, true, e) != 0)
                return -1;
        }
    }
    return 0;
}

/* === RWKV World === */

/* The code of n hexadecimal digits at s; false: there are fewer. */
static bool read_hex(fy_span s, size_t n, uint32_t *out)
{
    *out = 0;
    for (size_t i = 0; i < n; i++) {
        int d = i < s.len ? fy_hex_digit(s.ptr[i]) : -1;
        if (d < 0)
            return false;
        *out = *out << 4 | (uint32_t)d;
    }
    return true;
}

/* One escape; s begins after the backslash. Its length; 0: unknown. */
static size_t read_escape(fy_span s, bool bytes, fy_str *out)
{
    static const char plain[] = "\\\\''\"\"n\nt\tr\r";
    uint32_t code;
    for (size_t i = 0; s.len > 0 && i + 1 < sizeof plain; i += 2) {
        if (s.ptr[0] == plain[i]) {
            fy_str_putc(out, plain[i + 1]);
            return 1;
        }
    }
    size_t digits = s.len == 0 ? 0 : s.ptr[0] == 'x' ? 2 : s.ptr[0] == 'u' && !bytes ? 4 : 0;
    if (digits == 0 || !read_hex((fy_span){s.ptr + 1, s.len - 1}, digits, &code) ||
        (code >= 0xD800 && code <= 0xDFFF))
        return 0;
    if (bytes)
        fy_str_putc(out, (char)code);
    else
        fy_str_put_utf8(out, code);
    return 1 + digits;
}

/* '...', "..." or the same after a b; appends the bytes. */
static bool read_literal(fy_span s, fy_str *out)
{
    bool bytes = s.len > 0 && s.ptr[0] == 'b';
    if (bytes)
        s = (fy_span){s.ptr + 1, s.len - 1};
    if (s.len < 2 || (s.ptr[0] != '\'' && s.ptr[0] != '"') || s.ptr[s.len - 1] != s.ptr[0])
        return false;
    const char quote = s.ptr[0];
    s = (fy_span){s.ptr + 1, s.len - 2};
    for (size_t i = 0; i < s.len;) {
        if (s.ptr[i] == quote)
            return false;
        size_t n = 1;
        if (s.ptr[i] != '\\')
            fy_str_putc(out, s.ptr[i]);
        else if ((n = read_escape((fy_span){s.ptr + i + 1, s.len - i - 1}, bytes, out)) == 0)
            return false;
        else
            n++;
        i += n;
    }
    return true;
}

static bool read_rwkv_line(fy_span line, uint64_t *id, uint64_t *n_bytes, fy_str *text)
{
    const char *first = line.len > 0 ? memchr(line.ptr, ' ', line.len) : NULL;
    const char *last = first != NULL ? memrchr(line.ptr, ' ', line.len) : NULL;
    if (last == first)
        return false;
    fy_span literal = {first + 1, (size_t)(last - first) - 1};
    fy_span count = {last + 1, line.len - (size_t)(last - line.ptr) - 1};
    return read_number((fy_span){line.ptr, (size_t)(first - line.ptr)}, 6, id) &&
           read_number(count, 6, n_bytes) && read_literal(literal, text);
}

bool fy_rwkv_vocab_is(const void *p, size_t n)
{
    fy_span rest = {p, n};
    fy_str text = {0};
    uint64_t id, n_bytes;
    bool is = n > 0 && read_rwkv_line(fy_span_cut_line(&rest), &id, &n_bytes, &text);
    fy_str_release(&text);
    return is;
}

/* As Python's repr(): quotes stay as they are unless both kinds occur. */
static void spell(fy_span bytes, fy_str *out)
{
    bool both = memchr(bytes.ptr, '\'', bytes.len) && memchr(bytes.ptr, '"', bytes.len);
    for (size_t i = 0; i < bytes.len; i++) {
        const unsigned char c = (unsigned char)bytes.ptr[i];
        if (c == '\\' || (c == '\'' && both))
            fy_str_printf(out, "\\%c", c);
        else if (c == '\t' || c == '\n' || c == '\r')
            fy_str_puts(out, c == '\t' ? "\\t" : c == '\n' ? "\\n" : "\\r");
        else if (c < 0x20 || c >= 0x7F)
            fy_str_printf(out, "\\x%02x", c);
        else
            fy_str_putc(out, (char)c);
    }
}

/* Of equal texts the reference takes the highest id. Readers of GGUF refuse two: the others, which
 * no text has then, stay without a token. Makes the index. */
static int keep_latest(fy_token_table *t, fy_err *e)
{
    for (uint32_t i = t->n; i-- > 1;) {
        uint32_t other = 0;
        if (t->rows[i].type == FY_TOKEN_UNDEFINED)
            continue;
        const int rc = fy_names_add(&t->index, t->rows[i].text, i);
        if (rc < 0)
            return fy_nomem(e);
        fy_names_find(&t->index, t->rows[i].text, &other);
        if (rc > 0 && other == 0)
            return fy_fail(e, FY_EFORMAT, "token %u: its text is that of token 0, which has none",
                           (unsigned)i);
        if (rc > 0)
            t->rows[i] = (fy_token_row){.type = FY_TOKEN_UNDEFINED};
    }
    t->unindexed = t->stale = false;
    return 0;
}

static int put_rwkv_line(fy_span line, line_reader *r, fy_err *e)
{
    uint64_t id, n_bytes;
    char q[FY_QUOTE_BYTES];
    const bool ok = read_rwkv_line(line, &id, &n_bytes, &r->bytes);
    if (r->bytes.oom)
        return fy_nomem(e);
    if (!ok)
        return fy_fail(e, FY_EFORMAT, "'%s', expected an id, a literal of Python and its length",
                       fy_quote(q, sizeof q, line));
    if (id == 0 || r->bytes.len == 0 || r->bytes.len != n_bytes)
        return fy_fail(e, FY_EFORMAT,
                       "token %llu has %zu bytes and is declared with %llu, expected the same, at "
                       "least one, and an id of at least 1",
                       (unsigned long long)id, r->bytes.len, (unsigned long long)n_bytes);
    spell((fy_span){r->bytes.ptr, r->bytes.len}, &r->text);
    if (r->text.oom)
        return fy_nomem(e);
    return fy_token_table_put(r->t, id, (fy_span){r->text.ptr, r->text.len}, true, e);
}

int fy_rwkv_vocab_parse(const void *p, size_t n, fy_token_table *t, fy_err *e)
{
    if (fy_token_table_put(t, 0, FY_SPAN("<s>"), false, e) != 0)
        return -1;
    t->rows[0].type = FY_TOKEN_CONTROL;
    t->unindexed = true;
    if (read_lines((fy_span){p, n}, put_rwkv_line, t, e) != 0 || keep_latest(t, e) != 0)
        return -1;
    return t->n > 1 ? 0 : fy_fail(e, FY_EFORMAT, "the vocabulary is empty");
}
