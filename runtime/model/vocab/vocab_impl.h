/* What the files of this directory share; nobody else includes it.
 *
 * A fy_vocab is filled once by vocab_load.c and never changes afterwards. What a call needs while
 * it works lives in a fy_encoder on the caller's stack, so threads share nothing they write. */
#ifndef FY_VOCAB_IMPL_H
#define FY_VOCAB_IMPL_H

#include "base/arena.h"
#include "model/vocab/pretok.h"
#include "model/vocab/vocab.h"

/* --- pieces.c: texts by id and ids by text; merge rules by pair --- */

typedef struct {
    uint32_t hash;     /* fy_names_hash of the text */
    uint32_t next_id;  /* id + 1; 0: the slot is empty */
    uint32_t off, len; /* of the text: one wait for memory less than by the id */
} fy_piece_slot;

typedef struct {
    uint32_t n;
    uint32_t longest; /* bytes of the longest piece */
    uint32_t *off;    /* n + 1 offsets into text */
    char *text;
    fy_piece_slot *slot; /* open addressing */
    uint64_t slot_mask;
} fy_pieces;

int fy_pieces_load(fy_pieces *p, fy_arena *a, const fy_gguf_kv *tokens, fy_err *e);
fy_span fy_pieces_at(const fy_pieces *p, int32_t id);
int32_t fy_pieces_id(const fy_pieces *p, fy_span text); /* the lowest id of several; -1 */

typedef struct {
    uint64_t key;  /* left id << 32 | right id */
    uint32_t rank; /* UINT32_MAX: the slot is empty */
    int32_t result;
} fy_merge_slot;

typedef struct {
    fy_merge_slot *slot;
    uint64_t mask;
} fy_merge_table;

/* Rules whose parts or result are no pieces can never apply; *unusable counts them. */
int fy_merge_table_load(fy_merge_table *m, fy_arena *a, const fy_gguf_kv *merges,
                        const fy_pieces *p, uint64_t *unusable, fy_err *e);
/* Rank of the rule left + right and the id it makes; UINT32_MAX: none. */
uint32_t fy_merge_table_find(const fy_merge_table *m, int32_t left, int32_t right, int32_t *result);

/* --- special.c: tokens that are cut out of the text before anything else --- */

typedef struct {
    fy_span text;
    int32_t id;
    uint8_t flags; /* FY_ADDED_* */
    bool always;   /* user-defined: also when specials are not parsed */
} fy_special;

typedef struct {
    fy_special *item; /* sorted by text */
    uint32_t n;
    uint32_t first[257]; /* items whose text begins with byte b: [first[b], first[b + 1]) */
} fy_specials;

void fy_specials_sort(fy_specials *s);

typedef struct {
    size_t begin, end; /* of the match, blanks that it eats included */
    int32_t id;
} fy_special_match;

/* The first match at or behind `pos`, the longest one there; false when there is none. */
bool fy_specials_next(const fy_specials *s, fy_span text, size_t pos, bool parse_special,
                      fy_special_match *m);

/* --- merge_queue.c: the merging both kinds share --- */

typedef struct {
    const char *ptr;     /* view of the text being encoded */
    uint32_t len;        /* bytes; 0 once it was merged into its left neighbour */
    int32_t id;          /* -1: no piece has this text */
    uint32_t prev, next; /* FY_NO_SYMBOL at the ends */
} fy_symbol;

#define FY_NO_SYMBOL UINT32_MAX

/* May a and b become one? Sets what decides the order (small first) and the id of the result. */
typedef bool fy_pair_fn(const fy_vocab *v, const fy_symbol *a, const fy_symbol *b, uint32_t *order,
                        int32_t *id);

typedef struct {
    uint64_t key; /* order << 32 | position: ties go to the leftmost */
    uint32_t len; /* bytes of both symbols; changed means another pair stands there now */
    int32_t id;
} fy_candidate;

typedef struct {
    const fy_vocab *v;
    fy_symbol *sym; /* owned */
    size_t n_sym, cap_sym;
    fy_candidate *heap; /* owned */
    size_t n_heap, cap_heap;
    fy_str text; /* spelled or normalised text */
    fy_str word; /* a word in the byte alphabet */
    fy_ids *out;
    bool parse_special;
} fy_encoder;

void fy_encoder_release(fy_encoder *enc);
int fy_encoder_add(fy_encoder *enc, fy_span text, int32_t id, fy_err *e);
/* Merges the symbols added since fy_encoder_clear, best pair first; those that remain keep len > 0.
 */
int fy_encoder_merge(fy_encoder *enc, fy_pair_fn *pair, fy_err *e);
void fy_encoder_clear(fy_encoder *enc);

/* --- the two kinds --- */

/* bpe.c. Text between special tokens, any bytes. */
int fy_bpe_encode(fy_encoder *enc, fy_span text, fy_err *e);
void fy_bpe_put(fy_span piece, fy_str *out); /* the bytes that a piece spells */

/* spm.c. at_start: the fragment is the beginning of the whole text. */
int fy_spm_encode(fy_encoder *enc, fy_span text, bool at_start, fy_err *e);

/* vocab.c: the value of a "<0x41>" text, -1 for others. */
int fy_byte_piece_value(fy_span piece);
bool fy_vocab_has(const fy_vocab *v, int32_t id); /* is this an id of the vocabulary? */

/* eog.c: fills v->mark: what ends generation and what is never sampled. */
int fy_vocab_mark(fy_vocab *v, const fy_gguf *g, fy_err *e);

/* --- the vocabulary --- */

typedef enum { FY_VOCAB_BPE, FY_VOCAB_SPM } fy_vocab_kind;
typedef enum {
    FY_PREFIX_NONE,
    FY_PREFIX_ALL,
    FY_PREFIX_METASPACE,
    FY_PREFIX_METASPACE_FIRST
} fy_space_prefix;

enum { FY_MARK_EOG = 1, FY_MARK_SUPPRESSED = 2, FY_MARK_MERGED = 4 /* FY_ADDED_MERGED */ };

struct fy_vocab {
    fy_arena arena; /* owns every array below */
    fy_vocab_kind kind;
    fy_pieces pieces;
    uint8_t *type;        /* fy_token_type of each id */
    uint8_t *mark;        /* FY_MARK_* of each id */
    int32_t byte_id[256]; /* the token of a single byte, -1 */
    int32_t bos, eos, unk;
    bool add_bos, add_eos;
    fy_specials raw;        /* matched in the text as given */
    fy_specials normalized; /* matched behind the normaliser (FY_ADDED_NORMALIZED) */

    fy_pretok_code *pretok; /* owned; BPE only, as the rest of this group */
    fy_merge_table merges;
    bool ignore_merges, nfc;

    float *score; /* SPM only, as the next two */
    fy_space_prefix space_prefix;
    bool strips_space; /* decode takes a blank off the beginning */
};

#endif
