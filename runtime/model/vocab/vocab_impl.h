/* What the files of this directory share; nobody else includes it.
 *
 * A fy_vocab is filled once by vocab_load.c and never changes afterwards. What a call needs while
 * it works lives in a fy_encoder on the caller's stack, so threads share nothing they write. */
#ifndef FY_VOCAB_IMPL_H
#define FY_VOCAB_IMPL_H

#include "base/arena.h"
#include "base/log.h"
#include "model/vocab/pretok.h"
#include "model/vocab/vocab.h"

/* --- pieces.c: texts by id and ids by text; merge rules by pair --- */

typedef struct {
    uint32_t hash;     /* fy_names_hash of the text */
    uint32_t next_id;  /* id + 1; 0: the slot is empty */
    uint32_t off, len; /* of the text: one wait for memory less than by the id */
} fy_input_slot;

typedef struct {
    uint32_t n;
    uint32_t longest; /* bytes of the longest piece */
    uint32_t *off;    /* n + 1 offsets into text */
    char *text;
    fy_input_slot *slot; /* open addressing */
    uint64_t slot_mask;
} fy_inputs;

int fy_inputs_load(fy_inputs *p, fy_arena *a, const fy_gguf_kv *tokens, fy_err *e);
fy_span fy_inputs_at(const fy_inputs *p, int32_t id);
int32_t fy_inputs_id(const fy_inputs *p, fy_span text); /* the lowest id of several; -1 */

typedef struct {
    uint64_t key;  /* left id << 32 | right id */
    uint32_t rank; /* UINT32_MAX: the slot is empty */
    int32_t result;
} fy_merge_slot;

typedef struct {
    fy_merge_slot *slot;
    uint64_t mask;
    uint64_t secret[2]; /* of the hash */
} fy_merge_table;

/* Rules whose parts or result are no pieces can never apply; *unusable counts them. */
int fy_merge_table_load(fy_merge_table *m, fy_arena *a, const fy_gguf_kv *merges,
                        const fy_inputs *p, uint64_t *unusable, fy_err *e);
/* Rank of the rule left + right and the id it makes; UINT32_MAX: none. */
uint32_t fy_merge_table_find(const fy_merge_table *m, int32_t left, int32_t right, int32_t *result);

/* --- prefixes.c: the texts that begin at a place of another text --- */

typedef struct {
    fy_span text; /* view; not empty */
    int32_t id;
} fy_prefix_item;

typedef struct {
    fy_prefix_item *item; /* view of the vocabulary's arena; sorted by text */
    uint32_t n;
    uint32_t first[257]; /* items whose text begins with byte b: [first[b], first[b + 1]) */
} fy_prefixes;

/* The items that begin with the bytes walked so far; begins as {0}. */
typedef struct {
    uint32_t lo, hi;
    size_t depth;
} fy_prefix_walk;

/* Sorts the items; of equal texts the one with the lowest id stays. */
int fy_prefixes_sort(fy_prefixes *p, fy_err *e);
/* One byte further. False: no text begins like this. *id: the item that ends here, -1. */
bool fy_prefixes_step(const fy_prefixes *p, fy_prefix_walk *w, uint8_t byte, int32_t *id);
/* Bytes of the longest text that s begins with, and its id; 0: none. *work grows by the steps. */
size_t fy_prefixes_longest(const fy_prefixes *p, fy_span s, int32_t *id, size_t *work);

/* --- prefixes.c: tokens that are cut out of the text before anything else --- */

typedef struct {
    fy_span text;
    int32_t id;
    int32_t next;  /* another item with this text and a higher id, -1 */
    uint8_t flags; /* FY_ADDED_* */
    bool always;   /* user-defined: also when specials are not parsed */
} fy_special;

typedef struct {
    fy_special *item; /* by id */
    uint32_t n;
    fy_prefixes by_text; /* the first item with each text */
} fy_specials;

int fy_specials_prepare(fy_specials *s, fy_arena *a, fy_err *e);

typedef struct {
    size_t begin, end; /* of the match, with the spaces that it takes */
    int32_t id;
} fy_special_match;

/* --- what a call to encode needs --- */

typedef struct {
    const char *ptr;     /* view of the text being encoded */
    uint32_t len;        /* bytes; 0 once it was merged into its left neighbour */
    int32_t id;          /* -1: no piece has this text */
    uint32_t prev, next; /* FY_NO_SYMBOL at the ends */
} fy_symbol;

#define FY_NO_SYMBOL UINT32_MAX

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
    size_t work; /* bytes looked at since the interrupt was polled */
    bool parse_special;
} fy_encoder;

/* The first match at or after `pos`, the longest one there. 1; 0: there is none; -1. */
int fy_specials_next(fy_encoder *enc, const fy_specials *s, fy_span text, size_t pos,
                     fy_special_match *m, fy_err *e);
/* To be called in every loop over a text: fails soon after the user has interrupted. */
static inline int fy_encoder_poll(fy_encoder *enc, size_t work, fy_err *e)
{
    enum { BETWEEN_POLLS = 1 << 18 };
    enc->work += work;
    if (enc->work < BETWEEN_POLLS)
        return 0;
    enc->work = 0;
    return fy_check_interrupt(e);
}

