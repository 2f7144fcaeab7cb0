#include "convert/tokenizer/spm_proto.h"

#include <math.h>
#include <stdio.h>

#include "base/math.h"
#include "base/str.h"

/* Wire format: a varint key (field << 3 | wire type), then a varint (0), 8 bytes (1), a length and
 * that many bytes (2), or 4 bytes (5). Groups (3, 4) do not occur in this schema. */
enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

typedef struct {
    const uint8_t *p;
    size_t n, pos;
} cursor;

typedef struct {
    uint32_t field, wire;
    uint64_t value; /* varint; 32 and 64 bit fields: the bits */
    fy_span bytes;  /* WIRE_BYTES */
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
    size_t left = c->n - c->pos;
    switch (f->wire) {
    case WIRE_VARINT:
        if (!read_varint(c, &f->value))
            goto cut;
        return 1;
    case WIRE_64:
        if (left < 8)
            goto cut;
        f->value = fy_le64(c->p + c->pos);
        c->pos += 8;
        return 1;
    case WIRE_32:
        if (left < 4)
            goto cut;
        f->value = fy_le32(c->p + c->pos);
        c->pos += 4;
        return 1;
    case WIRE_BYTES:
        if (!read_varint(c, &len) || len > c->n - c->pos)
            goto cut;
        f->bytes = (fy_span){(const char *)c->p + c->pos, (size_t)len};
        c->pos += (size_t)len;
        return 1;
    default:
        return fy_fail(e, FY_EFORMAT,
                       "%s: field %u at byte %zu has wire type %u, expected 0, 1, 2 or 5", what,
                       (unsigned)f->field, at, (unsigned)f->wire);
    }
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
            uint32_t bits = (uint32_t)f.value;
            score = fy_lef32(&bits);
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

/* int32 on the wire: negative numbers are sign-extended to 64 bits. */
static int64_t as_int32(uint64_t v)
{
    return (int32_t)(uint32_t)v;
}

static int read_trainer(fy_span body, fy_spm_info *info, fy_err *e)
{
    cursor c = sub(body);
    field f;
    int rc;
    while ((rc = next_field(&c, &f, "trainer_spec", e)) == 1) {
        if (f.wire != WIRE_VARINT)
            continue;
        switch (f.field) {
        case 3:
            info->model_type = as_int32(f.value);
            break;
        case 24:
            info->suffix_whitespace = f.value != 0;
            break;
        case 35:
            info->byte_fallback = f.value != 0;
            break;
        case 40:
            info->unk_id = as_int32(f.value);
            break;
        case 41:
            info->bos_id = as_int32(f.value);
            break;
        case 42:
            info->eos_id = as_int32(f.value);
            break;
        case 43:
            info->pad_id = as_int32(f.value);
            break;
        default:
            break;
        }
    }
    return rc;
}

static int read_normalizer(fy_span body, fy_spm_info *info, fy_err *e)
{
    cursor c = sub(body);
    field f;
    int rc;
    while ((rc = next_field(&c, &f, "normalizer_spec", e)) == 1) {
        if (f.field == 1 && f.wire == WIRE_BYTES)
            info->normalizer = f.bytes;
        else if (f.field == 2 && f.wire == WIRE_BYTES)
            info->charsmap = f.bytes;
        else if (f.field == 3 && f.wire == WIRE_VARINT)
            info->add_dummy_prefix = f.value != 0;
        else if (f.field == 4 && f.wire == WIRE_VARINT)
            info->remove_extra_whitespaces = f.value != 0;
        else if (f.field == 5 && f.wire == WIRE_VARINT)
            info->escape_whitespaces = f.value != 0;
    }
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
        if ((f.field == 1 && read_piece(f.bytes, t, e) != 0) ||
            (f.field == 2 && read_trainer(f.bytes, info, e) != 0) ||
            (f.field == 3 && read_normalizer(f.bytes, info, e) != 0))
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