void fy_encoder_release(fy_encoder *enc);

/* Encodes text, any bytes, without special tokens. at_start: it is the beginning of the whole. */
typedef int fy_fragment_fn(fy_encoder *enc, fy_span text, bool at_start, fy_err *e);
/* The special tokens in text become their ids, what stands between them is `encode`'s. */
int fy_encode_around(fy_encoder *enc, const fy_specials *s, fy_span text, fy_fragment_fn *encode,
                     fy_err *e);

/* --- the kinds --- */

/* bpe.c */
fy_fragment_fn fy_bpe_encode, fy_spm_encode;
void fy_bpe_put(fy_span piece, fy_str *out); /* the bytes that a piece spells */

bool fy_begins_blank(fy_span text); /* with a space, however it is spelled */
/* Does a space go before this fragment? (FY_KEY_SPACE_PREFIX) */
bool fy_needs_blank(const fy_vocab *v, fy_span text, bool at_start);
/* Appends text with every space as FY_BLANK. */
void fy_spell_blanks(fy_str *out, fy_span text);

/* --- unigram.c: SentencePiece's normaliser map (precompiled_charsmap): which bytes at a place of a
 * text are written as which others. A double-array trie whose leaves are offsets of NUL-ended
 * texts. The bytes come from files: every step is checked against their bounds, and a map that
 * makes no sense finds nothing --- */

/* The longest text that is looked up. Those of nfkc have at most 18 bytes; the bound keeps a trie
 * with loops from reading a long text again at every place. */
enum { FY_CHARSMAP_KEY_MAX = 128 };

typedef struct {
    const uint8_t *unit; /* view: u32 each */
    uint32_t n_units;    /* 0: an empty map, which finds nothing */
    const char *text;    /* view: ends with a NUL */
    uint32_t n_text;
} fy_charsmap;

/* p must outlive the map. No bytes at all are an empty map. */
int fy_charsmap_parse(fy_charsmap *m, const void *p, size_t n, fy_err *e);

/* How many bytes at the beginning of s the longest rule, or the shortest, replaces, and by what; 0:
 * none. */
size_t fy_charsmap_match(const fy_charsmap *m, fy_span s, bool shortest, fy_span *by);

/* unigram.c */
typedef struct {
    fy_charsmap map;      /* view of the vocabulary's arena */
    fy_prefixes pieces;   /* normal and user-defined ones */
    fy_prefixes user;     /* user-defined ones: never normalised */
    double unknown_score; /* of a character that no piece spells */
    bool trims;           /* spaces at the ends and repeated ones are dropped */
    bool byte_fallback;   /* every byte has a token */
    bool by_words;        /* FY_KEY_UNIGRAM: as the tokenizers library does it ... */
    bool splits_blanks;   /* ... after WhitespaceSplit */
} fy_unigram;

/* The best way to cut a text up to here. */
typedef struct {
    double sum;
    uint32_t begin; /* of its last piece */
    uint32_t end;   /* of the piece that follows, in the way that is chosen */
    int32_t id;     /* of its last piece; -1: an unknown character */
    bool reached;
} fy_cut;

int fy_unigram_prepare(fy_vocab *v, fy_err *e); /* from pieces, types and scores */
fy_fragment_fn fy_unigram_encode;

/* rwkv.c */
int fy_rwkv_prepare(fy_vocab *v, fy_err *e);
fy_fragment_fn fy_rwkv_encode;

/* In loops over all tokens: fails once the user has interrupted; looked at now and then. */
static inline int fy_vocab_poll(uint32_t i, fy_err *e)
{
    return i % 65536 == 0 ? fy_check_interrupt(e) : 0;
}

/* vocab.c: the value of a "<0x41>" text, -1 for others. */
int fy_byte_piece_value(fy_span piece);
bool fy_vocab_has(const fy_vocab *v, int32_t id); /* is this an id of the vocabulary? */

/* --- the vocabulary --- */

typedef enum { FY_VOCAB_BPE, FY_VOCAB_SPM, FY_VOCAB_UNIGRAM, FY_VOCAB_RWKV } fy_vocab_kind;
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
    fy_inputs pieces;
    uint8_t *type;        /* fy_token_type of each id */
    uint8_t *mark;        /* FY_MARK_* of each id */
    int32_t byte_id[256]; /* the token of a single byte, -1; not of RWKV */
    int32_t bos, eos, unk;
    int32_t fim[FY_FIM_COUNT]; /* -1: none */
    bool add_bos, add_eos;
    fy_specials raw;        /* matched in the text as given */
    fy_specials normalized; /* matched after the normaliser (FY_ADDED_NORMALIZED) */

    fy_merge_table merges;  /* BPE, and SPM that merges by rank */
    fy_pretok_code *pretok; /* owned; BPE only, as the rest of this group */
    bool ignore_merges, nfc;

    bool by_rank; /* SPM that merges by rules ("gemma4") and not by scores */
    float *score; /* SPM and Unigram, as the next two */
    fy_space_prefix space_prefix;
    bool strips_space; /* decode takes a space off the beginning */

    fy_unigram unigram; /* Unigram only */

    fy_span *bytes;    /* RWKV only, as the next: what each piece spells */
    fy_prefixes world; /* by what they spell */
};

#endif
